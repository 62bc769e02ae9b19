// An agent between an honest host and whoever answers in the coordinator's place, without a token, and may send
// any directive: the bytes are the order of events and the directives. Whatever comes, the core goes on and what
// it tells the host is sound.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "agent/process/core/agent_core.h"
#include "base/core/check.h"
#include "base/wire/ids.h"
#include "tests/fuzz/bytes.h"

namespace muster::fuzz {
namespace {

using agent::AgentCore;

constexpr int kSlots = 2;
constexpr int kMaxTicks = 64;  // in one event

v1::NodeConfig ConfigFor(uint8_t choice) {
  v1::NodeConfig config;
  config.set_run_id("run");
  config.set_hostname("node");
  config.set_role((choice & 1) != 0 ? v1::ROLE_OBSERVER : v1::ROLE_TRAINER);
  if ((choice & 2) != 0) config.set_place(1);
  config.set_min_nodes(2);
  config.set_max_nodes((choice & 4) != 0 ? 4 : 2);
  config.set_slots(kSlots);
  config.set_serves((choice & 8) != 0 ? v1::NodeConfig::SERVES_YES : v1::NodeConfig::SERVES_NO);
  config.set_split((choice & 16) != 0);
  config.set_lease_ms((choice & 32) != 0 ? 1'000 : 10'000);
  config.set_join_timeout_ms(600'000);
  config.set_rejoin_timeout_ms(600'000);
  config.set_coordinator_timeout_ms(900'000);
  config.set_reconnect_grace_ms(2'000);
  config.set_shutdown_grace_ms(30'000);
  config.mutable_primary()->set_host("primary");
  config.mutable_primary()->set_port(29'400);
  return config;
}

class Node {
 public:
  explicit Node(uint8_t choice) : core_(choice) {
    host_.set_host_id("host");
    host_.set_agent_number(1);
    host_.set_host_pid(50);
    host_.set_offer_port(4'000);
    host_.mutable_memory()->set_joined_boot_ns(ToBootNanos(now_));
    *host_.mutable_config() = ConfigFor(choice);
    Report();
    host_.clear_config();
  }

  void Play(Bytes* in);

 private:
  void Report() {
    host_.set_seq(host_.seq() + 1);
    Feed(&AgentCore::OnHostStatus, host_);
  }
  void Apply();
  void Direct(std::string_view bytes);
  void Pass(int ticks);
  void CarryOut(const agent::Effects& effects);
  void Receive(const v1::HostDirective& directive);

  template <typename Event, typename... Payload>
  void Feed(Event event, const Payload&... payload) {
    if (over_) return;
    agent::Effects effects;
    (core_.*event)(now_, payload..., &effects);
    CarryOut(effects);
  }

  BootTime now_ = absl::UnixEpoch() + absl::Hours(1);
  AgentCore core_;
  v1::HostStatus host_;
  v1::HostDirective order_;  // the newest
  v1::Directive directive_;  // what an honest coordinator might say next
  v1::StatusId told_;        // the agent's newest status
  bool over_ = false;        // the agent has left
};

// The host stores the agent's memory and does what it was told.
void Node::Apply() {
  if (order_.seq() == 0) return;
  *host_.mutable_memory() = order_.memory();
  host_.set_applied_seq(order_.seq());
  if (order_.has_start()) {
    *host_.mutable_started() = order_.start().id();
    host_.set_phase(v1::HOST_PHASE_RUNNING);
  } else if (order_.has_stop() || order_.has_exit()) {
    host_.set_phase(v1::HOST_PHASE_IDLE);
  }
  Report();
}

void Node::Direct(std::string_view bytes) {
  v1::Directive& next = directive_;
  next.set_protocol(kProtocol);
  if (next.id().epoch().number() == 0) next.mutable_id()->mutable_epoch()->set_number(1);
  next.mutable_id()->set_seq(next.id().seq() + 1);
  *next.mutable_echo() = told_;
  if (!next.has_lease()) next.mutable_lease()->set_duration_ms(10'000);
  if (next.order_case() == v1::Directive::ORDER_NOT_SET) next.mutable_wait()->set_reason("waiting");
  v1::Directive said = next, changes;
  if (changes.ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size()))) said.MergeFrom(changes);
  if (said.has_run() || said.has_stop()) directive_ = said;
  Feed(&AgentCore::OnDirective, said);
}

void Node::Pass(int ticks) {
  for (int tick = 0; tick < ticks; ++tick) {
    now_ += kTick;
    Report();
    Feed(&AgentCore::OnTick);
  }
}

void Node::CarryOut(const agent::Effects& effects) {
  for (const agent::Effect& effect : effects) {
    MUSTER_CHECK(!over_, "nothing follows the end of an agent");
    if (const auto* send = std::get_if<agent::SendToHost>(&effect)) {
      Receive(send->directive);
    } else if (const auto* status = std::get_if<agent::SendToCoordinator>(&effect)) {
      const v1::StatusId& id = status->status.id();
      MUSTER_CHECK(status->status.protocol() == kProtocol && id.seq() > told_.seq(), "each status is a newer one");
      told_ = id;
    } else if (const auto* note = std::get_if<Note>(&effect)) {
      for (const char c : note->text) MUSTER_CHECK(c != '\n', "a line of the log is one line");
    } else if (std::holds_alternative<agent::ExitAgent>(effect)) {
      over_ = true;
    }
  }
}

void Node::Receive(const v1::HostDirective& directive) {
  MUSTER_CHECK(directive.seq() > order_.seq(), "each order is newer than the one before");
  MUSTER_CHECK(directive.lease_deadline_boot_ns() >= order_.lease_deadline_boot_ns(),
               "a lease that was granted is not taken back");
  if (directive.has_start()) {
    MUSTER_CHECK(directive.start().has_node_rank(), "only a member starts a round");
    MUSTER_CHECK(directive.start().id().number() >= order_.start().id().number() || !order_.has_start() ||
                     !Same(directive.start().id().epoch(), order_.start().id().epoch()),
                 "rounds of one coordinator follow each other");
  }
  if (order_.has_exit()) MUSTER_CHECK(directive.has_exit(), "an end is final");
  order_ = directive;
}

void Node::Play(Bytes* in) {
  enum { kDirect, kApply, kConnect, kDisconnect, kPass, kRefuse, kHostEnds, kSay };
  while (!in->empty() && !over_) {
    const uint8_t event = in->Byte();
    switch (event & 7) {
      case kDirect:
        Direct(in->Take(in->Byte()));
        break;
      case kSay:
        Direct("");
        break;
      case kApply:
        Apply();
        break;
      case kConnect:
        Feed(&AgentCore::OnConnected, std::string("127.0.0.2"));
        break;
      case kDisconnect:
        Feed(&AgentCore::OnDisconnected, std::string("gone"), 0);
        break;
      case kRefuse:
        Feed(&AgentCore::OnDisconnected, std::string("another token"), 77);
        break;
      case kPass:
        Pass(in->Byte() % kMaxTicks);
        break;
      case kHostEnds:
        Feed(&AgentCore::OnHostLinkClosed);
        if ((event & 8) != 0) Feed(&AgentCore::OnHostClosed);
        if ((event & 16) != 0) Feed(&AgentCore::OnHostSwept);
        break;
    }
  }
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  muster::fuzz::Bytes in(data, size);
  muster::fuzz::Node(in.Byte()).Play(&in);
  return 0;
}
