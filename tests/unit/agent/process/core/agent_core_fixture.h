// An agent core and the events around it, for tests of its decisions.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "agent/process/core/agent_core.h"
#include "base/wire/ids.h"
#include "tests/unit/effects.h"

namespace muster::agent {

inline constexpr absl::Duration kLease = absl::Seconds(10);

class AgentCoreTest : public ::testing::Test {
 protected:
  explicit AgentCoreTest(const std::function<void(v1::NodeConfig*)>& change = [](v1::NodeConfig*) {}) : core_(7) {
    host_.set_host_id("h");
    host_.set_agent_number(1);
    host_.set_host_pid(50);
    host_.set_offer_port(4000);
    host_.mutable_memory()->set_joined_boot_ns(ToBootNanos(now_));
    v1::NodeConfig* config = host_.mutable_config();
    config->set_run_id("job");
    config->set_hostname("n1");
    config->mutable_whereabouts()->set_process("this");
    (*config->mutable_facts())["NCCL_DEBUG"] = "INFO";
    config->set_role(v1::ROLE_TRAINER);
    config->set_place(1);
    config->set_lease_ms(absl::ToInt64Milliseconds(kLease));
    config->set_join_timeout_ms(600'000);
    config->set_coordinator_timeout_ms(900'000);
    config->mutable_primary()->set_host("primary");
    config->mutable_primary()->set_port(2222);
    change(config);
    Host();
    host_.clear_config();
  }

  void Host() {
    host_.set_seq(host_.seq() + 1);
    core_.OnHostStatus(now_, host_, &effects_);
  }

  // The host applies the last directive.
  void HostApplies() {
    *host_.mutable_memory() = Took<SendToHost>().back().directive.memory();
    Host();
  }

  void Connected() { core_.OnConnected(now_, "10.0.0.2", &effects_); }

  v1::Directive Directive(uint64_t seq, uint64_t epoch = 1) {
    v1::Directive directive;
    directive.set_protocol(kProtocol);
    directive.mutable_id()->mutable_epoch()->set_number(epoch);
    directive.mutable_id()->set_seq(seq);
    if (const auto sent = Took<SendToCoordinator>(); !sent.empty())
      *directive.mutable_echo() = sent.back().status.id();
    directive.mutable_wait()->set_reason("waiting");
    return directive;
  }

  v1::Directive Run(uint64_t seq, uint64_t number) {
    v1::Directive directive = Directive(seq);
    v1::Round* run = directive.mutable_run();
    run->mutable_id()->set_number(number);
    run->mutable_id()->mutable_epoch()->set_number(1);
    run->set_node_rank(1);
    run->set_node_count(2);
    directive.mutable_lease()->set_duration_ms(absl::ToInt64Milliseconds(kLease));
    return directive;
  }

  void Give(const v1::Directive& directive) { core_.OnDirective(now_, directive, &effects_); }

  void Pass(absl::Duration duration, bool host_speaks = true) {
    const BootTime until = now_ + duration;
    while (now_ < until && !core_.finished()) {
      now_ += kTick;
      if (host_speaks) Host();
      core_.OnTick(now_, &effects_);
    }
  }

  template <typename T>
  std::vector<T> Took() {
    return AllOf<T>(effects_);
  }
  void Forget() { effects_.clear(); }
  v1::AgentStatus LastStatus() { return Took<SendToCoordinator>().back().status; }
  bool IsToldToExit() {
    const auto orders = Took<SendToHost>();
    return !orders.empty() && orders.back().directive.has_exit();
  }
  v1::HostDirective LastOrder() { return Took<SendToHost>().back().directive; }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  AgentCore core_;
  v1::HostStatus host_;
  Effects effects_;
  bool flip_ = false;
};

}  // namespace muster::agent
