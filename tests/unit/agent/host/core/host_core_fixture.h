// A host core and the events around it, for tests of its decisions.
#pragma once

#include <gtest/gtest.h>

#include "agent/host/core/host_core.h"
#include "tests/unit/effects.h"

namespace muster::host {

inline constexpr absl::Duration kLease = absl::Seconds(10);
inline constexpr absl::Duration kGrace = absl::Seconds(30);
inline constexpr absl::Duration kCoordinatorTimeout = absl::Minutes(5);

class HostCoreTest : public ::testing::Test {
 protected:
  explicit HostCoreTest(bool single_node = false) : HostCoreTest(Options(single_node)) {}
  explicit HostCoreTest(const HostOptions& options) : core_(options) {
    core_.Begin(now_, &effects_);
    core_.OnOffer(now_, 4000, &effects_);
  }

  static HostOptions Options(bool single_node) {
    HostOptions options;
    options.host_id = "h";
    options.config.set_slots(2);
    options.config.set_hostname("n0");
    options.config.set_single_node(single_node);
    options.config.set_lease_ms(absl::ToInt64Milliseconds(kLease));
    options.config.set_shutdown_grace_ms(absl::ToInt64Milliseconds(kGrace));
    options.config.set_coordinator_timeout_ms(absl::ToInt64Milliseconds(kCoordinatorTimeout));
    options.termination_grace = absl::Seconds(8);
    return options;
  }

  static v1::Round Round(uint64_t number) {
    v1::Round round;
    round.mutable_id()->set_number(number);
    round.set_node_rank(1);
    round.set_first_rank(2);
    round.set_world_size(4);
    return round;
  }

  // A directive of the agent, with a lease that ends in `lease`.
  v1::HostDirective Directive(absl::Duration lease = kLease) {
    v1::HostDirective directive;
    directive.set_agent_number(core_.agent_number());
    directive.set_seq(++seq_);
    directive.set_lease_deadline_boot_ns(ToBootNanos(now_ + lease));
    directive.set_hold(true);
    return directive;
  }

  void Give(const v1::HostDirective& directive) { core_.OnDirective(now_, directive, &effects_); }

  void Start(uint64_t number) {
    v1::HostDirective directive = Directive();
    *directive.mutable_start() = Round(number);
    Give(directive);
  }

  // Starts a round whose two workers execute.
  void Run(uint64_t number) {
    Start(number);
    std::vector<v1::Worker> workers(2);
    for (int i = 0; i < 2; ++i) {
      workers[static_cast<size_t>(i)].set_local_rank(i);
      workers[static_cast<size_t>(i)].set_pid(100 + i);
    }
    core_.OnSpawned(now_, workers, &effects_);
    core_.OnExecuting(now_, 0, &effects_);
    core_.OnExecuting(now_, 1, &effects_);
  }

  void Exit(int local_rank, int code) { core_.OnExit(now_, local_rank, Ended(false, code), &effects_); }
  static Ending Ended(bool by_signal, int number) {
    Ending ending;
    ending.by_signal = by_signal;
    ending.number = number;
    return ending;
  }
  // Nothing of the round is left, and what it wrote last was read.
  void Swept(const std::string& last_lines = "") {
    core_.OnSwept(now_, "", &effects_);
    core_.OnRoundOutput(now_, last_lines, &effects_);
  }

  // Lets time pass in ticks; the agent may go on sending heartbeats and granting a lease.
  void Pass(absl::Duration duration, bool beating = true, bool granting = true) {
    const BootTime until = now_ + duration;
    while (now_ < until && !core_.finished()) {
      now_ += kTick;
      if (beating) {
        v1::HostDirective directive = Directive();
        if (!granting) directive.set_lease_deadline_boot_ns(1);
        Give(directive);
      }
      core_.OnTick(now_, &effects_);
    }
  }

  // A heartbeat of the agent that contains the coordinator; `others`: whether other nodes use it.
  void Serve(bool others) {
    v1::HostDirective directive = Directive();
    directive.set_serves_others(others);
    Give(directive);
    core_.OnTick(now_, &effects_);
  }

  template <typename T>
  std::vector<T> Took() {
    return AllOf<T>(effects_);
  }
  void Forget() { effects_.clear(); }
  v1::HostStatus LastStatus() { return Took<SendStatus>().back().status; }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  HostCore core_;
  Effects effects_;
  uint64_t seq_ = 0;
};

}  // namespace muster::host
