// The host core, step by step: starts, stops, the lease, agents, the end.
#include "agent/host/core/host_core.h"

#include <gtest/gtest.h>

#include <csignal>

namespace muster::host {
namespace {

constexpr absl::Duration kLease = absl::Seconds(10);
constexpr absl::Duration kGrace = absl::Seconds(30);
constexpr absl::Duration kCoordinatorTimeout = absl::Minutes(5);

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

  // An agent's directive, with a lease that ends `lease` from now.
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
  void Swept() { core_.OnSwept(now_, "", &effects_); }

  // Time passes in ticks; the agent goes on beating, with or without a lease.
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

  template <typename T>
  std::vector<T> Took() {
    std::vector<T> found;
    for (const Effect& effect : effects_) {
      if (const T* one = std::get_if<T>(&effect)) found.push_back(*one);
    }
    return found;
  }
  void Forget() { effects_.clear(); }
  v1::HostStatus LastStatus() { return Took<SendStatus>().back().status; }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  HostCore core_;
  Effects effects_;
  uint64_t seq_ = 0;
};

class SingleNodeHostCoreTest : public HostCoreTest {
 protected:
  SingleNodeHostCoreTest() : HostCoreTest(true) {}
};

TEST_F(HostCoreTest, BeginStartsTheFirstAgentAndTellsItTheConfiguration) {
  ASSERT_EQ(Took<StartAgent>().size(), 1u);
  EXPECT_EQ(Took<StartAgent>()[0].number, 1u);
  EXPECT_TRUE(Took<SendStatus>()[0].status.has_config());
}

TEST_F(HostCoreTest, ARoundIdIsStartedAtMostOnce) {
  Run(5);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  Start(5);
  Start(4);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 1u);
  Start(6);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 2u);
}

TEST_F(HostCoreTest, NothingStartsWhileAnythingOfAnEarlierRoundLives) {
  Run(1);
  Exit(0, 3);
  Exit(1, 0);
  Start(2);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 1u) << "the sweep has not answered yet";
  core_.OnSwept(now_, "a process in D state", &effects_);
  Start(2);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 1u);
  Swept();
  Start(2);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 2u);
}

TEST_F(HostCoreTest, NothingStartsWithoutALeaseOrAfterItsSigtermMoment) {
  v1::HostDirective directive = Directive(absl::Seconds(3));  // a third of the lease is 3.33 s
  *directive.mutable_start() = Round(1);
  Give(directive);
  EXPECT_TRUE(Took<SpawnWorkers>().empty());
}

TEST_F(HostCoreTest, AWorkersFailureStopsItsSiblingsAndIsReported) {
  Run(1);
  Forget();
  core_.OnExit(now_, 1, Ended(true, SIGSEGV), &effects_);
  ASSERT_EQ(Took<SignalWorkers>().size(), 1u);
  EXPECT_EQ(Took<SignalWorkers>()[0].signal, SIGTERM);
  EXPECT_EQ(LastStatus().failure().rank(), 3);
  EXPECT_EQ(LastStatus().failure().signal(), SIGSEGV);
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_FAILED);
  Exit(0, 15);
  EXPECT_EQ(LastStatus().failure().rank(), 3) << "the sibling's end is an echo of our own stop";
}

TEST_F(HostCoreTest, AnExitAfterOurFirstSignalIsNoSuccessWhateverItsCode) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.mutable_stop()->set_grace_ms(5000);
  Give(directive);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_STOPPED);
}

TEST_F(HostCoreTest, SuccessNeedsEveryWorkerToHaveExitedZero) {
  Run(1);
  Exit(0, 0);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_RUNNING);
  Exit(1, 0);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
  Swept();
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_SUCCEEDED);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_IDLE);
}

TEST_F(HostCoreTest, WhatDoesNotEndWithinTheGraceIsKilled) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.mutable_stop()->set_grace_ms(2000);
  Give(directive);
  Pass(absl::Milliseconds(1900));
  EXPECT_TRUE(Took<Sweep>().empty());
  Pass(absl::Milliseconds(300));
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(HostCoreTest, WhatSurvivesSigkillMakesTheNodeUnusable) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.mutable_stop()->set_grace_ms(0);
  Give(directive);
  Pass(kStuckAfterKill + absl::Seconds(1));
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STUCK);
  EXPECT_FALSE(LastStatus().trouble().empty());
}

TEST_F(HostCoreTest, ASweepThatSawNothingIsRepeatedAfterTheLastExit) {
  Run(1);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_cause("test");
  Give(stop);  // no grace at all
  core_.OnTick(now_, &effects_);
  ASSERT_EQ(Took<Sweep>().size(), 1u);
  Swept();
  Exit(0, 9);
  Exit(1, 9);
  ASSERT_EQ(Took<Sweep>().size(), 2u);
  Swept();
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_IDLE);
}

TEST_F(HostCoreTest, WithoutGrantsTheWorkersEndBeforeTheLeaseDoes) {
  Run(1);
  const BootTime deadline = now_ + kLease;
  Forget();
  while (Took<SignalWorkers>().empty() && now_ < deadline) Pass(kTick, true, false);
  EXPECT_LE(now_, deadline - kLease / 10);
  EXPECT_GE(now_, deadline - kLease / 2);
  while (Took<Sweep>().empty() && now_ < deadline) Pass(kTick, true, false);
  EXPECT_LE(now_, deadline) << "SIGKILL comes before the end of the lease";
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_LEASE_ENDED);
}

TEST_F(HostCoreTest, AGraceLongerThanTheLeaseIsKeptForAsLongAsTheLeaseIsRenewed) {
  Run(1);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(20'000);
  Give(stop);
  Pass(absl::Seconds(19));
  EXPECT_TRUE(Took<Sweep>().empty());
  Pass(absl::Seconds(2));
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(HostCoreTest, ALadderOnceBegunIsNotTakenBackByALaterGrant) {
  Run(1);
  while (Took<SignalWorkers>().empty()) Pass(kTick, true, false);
  Pass(absl::Seconds(4), true, true);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(HostCoreTest, TheLeaseNeverShrinks) {
  Run(1);
  const BootTime before = core_.lease_deadline();
  Give(Directive(absl::Seconds(1)));
  EXPECT_EQ(core_.lease_deadline(), before);
}

TEST_F(HostCoreTest, TheKernelTimerIsArmedAtTheDeadlineOnlyWhileWorkersExist) {
  EXPECT_TRUE(Took<SetKernelTimer>().empty());
  Run(1);
  ASSERT_FALSE(Took<SetKernelTimer>().empty());
  EXPECT_EQ(Took<SetKernelTimer>().back().at, core_.lease_deadline());
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  EXPECT_FALSE(Took<SetKernelTimer>().back().at.has_value());
}

TEST_F(HostCoreTest, AClosedAgentIsReplacedWithTheMemoryAndNobodyIsDisturbed) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.mutable_memory()->mutable_applied()->set_seq(77);
  Give(directive);
  Forget();
  core_.OnAgentClosed(now_, 1, &effects_);
  ASSERT_EQ(Took<StartAgent>().size(), 1u);
  EXPECT_EQ(Took<StartAgent>()[0].number, 2u);
  EXPECT_EQ(LastStatus().memory().applied().seq(), 77u);
  EXPECT_TRUE(LastStatus().has_config());
  EXPECT_TRUE(Took<SignalWorkers>().empty());
}

TEST_F(HostCoreTest, OnlyTheNewestAgentIsObeyed) {
  core_.OnAgentClosed(now_, 1, &effects_);
  v1::HostDirective stale = Directive();
  stale.set_agent_number(1);
  *stale.mutable_start() = Round(1);
  Give(stale);
  EXPECT_TRUE(Took<SpawnWorkers>().empty());
}

TEST_F(HostCoreTest, ASilentAgentCostsTheWorkersAndIsReplaced) {
  Run(1);
  Forget();
  Pass(kLease / 2 + absl::Seconds(1), false);
  EXPECT_EQ(Took<KillAgent>().size(), 1u);
  EXPECT_EQ(Took<StartAgent>().size(), 1u);
  EXPECT_FALSE(Took<SignalWorkers>().empty());
}

TEST_F(HostCoreTest, APauseOfBothAccusesNobody) {
  Run(1);
  Forget();
  now_ += kLease / 2 + absl::Seconds(1);  // no tick ran meanwhile
  core_.OnTick(now_, &effects_);
  EXPECT_TRUE(Took<KillAgent>().empty());
}

TEST_F(HostCoreTest, AnAgentThatDiesAgainAndAgainIsAFaultOfOurs) {
  for (uint64_t i = 1; i < 10; ++i) core_.OnAgentClosed(now_, i, &effects_);
  ASSERT_TRUE(core_.finished() || !Took<Finish>().empty() || (Pass(absl::Seconds(3), false), core_.finished()));
  EXPECT_EQ(Took<Finish>().back().exit_code, 70);
}

TEST_F(HostCoreTest, AnAgentThatCannotBeStartedIsTriedAgainForTheCoordinatorTimeoutAtMost) {
  core_.OnAgentClosed(now_, 1, &effects_);
  const BootTime began = now_;
  int tries = 0;
  while (!core_.finished() && now_ < began + 2 * kCoordinatorTimeout) {
    const bool started = !Took<StartAgent>().empty();
    Forget();
    if (started) {
      ++tries;
      core_.OnAgentFailed(now_, core_.agent_number(), "no process", &effects_);
      EXPECT_TRUE(Took<StartAgent>().empty()) << "the machine is short of something: not at once";
    }
    Pass(kTick, false);
  }
  ASSERT_TRUE(core_.finished());
  EXPECT_GT(tries, 10);
  EXPECT_GE(now_ - began, kCoordinatorTimeout);
  EXPECT_EQ(Took<Finish>().back().exit_code, 70);
  EXPECT_NE(Took<Finish>().back().reason.find("no process"), std::string::npos);
}

TEST_F(HostCoreTest, APortThatCouldNotBeKeptIsTriedAgain) {
  core_.OnOffer(now_, 0, &effects_);
  Forget();
  Pass(kOfferRetry + absl::Seconds(1));
  ASSERT_EQ(Took<RenewOffer>().size(), 1u);
  core_.OnOffer(now_, 4001, &effects_);
  Pass(2 * kOfferRetry);
  EXPECT_EQ(Took<RenewOffer>().size(), 1u);
  EXPECT_EQ(LastStatus().offer_port(), 4001u);
}

TEST_F(HostCoreTest, AskedToLeaveItSignalsTheWorkersTellsTheAgentAndExits75) {
  Run(1);
  Forget();
  core_.OnSignal(now_, SIGTERM, &effects_);
  EXPECT_EQ(Took<SignalWorkers>()[0].signal, SIGTERM);
  EXPECT_EQ(LastStatus().leave().signal(), SIGTERM);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  EXPECT_FALSE(core_.finished()) << "the coordinator is to be told";
  Pass(kTellLimit + absl::Seconds(1));
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 75);
}

class RetryingHostCoreTest : public HostCoreTest {
 protected:
  RetryingHostCoreTest() : HostCoreTest(WithRetryCode()) {}
  static HostOptions WithRetryCode() {
    HostOptions options = Options(false);
    options.retryable_exit_code = 134;
    return options;
  }

  // How it ends that is told this.
  Finish EndedWith(int code, const std::string& origin) {
    v1::HostDirective directive = Directive();
    directive.mutable_exit()->set_exit_code(code);
    directive.mutable_exit()->set_origin(origin);
    directive.mutable_exit()->set_reason("told");
    Give(directive);
    Pass(kTellLimit + absl::Seconds(1), false);
    EXPECT_TRUE(core_.finished());
    return Took<Finish>().at(0);
  }
};

TEST_F(RetryingHostCoreTest, ALostPeerOrCoordinatorIsToldByTheRetryableCode) {
  const Finish finish = EndedWith(69, "muster");
  EXPECT_EQ(finish.exit_code, 134);
  EXPECT_EQ(finish.reason, "told (69, told as 134 to have the platform run it again)");
}

TEST_F(RetryingHostCoreTest, AWorkersOwnCodeStaysWhateverItIs) {
  EXPECT_EQ(EndedWith(69, "worker").exit_code, 69);
}

TEST_F(RetryingHostCoreTest, WhatAnotherRunWouldNotMendStays) { EXPECT_EQ(EndedWith(93, "muster").exit_code, 93); }

TEST_F(RetryingHostCoreTest, SuccessStays) { EXPECT_EQ(EndedWith(0, "muster").exit_code, 0); }

TEST_F(RetryingHostCoreTest, AskedToLeaveItIsToldByTheRetryableCode) {
  core_.OnSignal(now_, SIGTERM, &effects_);
  Pass(kTellLimit + absl::Seconds(1));
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 134);
}

TEST_F(HostCoreTest, WhoLeavesAsTheJobFailsSaysItsOwnReasonWithItsOwnCode) {
  core_.OnSignal(now_, SIGTERM, &effects_);
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(7);
  directive.mutable_exit()->set_origin("worker");
  directive.mutable_exit()->set_reason("rank 3 exited with code 7");
  Give(directive);
  Pass(kTellLimit + absl::Seconds(1), false);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 75);
  EXPECT_EQ(Took<Finish>()[0].origin, "muster");
  EXPECT_EQ(Took<Finish>()[0].reason, "asked to leave by signal 15; of the job: rank 3 exited with code 7");
}

TEST_F(HostCoreTest, ASecondSignalEndsItNow) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  core_.OnSignal(now_ + kOneSignal, SIGTERM, &effects_);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
  Exit(0, 15);
  Exit(1, 15);
  Swept();
  Pass(absl::Seconds(2), false);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 75);
}

TEST_F(HostCoreTest, ASignalToldTwiceAtOnceTakesNothingFromTheWorkersGrace) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  core_.OnSignal(now_ + absl::Milliseconds(10), SIGTERM, &effects_);
  core_.OnSignal(now_ + absl::Milliseconds(20), SIGHUP, &effects_);
  EXPECT_TRUE(Took<Sweep>().empty()) << "the workers are saving";
  EXPECT_EQ(Took<SignalWorkers>().size(), 1u);
}

TEST_F(HostCoreTest, ANoticeThatTheAgentHeardIsALeaveWithItsReason) {
  Run(1);
  Forget();
  v1::HostDirective directive = Directive();
  directive.set_leave("preemption notice of gce");
  Give(directive);
  EXPECT_EQ(Took<SignalWorkers>()[0].signal, SIGTERM);
  EXPECT_EQ(LastStatus().leave().signal(), SIGTERM);
  EXPECT_EQ(LastStatus().leave().reason(), "preemption notice of gce");
  Give(directive);
  EXPECT_EQ(Took<SignalWorkers>().size(), 1u) << "said again, it says nothing new";
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  Pass(kTellLimit + absl::Seconds(1));
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 75);
  EXPECT_EQ(Took<Finish>()[0].reason, "asked to leave: preemption notice of gce");
}

TEST_F(HostCoreTest, ANoticeAndARoundInOneDirectiveStartNothing) {
  Forget();
  v1::HostDirective directive = Directive();
  *directive.mutable_start() = Round(1);
  directive.set_leave("preemption notice of gce");
  Give(directive);
  EXPECT_TRUE(Took<SpawnWorkers>().empty());
}

TEST_F(HostCoreTest, ThePlatformsOwnSigtermAfterItsNoticeIsNoSecondOne) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.set_leave("preemption notice of gce");
  Give(directive);
  core_.OnSignal(now_, SIGTERM, &effects_);
  core_.OnSignal(now_, SIGTERM, &effects_);
  EXPECT_TRUE(Took<Sweep>().empty()) << "the workers are saving";
  core_.OnSignal(now_ + kOneSignal, SIGTERM, &effects_);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(HostCoreTest, ANoticeAfterASignalSaysNothingNew) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  v1::HostDirective directive = Directive();
  directive.set_leave("preemption notice of gce");
  Give(directive);
  EXPECT_EQ(Took<SignalWorkers>().size(), 1u);
  EXPECT_EQ(LastStatus().leave().reason(), "");
}

// A node whose time is over in an hour, five minutes before which it stops.
class DeadlineTest : public HostCoreTest {
 protected:
  DeadlineTest() : HostCoreTest(WithDeadline()) {
    Clock(absl::ZeroDuration());
    Run(1);
    Forget();
  }
  static HostOptions WithDeadline() {
    HostOptions options = Options(false);
    options.stop_before = StopBefore{Beginning() + absl::Hours(1), absl::Minutes(5), "--stop-before 5m"};
    return options;
  }
  static absl::Time Beginning() { return absl::FromUnixSeconds(1'700'000'000); }
  void Clock(absl::Duration since_start) { core_.OnWallClock(now_, Beginning() + since_start, &effects_); }
};

TEST_F(DeadlineTest, ItLeavesAsAfterASigtermWhenTheTimeHasCome) {
  Clock(absl::Minutes(55) - absl::Milliseconds(1));
  EXPECT_TRUE(Took<SignalWorkers>().empty());
  Clock(absl::Minutes(55));
  EXPECT_EQ(Took<SignalWorkers>()[0].signal, SIGTERM);
  EXPECT_EQ(LastStatus().leave().reason(), "--stop-before 5m");
  Clock(absl::Minutes(56));
  EXPECT_EQ(Took<SignalWorkers>().size(), 1u);
}

TEST_F(DeadlineTest, AClockThatIsSetMovesTheTime) {
  Clock(absl::Minutes(54));
  Clock(absl::Minutes(10));
  Exit(0, 1);
  Exit(1, 1);
  Swept();
  Start(2);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 1u) << "45 minutes are left after all";
}

TEST_F(DeadlineTest, NoRoundIsBegunShortlyBeforeItsTimeIsOver) {
  Exit(0, 1);
  Exit(1, 1);
  Swept();
  Clock(absl::Minutes(55) - kMaxUselessRound - absl::Seconds(1));
  Start(2);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 1u);
  Exit(0, 1);
  Exit(1, 1);
  Swept();
  Forget();
  Clock(absl::Minutes(55) - kMaxUselessRound);
  Start(3);
  EXPECT_TRUE(Took<SpawnWorkers>().empty());
  EXPECT_EQ(LastStatus().leave().reason(), "--stop-before 5m: too little time is left for another round");
}

TEST_F(DeadlineTest, TheWorkersHaveNoMoreGraceThanTimeIsLeft) {
  Clock(absl::Hours(1) - absl::Seconds(4));
  Pass(absl::Seconds(2));
  EXPECT_TRUE(Took<Sweep>().empty());
  Pass(absl::Seconds(2));
  EXPECT_EQ(Took<Sweep>().size(), 1u) << "killed before the deadline, not at the end of the usual grace";
}

TEST_F(DeadlineTest, TheWorkersHaveTheTimeThatIsSetAsideWhateverTheGraceOfASignalIs) {
  Clock(absl::Minutes(55));
  ASSERT_EQ(Took<SignalWorkers>().size(), 1u);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(1000);
  Give(stop);
  Pass(absl::Minutes(5) - absl::Seconds(2));
  EXPECT_TRUE(Took<Sweep>().empty()) << "neither --termination-grace nor the others' stop cuts it short";
  Pass(absl::Seconds(2));
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(DeadlineTest, ACoordinatorStaysWhileOthersNeedItButNotBeyondItsTime) {
  Clock(absl::Minutes(55));
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  const auto serve = [&](bool others) {
    v1::HostDirective directive = Directive();
    directive.set_serves_others(others);
    Give(directive);
    core_.OnTick(now_, &effects_);
  };
  for (int i = 0; i < 60; ++i) {
    now_ += absl::Seconds(1);
    serve(true);
  }
  EXPECT_FALSE(core_.finished());
  serve(false);
  EXPECT_TRUE(core_.finished());
}

TEST_F(DeadlineTest, ACoordinatorThatOthersGoOnUsingIsGoneInTime) {
  Clock(absl::Minutes(55));
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  for (int i = 0; i < 299; ++i) {
    EXPECT_FALSE(core_.finished()) << i;
    now_ += absl::Seconds(1);
    v1::HostDirective directive = Directive();
    directive.set_serves_others(true);
    Give(directive);
    core_.OnTick(now_, &effects_);
  }
  EXPECT_TRUE(core_.finished());
}

class DeadlineAtTheStartTest : public HostCoreTest {
 protected:
  DeadlineAtTheStartTest() : HostCoreTest(WithDeadline()) {}
  static HostOptions WithDeadline() {
    HostOptions options = Options(false);
    options.stop_before = StopBefore{absl::UnixEpoch() + absl::Minutes(2), absl::Minutes(1), "--stop-before 1m"};
    return options;
  }
};

TEST_F(DeadlineAtTheStartTest, OfTheFirstRoundItIsNotSaidThatItIsAnother) {
  core_.OnWallClock(now_, absl::UnixEpoch() + absl::Seconds(30), &effects_);
  Start(1);
  EXPECT_TRUE(Took<SpawnWorkers>().empty());
  EXPECT_EQ(LastStatus().leave().reason(), "--stop-before 1m: too little time is left for a round");
}

TEST_F(HostCoreTest, CtrlCCancelsAndUsrSignalsPassThrough) {
  Run(1);
  Forget();
  core_.OnSignal(now_, SIGUSR1, &effects_);
  EXPECT_EQ(Took<SignalWorkers>()[0].signal, SIGUSR1);
  core_.OnSignal(now_, SIGINT, &effects_);
  EXPECT_TRUE(LastStatus().leave().cancel());
}

TEST_F(HostCoreTest, CancelledOnThePrimaryItStaysUntilTheVerdictIsKnownToAll) {
  Run(1);
  const auto hold = [&] {
    v1::HostDirective directive = Directive();
    directive.mutable_memory()->set_served(true);
    return directive;
  };
  Give(hold());
  core_.OnSignal(now_, SIGINT, &effects_);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  const BootTime idle = now_;
  while (now_ < idle + absl::Seconds(9)) {  // the others' workers take their time
    now_ += kTick;
    Give(hold());
    core_.OnTick(now_, &effects_);
  }
  EXPECT_FALSE(core_.finished()) << "the coordinator would go with us, and the others would wait for it in vain";
  v1::HostDirective released = hold();
  released.mutable_exit()->set_exit_code(130);
  Give(released);
  core_.OnAgentClosed(now_, 1, &effects_);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 130);
}

TEST_F(HostCoreTest, CancelledOnThePrimaryItDoesNotStayForEver) {
  v1::HostDirective directive = Directive();
  directive.mutable_memory()->set_served(true);
  Give(directive);
  core_.OnSignal(now_, SIGINT, &effects_);
  const BootTime end = now_ + kGrace + kStuckAfterKill + absl::Seconds(1);
  while (now_ < end && !core_.finished()) {
    now_ += kTick;
    v1::HostDirective beat = Directive();
    beat.mutable_memory()->set_served(true);
    Give(beat);
    core_.OnTick(now_, &effects_);
  }
  EXPECT_TRUE(core_.finished());
}

TEST_F(HostCoreTest, UnderALeaseCtrlZStopsTheWorkersOnly) {
  Run(1);
  Forget();
  core_.OnSignal(now_, SIGTSTP, &effects_);
  EXPECT_EQ(Took<SignalWorkers>()[0].signal, SIGSTOP);
  EXPECT_TRUE(Took<StopSelf>().empty());
}

TEST_F(SingleNodeHostCoreTest, WithoutALeaseCtrlZStopsUsToo) {
  Run(1);
  core_.OnSignal(now_, SIGTSTP, &effects_);
  EXPECT_EQ(Took<StopSelf>().size(), 1u);
}

TEST_F(SingleNodeHostCoreTest, NoSilenceIsWatchedAndNoTimerArmed) {
  Run(1);
  Pass(absl::Hours(1), false);
  EXPECT_TRUE(Took<KillAgent>().empty());
  EXPECT_TRUE(Took<SetKernelTimer>().empty());
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_RUNNING);
}

TEST_F(SingleNodeHostCoreTest, ToldToExitItFlushesWaitsForItsAgentAndExitsWithTheCode) {
  Run(1);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(9);
  Give(directive);
  EXPECT_TRUE(LastStatus().flushed());
  EXPECT_FALSE(core_.finished());
  core_.OnAgentClosed(now_, 1, &effects_);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 9);
}

TEST_F(HostCoreTest, WorkersThatDoNotStartWithinAMinuteAreAFailure) {
  Start(1);
  core_.OnExecuting(now_, 0, &effects_);
  Pass(kStartLimit + absl::Seconds(1));
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_FAILED);
}

// ---- what is told of a failure ----

TEST_F(HostCoreTest, WhatFailsAfterTheFirstFailureStandsBesideIt) {
  Run(1);
  Exit(0, 7);
  core_.OnExit(now_, 1, Ended(true, SIGTERM), &effects_);
  Swept();
  const v1::Failure failure = LastStatus().failure();
  EXPECT_EQ(failure.exit_code(), 7);
  ASSERT_EQ(failure.others_size(), 1);
  EXPECT_EQ(failure.others(0).signal(), SIGTERM);
  EXPECT_EQ(failure.others(0).rank(), 3);
  EXPECT_EQ(failure.others(0).pid(), 101);
  EXPECT_TRUE(failure.others(0).after_our_signal());
}

TEST_F(HostCoreTest, AStopFromOutsideMakesNoFailures) {
  Run(1);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(1000);
  Give(stop);
  Exit(0, 7);
  Exit(1, 7);
  Swept();
  EXPECT_FALSE(LastStatus().has_failure());
}

TEST_F(HostCoreTest, AFailuresTimeIsTheWorkersOwnToTheSecond) {
  Run(1);
  now_ += absl::Seconds(10);
  Ending ending = Ended(false, 7);
  ending.failed_at_s = absl::ToUnixSeconds(now_) - 5;  // this machine booted at the epoch
  core_.OnExit(now_, 0, ending, &effects_);
  EXPECT_EQ(LastStatus().failure().wall_time_s(), absl::ToUnixSeconds(now_) - 5);
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), absl::FromUnixSeconds(absl::ToUnixSeconds(now_) - 4));
}

TEST_F(HostCoreTest, AWorkersClockMovesItsFailureNeitherBeforeTheRoundNorIntoTheFuture) {
  Run(1);
  const BootTime begun = now_;
  now_ += absl::Seconds(10);
  Ending ending = Ended(false, 7);
  ending.failed_at_s = 17;
  core_.OnExit(now_, 0, ending, &effects_);
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), begun);
  Exit(1, 0);
  Swept();
  Run(2);
  ending.failed_at_s = 4'000'000'000;
  core_.OnExit(now_, 0, ending, &effects_);
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), now_);
}

TEST_F(HostCoreTest, WhoFailedFirstByItsOwnWordIsTheCauseThoughItEndedLater) {
  Run(1);
  now_ += absl::Seconds(10);
  Exit(0, 1);
  Ending earlier = Ended(false, 7);
  earlier.failed_at_s = absl::ToUnixSeconds(now_) - 3;
  earlier.error_text = "ValueError";
  core_.OnExit(now_ + absl::Seconds(2), 1, earlier, &effects_);
  Swept();
  const v1::Failure failure = LastStatus().failure();
  EXPECT_EQ(failure.rank(), 3);
  EXPECT_EQ(failure.exit_code(), 7);
  EXPECT_FALSE(failure.after_our_signal());
  ASSERT_EQ(failure.others_size(), 1);
  EXPECT_EQ(failure.others(0).rank(), 2);
  EXPECT_EQ(failure.others(0).others_size(), 0);
}

TEST_F(HostCoreTest, WhoSaysWhenItHadWrittenThatDownIsKnownToHaveFailedByThen) {
  Run(1);
  now_ += absl::Milliseconds(10'700);
  Ending ending = Ended(false, 7);
  ending.failed_at_s = absl::ToUnixSeconds(now_);
  ending.told_at = now_ - absl::Milliseconds(300);
  core_.OnExit(now_, 0, ending, &effects_);
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), now_ - absl::Milliseconds(300));
}

TEST_F(HostCoreTest, AWorkerThatHadFailedBeforeAStopFromOutsideIsTold) {
  Run(1);
  now_ += absl::Seconds(10);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(1000);
  Give(stop);  // its peers on other nodes were quicker to end than it was
  Ending late = Ended(false, 7);
  late.failed_at_s = absl::ToUnixSeconds(now_) - 3;
  core_.OnExit(now_ + absl::Milliseconds(200), 1, late, &effects_);
  Exit(0, 1);
  Swept();
  const v1::Failure failure = LastStatus().failure();
  EXPECT_EQ(failure.exit_code(), 7);
  EXPECT_FALSE(failure.after_our_signal());
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), now_ - absl::Seconds(2));
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_STOPPED);
}

TEST_F(HostCoreTest, WithinTheSameSecondTheFirstToEndIsTheCause) {
  Run(1);
  now_ += absl::Milliseconds(10'700);
  Exit(0, 1);
  Ending later = Ended(false, 7);
  later.failed_at_s = absl::ToUnixSeconds(now_);
  core_.OnExit(now_ + absl::Seconds(2), 1, later, &effects_);
  Swept();
  EXPECT_EQ(LastStatus().failure().rank(), 2);
}

TEST_F(HostCoreTest, TheLastLinesOfTheCauseAloneAreKept) {
  Run(1);
  Exit(0, 1);
  ASSERT_EQ(core_.failed_local_rank(), 0);
  Exit(1, 1);
  core_.OnLastOutput(1, "of the other");
  core_.OnLastOutput(0, "why");
  Swept();
  EXPECT_EQ(LastStatus().failure().last_output(), "why");
  EXPECT_EQ(core_.failed_local_rank(), std::nullopt);
}

class UsageErrorTest : public HostCoreTest {
 protected:
  std::string HintAfter(absl::Duration after, const Ending& first, const Ending& second) {
    Run(1);
    Pass(after);
    core_.OnExit(now_, 0, first, &effects_);
    core_.OnExit(now_, 1, second, &effects_);
    Swept();
    return LastStatus().failure().hint();
  }
};

TEST_F(UsageErrorTest, ExitCode2OfAllSoonAfterTheStartIsHintedAt) {
  EXPECT_NE(HintAfter(absl::Seconds(5), Ended(false, 2), Ended(false, 2)).find("--pass-local-rank"),
            std::string::npos);
}
TEST_F(UsageErrorTest, SoItIsWhereOurSignalCameBeforeTheOthersExit) {
  EXPECT_NE(HintAfter(absl::Seconds(5), Ended(false, 2), Ended(true, SIGTERM)), "");
}
TEST_F(UsageErrorTest, AnotherCodeIsNot) {
  EXPECT_EQ(HintAfter(absl::Seconds(5), Ended(false, 1), Ended(false, 1)), "");
}
TEST_F(UsageErrorTest, OneOfThemAloneIsNot) {
  EXPECT_EQ(HintAfter(absl::Seconds(5), Ended(false, 2), Ended(false, 0)), "");
}
TEST_F(UsageErrorTest, LaterItIsNot) {
  EXPECT_EQ(HintAfter(absl::Seconds(61), Ended(false, 2), Ended(false, 2)), "");
}

}  // namespace
}  // namespace muster::host
