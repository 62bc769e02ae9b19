// A coordinator with two hosts that behave, and two that may send any status: the bytes are the order
// of events and what the two say. Whatever they do, the core goes on, its directives are sound, and the guarantees
// hold for the honest ones.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"
#include "base/wire/ids.h"
#include "base/wire/ranges.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/coordinator.h"
#include "tests/fuzz/bytes.h"
#include "tests/unit/longest_texts.h"

namespace muster::fuzz {
namespace {

using rendezvous::Coordinator;
using rendezvous::CoordinatorOptions;
using rendezvous::Effects;
using rendezvous::StreamId;

constexpr size_t kHosts = 4, kHonest = 2;
constexpr int kSlots = 2;
constexpr absl::Duration kBeat = absl::Seconds(1);  // of the honest hosts
constexpr int kMaxTicks = 64;                       // in one event

CoordinatorOptions OptionsFor(uint8_t choice) {
  CoordinatorOptions options;
  options.run_id = "run";
  options.min_nodes = 1 + (choice & 1);
  options.max_nodes = options.min_nodes + ((choice >> 1) & 3);
  options.max_restarts = (choice >> 3) & 3;
  options.in_agent = (choice & 32) != 0;
  options.exclude_after = (choice & 64) != 0 ? 1 : 0;
  options.join_settle = (choice & 128) != 0 ? absl::Seconds(1) : absl::ZeroDuration();
  return options;
}

struct Host {
  v1::AgentStatus status;
  StreamId stream = 0;  // 0: it is not connected
  bool admitted = false;
  v1::Directive told;
  BootTime spoke = absl::InfinitePast();
  std::map<uint64_t, BootTime> sent;  // statuses of this agent, by seq
  BootTime lease_end = absl::InfinitePast();
  bool mute = false;

  bool runs() const { return status.live_workers() > 0; }
};

class Job {
 public:
  Job(uint8_t choice, uint64_t entropy) : options_(OptionsFor(choice)), coordinator_(options_, now_, entropy) {
    for (size_t i = 0; i < kHosts; ++i) {
      v1::AgentStatus& status = hosts_[i].status;
      status.set_protocol(kProtocol);
      status.set_run_id("run");
      status.set_host_id(absl::StrCat("host", i));
      status.mutable_id()->set_agent_number(1);
      status.set_role(v1::ROLE_TRAINER);
      status.set_slots(kSlots);
      status.set_phase(v1::PHASE_READY);
      status.mutable_offer()->set_host("127.0.0.1");
      status.mutable_offer()->set_port(static_cast<uint32_t>(5000 + i));
    }
  }

  void Play(Bytes* in);

 private:
  static bool IsHonest(size_t i) { return i < kHonest; }

  void Say(size_t i, v1::AgentStatus status);
  void SayBytes(size_t i, std::string_view bytes);
  void Beat(size_t i) { Say(i, hosts_[i].status); }
  void Apply(size_t i);
  void EndRound(size_t i, uint8_t how);
  void Close(size_t i);
  void Reattach(size_t i);
  void Pass(int ticks);
  void EndLeases();
  void CarryOut(const Effects& effects);
  void Receive(Host* host, const v1::Directive& directive);
  void CheckRound(const Host& host, const v1::Round& round) const;
  void CheckVerdict(const v1::Verdict& verdict);
  size_t OwnerOf(StreamId stream) const;

  template <typename Event, typename... Payload>
  void Feed(Event event, const Payload&... payload) {
    Effects effects;
    (coordinator_.*event)(now_, payload..., &effects);
    CarryOut(effects);
  }

  BootTime now_ = absl::UnixEpoch() + absl::Hours(1);
  const CoordinatorOptions options_;
  Coordinator coordinator_;
  std::array<Host, kHosts> hosts_;
  StreamId next_stream_ = 1;
  std::optional<v1::Verdict> verdict_;  // the first that somebody was told
};

size_t Job::OwnerOf(StreamId stream) const {
  const auto it =
      std::find_if(hosts_.begin(), hosts_.end(), [stream](const Host& host) { return host.stream == stream; });
  return static_cast<size_t>(it - hosts_.begin());
}

void Job::Say(size_t i, v1::AgentStatus status) {
  Host& host = hosts_[i];
  if (host.stream == 0) {
    host.stream = next_stream_++;
    host.admitted = false;
  }
  host.status.mutable_id()->set_seq(host.status.id().seq() + 1);
  if (IsHonest(i)) *status.mutable_id() = host.status.id();
  host.sent[status.id().seq()] = now_;
  host.spoke = now_;
  Feed(&Coordinator::OnStatus, host.stream, status);
}

// In the name that it gives: the door lets it speak for no other host.
void Job::SayBytes(size_t i, std::string_view bytes) {
  v1::AgentStatus status = hosts_[i].status;
  status.mutable_id()->set_seq(status.id().seq() + 1);
  v1::AgentStatus changes;
  if (changes.ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    if (bytes.size() % 4 == 3) Lengthen(&changes);  // bytes alone never make a text as long as it may be
    status.MergeFrom(changes);
  }
  status.set_host_id(hosts_[i].status.host_id());
  Say(i, status);
}

// An honest host does what it was told.
void Job::Apply(size_t i) {
  Host& host = hosts_[i];
  v1::AgentStatus& s = host.status;
  *s.mutable_applied() = host.told.id();
  *s.mutable_epoch() = host.told.id().epoch();
  if (host.told.has_run() && !Same(s.last().id(), host.told.run().id())) {
    s.set_phase(v1::PHASE_RUNNING);
    s.set_live_workers(kSlots);
    s.set_outcome(v1::OUTCOME_RAN);
    s.clear_failure();
    *s.mutable_last() = host.told.run();
  }
  if (Compare(host.told.greatest().id(), s.last().id()) > 0) {
    *s.mutable_last() = host.told.greatest();
    s.mutable_last()->clear_primary_ended();
    s.set_outcome(v1::OUTCOME_TOLD);
  }
  if (host.told.has_stop() || host.told.has_verdict()) {
    s.set_phase(v1::PHASE_READY);
    s.set_live_workers(0);
    if (s.outcome() == v1::OUTCOME_RAN) s.set_outcome(v1::OUTCOME_STOPPED);
  }
  if (host.told.has_verdict()) *s.mutable_verdict() = host.told.verdict();
  Beat(i);
}

void Job::EndRound(size_t i, uint8_t how) {
  v1::AgentStatus& s = hosts_[i].status;
  if (!IsHonest(i)) {
    s.set_phase(static_cast<v1::Phase>(how % 10));
    s.set_outcome(static_cast<v1::Outcome>(how / 10 % 7));
  } else if (s.outcome() == v1::OUTCOME_RAN && s.phase() == v1::PHASE_RUNNING) {
    const bool failed = (how & 1) != 0;
    s.set_phase(failed ? v1::PHASE_FAILED : v1::PHASE_SUCCEEDED);
    s.set_outcome(failed ? v1::OUTCOME_FAILED : v1::OUTCOME_SUCCEEDED);
    s.set_live_workers(0);
    if (failed) {
      *s.mutable_failure()->mutable_round() = s.last().id();
      s.mutable_failure()->set_exit_code(1 + how / 2);
      s.mutable_failure()->set_texts_digest(1);
    }
  }
  Beat(i);
}

void Job::Close(size_t i) {
  const StreamId stream = std::exchange(hosts_[i].stream, 0);
  if (stream != 0) Feed(&Coordinator::OnClosed, stream);
}

// A new agent of the host.
void Job::Reattach(size_t i) {
  Host& host = hosts_[i];
  host.stream = 0;
  host.sent.clear();
  host.status.mutable_id()->set_agent_number(host.status.id().agent_number() + 1);
  Beat(i);
}

void Job::Pass(int ticks) {
  for (int tick = 0; tick < ticks; ++tick) {
    now_ += kTick;
    EndLeases();
    Feed(&Coordinator::OnTick);
    for (size_t i = 0; i < kHonest; ++i) {
      if (!hosts_[i].mute && now_ - hosts_[i].spoke >= kBeat) Beat(i);
    }
  }
}

void Job::EndLeases() {
  for (size_t i = 0; i < kHonest; ++i) {
    v1::AgentStatus& s = hosts_[i].status;
    if (!hosts_[i].runs() || now_ < hosts_[i].lease_end) continue;
    s.set_phase(v1::PHASE_READY);
    s.set_live_workers(0);
    s.set_outcome(v1::OUTCOME_LEASE_ENDED);
  }
}

void Job::CarryOut(const Effects& effects) {
  for (const rendezvous::Effect& effect : effects) {
    if (const auto* admit = std::get_if<rendezvous::AdmitStream>(&effect)) {
      if (const size_t i = OwnerOf(admit->stream); i < kHosts) hosts_[i].admitted = true;
    } else if (const auto* send = std::get_if<rendezvous::SendDirective>(&effect)) {
      if (const size_t i = OwnerOf(send->stream); i < kHosts) Receive(&hosts_[i], send->directive);
    } else if (const auto* close = std::get_if<rendezvous::CloseStream>(&effect)) {
      if (const size_t i = OwnerOf(close->stream); i < kHosts) hosts_[i].stream = 0;
    } else if (const auto* note = std::get_if<Note>(&effect)) {
      for (const char c : note->text) MUSTER_CHECK(c != '\n', "a line of the log is one line");
    }
  }
}

void Job::Receive(Host* host, const v1::Directive& directive) {
  MUSTER_CHECK(directive.protocol() == kProtocol || directive.has_refused(), "a directive is of our protocol");
  if (directive.has_refused()) return;
  MUSTER_CHECK(OutOfRange(directive).empty(), "agents obey each directive");
  MUSTER_CHECK(host->admitted, "no agent is told anything before it is admitted");
  MUSTER_CHECK(
      !Same(directive.id().epoch(), host->told.id().epoch()) || directive.id().seq() > host->told.id().seq(),
      "each directive is newer than the one before");
  if (directive.has_lease()) {
    const auto echoed = host->sent.find(directive.echo().seq());
    const bool own = directive.echo().agent_number() == host->status.id().agent_number();
    if (own && echoed != host->sent.end()) {
      const BootTime end = echoed->second + absl::Milliseconds(directive.lease().duration_ms());
      host->lease_end = std::max(host->lease_end, end);
    }
  }
  if (directive.has_run()) CheckRound(*host, directive.run());
  if (directive.has_verdict()) CheckVerdict(directive.verdict());
  host->told = directive;
}

void Job::CheckRound(const Host& host, const v1::Round& round) const {
  MUSTER_CHECK(round.node_rank() >= 0 && round.node_rank() < round.node_count(), "a rank is one of the round's");
  MUSTER_CHECK(round.node_count() >= options_.min_nodes && round.node_count() <= options_.max_nodes,
               "a round has between MIN and MAX nodes");
  MUSTER_CHECK(round.first_rank() >= 0 && round.first_rank() < round.world_size(), "workers have ranks");
  for (size_t i = 0; i < kHonest; ++i) {
    const Host& other = hosts_[i];
    if (&other == &host) continue;
    if (other.told.has_run() && Same(other.told.run().id(), round.id())) {
      MUSTER_CHECK(other.told.run().node_rank() != round.node_rank(), "no two nodes have one rank");
    }
    const bool another = other.runs() && !Same(other.status.last().id(), round.id());
    MUSTER_CHECK(!another || now_ >= other.lease_end, "never two rounds at once");
  }
}

void Job::CheckVerdict(const v1::Verdict& verdict) {
  if (!verdict_) {
    const bool made_here = Same(coordinator_.greatest().id().epoch(), coordinator_.epoch());
    for (size_t i = 0; i < kHonest && made_here; ++i) {
      const Host& host = hosts_[i];
      const bool runs = host.runs() && Same(host.status.last().id(), coordinator_.greatest().id());
      MUSTER_CHECK(verdict.exit_code() != 0 || !runs || now_ >= host.lease_end,
                   "the job does not succeed while an honest part of it runs");
    }
    verdict_ = verdict;
  }
  MUSTER_CHECK(verdict_->digest() == verdict.digest() && verdict_->exit_code() == verdict.exit_code(),
               "a verdict is final");
}

void Job::Play(Bytes* in) {
  enum { kSay, kSayBytes, kApply, kEnd, kClose, kPass, kReattach, kMute };
  while (!in->empty()) {
    const uint8_t event = in->Byte();
    const size_t i = (event >> 3) % kHosts;
    switch (event & 7) {
      case kSay:
        Beat(i);
        break;
      case kSayBytes:
        IsHonest(i) ? Beat(i) : SayBytes(i, in->Take(in->Byte()));
        break;
      case kApply:
        if (hosts_[i].told.has_id()) Apply(i);
        break;
      case kEnd:
        EndRound(i, in->Byte());
        break;
      case kClose:
        Close(i);
        break;
      case kPass:
        Pass(in->Byte() % kMaxTicks);
        break;
      case kReattach:
        Reattach(i);
        break;
      case kMute:
        hosts_[i].mute = !hosts_[i].mute;
        break;
    }
  }
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  muster::fuzz::Bytes in(data, size);
  const uint8_t choice = in.Byte();
  muster::fuzz::Job(choice, in.Byte()).Play(&in);
  return 0;
}
