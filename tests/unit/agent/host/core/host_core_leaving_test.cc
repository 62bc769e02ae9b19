// The end of a host core: leave, cancellation, deadline, exit order.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/agent/host/core/host_core_fixture.h"

namespace muster::host {
namespace {

class SingleNodeHostCoreTest : public HostCoreTest {
 protected:
  SingleNodeHostCoreTest() : HostCoreTest(true) {}
};

TEST_F(HostCoreTest, LeavingStopsTheWorkersAndExits75) {
  Run(1);
  Forget();
  core_.OnSignal(now_, SIGTERM, &effects_);
  EXPECT_EQ(Took<StopWorkers>()[0].signal, SIGTERM);
  EXPECT_EQ(LastStatus().leave().signal(), SIGTERM);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  EXPECT_FALSE(core_.finished()) << "the coordinator is to be told";
  Pass(kLeaveReportLimit + absl::Seconds(1));
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

  // The end of a host that gets an exit order with this code and origin.
  Finish EndedWith(int code, const std::string& origin) {
    v1::HostDirective directive = Directive();
    directive.mutable_exit()->set_exit_code(code);
    directive.mutable_exit()->set_origin(origin);
    directive.mutable_exit()->set_reason("told");
    Give(directive);
    Pass(kLeaveReportLimit + absl::Seconds(1), false);
    EXPECT_TRUE(core_.finished());
    return Took<Finish>().at(0);
  }
};

TEST_F(RetryingHostCoreTest, ALossExitsWithTheRetryableCode) {
  const Finish finish = EndedWith(69, "muster");
  EXPECT_EQ(finish.exit_code, 134);
  EXPECT_EQ(finish.reason, "told (69, reported as 134 so that the platform retries the job)");
}

TEST_F(RetryingHostCoreTest, AFailureThatNobodyHasJudgedIsTold) {
  Run(1);
  Exit(0, 3);
  Exit(1, 0);
  Swept("ValueError: x");
  const Finish finish = EndedWith(69, "muster");
  ASSERT_TRUE(finish.own_failure.has_value());
  EXPECT_EQ(finish.own_failure->rank(), 2);
  EXPECT_EQ(finish.own_failure->exit_code(), 3);
  EXPECT_EQ(finish.own_failure->last_output(), "ValueError: x");
}

TEST_F(RetryingHostCoreTest, AVerdictTellsItsOwnCause) {
  Run(1);
  Exit(0, 3);
  Exit(1, 0);
  Swept();
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(3);
  directive.mutable_exit()->set_origin("worker");
  directive.mutable_exit()->mutable_verdict()->set_exit_code(3);
  Give(directive);
  Pass(kLeaveReportLimit + absl::Seconds(1), false);
  EXPECT_FALSE(Took<Finish>().at(0).own_failure.has_value());
}

TEST_F(RetryingHostCoreTest, AWorkersOwnCodeIsKept) { EXPECT_EQ(EndedWith(69, "worker").exit_code, 69); }

TEST_F(RetryingHostCoreTest, ACodeNotWorthARetryIsKept) { EXPECT_EQ(EndedWith(93, "muster").exit_code, 93); }

TEST_F(RetryingHostCoreTest, SuccessIsKept) { EXPECT_EQ(EndedWith(0, "muster").exit_code, 0); }

TEST_F(RetryingHostCoreTest, LeavingExitsWithTheRetryableCode) {
  core_.OnSignal(now_, SIGTERM, &effects_);
  Pass(kLeaveReportLimit + absl::Seconds(1));
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 134);
}

TEST_F(HostCoreTest, LeavingOutranksTheJobsExitCode) {
  core_.OnSignal(now_, SIGTERM, &effects_);
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(7);
  directive.mutable_exit()->set_origin("worker");
  directive.mutable_exit()->set_reason("rank 3 exited with code 7");
  Give(directive);
  Pass(kLeaveReportLimit + absl::Seconds(1), false);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 75);
  EXPECT_EQ(Took<Finish>()[0].origin, "muster");
  EXPECT_EQ(Took<Finish>()[0].reason, "asked to leave by SIGTERM; result of the job: rank 3 exited with code 7");
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

// The agent has reported all that it can, but does not close the link.
TEST_F(HostCoreTest, ASecondSignalDoesNotProlongTheWaitForTheAgent) {
  Run(1);
  core_.OnSignal(now_, SIGINT, &effects_);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  v1::HostDirective released = Directive();
  released.mutable_exit()->set_exit_code(130);
  Give(released);
  ASSERT_TRUE(LastStatus().flushed());
  Pass(kLeaveReportLimit - kTick, false);
  EXPECT_FALSE(core_.finished());
  core_.OnSignal(now_, SIGINT, &effects_);
  EXPECT_FALSE(core_.finished()) << "nor does it cut the wait short";
  Pass(kTick, false);
  EXPECT_TRUE(core_.finished());
}

TEST_F(HostCoreTest, ARepeatedSignalKeepsTheGrace) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  core_.OnSignal(now_ + absl::Milliseconds(10), SIGTERM, &effects_);
  core_.OnSignal(now_ + absl::Milliseconds(20), SIGHUP, &effects_);
  EXPECT_TRUE(Took<Sweep>().empty()) << "the workers are saving";
  EXPECT_EQ(Took<StopWorkers>().size(), 1u);
}

// Options with --shutdown-timeout below --termination-grace.
class ShortStopTest : public HostCoreTest {
 protected:
  ShortStopTest() : HostCoreTest(WithShortStop()) {
    Run(1);
    Forget();
  }
  static HostOptions WithShortStop() {
    HostOptions options = Options(false);
    options.config.set_shutdown_grace_ms(absl::ToInt64Milliseconds(kStop));
    return options;
  }
  // What every node gets when another one leaves.
  void Stop() {
    v1::HostDirective directive = Directive();
    directive.mutable_stop()->set_grace_ms(absl::ToInt64Milliseconds(kStop));
    Give(directive);
  }
  // How long from now until SIGKILL.
  absl::Duration UntilKilled(bool granting = true) {
    const BootTime since = now_;
    while (Took<Sweep>().empty() && now_ < since + absl::Minutes(1)) Pass(kTick, true, granting);
    return now_ - since;
  }
  // Whether any line of the log has this text.
  bool Said(const std::string& text) {
    for (const Note& note : Took<Note>()) {
      if (note.text.find(text) != std::string::npos) return true;
    }
    return false;
  }

  static constexpr absl::Duration kStop = absl::Seconds(5);
  static constexpr absl::Duration kLeave = absl::Seconds(8);  // as HostCoreTest::Options sets it
};

// SIGTERM to all nodes: the first one to leave makes the coordinator stop the others a moment before theirs.
TEST_F(ShortStopTest, ADepartureLengthensAnOrderedStop) {
  Stop();
  Pass(absl::Seconds(2));
  core_.OnSignal(now_, SIGTERM, &effects_);
  EXPECT_TRUE(Said("SIGTERM: leaving the job; the workers have 8s to exit"));
  EXPECT_EQ(Took<StopWorkers>().size(), 1u) << "they have the signal";
  Stop();
  EXPECT_EQ(UntilKilled(), kLeave);
}

TEST_F(ShortStopTest, TheExitOrderKeepsTheTimeOfADeparture) {
  v1::HostDirective ends = Directive();
  ends.mutable_exit()->set_exit_code(69);
  Give(ends);
  core_.OnSignal(now_, SIGTERM, &effects_);
  EXPECT_EQ(UntilKilled(), kLeave);
}

TEST_F(ShortStopTest, AFailureIsNotGivenMoreTimeButSaysSo) {
  Exit(0, 1);
  Pass(absl::Seconds(2));
  core_.OnSignal(now_, SIGTERM, &effects_);
  EXPECT_TRUE(Said("SIGTERM: leaving the job; the workers have 3s to exit"));
  EXPECT_EQ(UntilKilled(), kStop - absl::Seconds(2));
}

TEST_F(ShortStopTest, ASecondSignalEndsALengthenedStop) {
  Stop();
  core_.OnSignal(now_, SIGTERM, &effects_);
  core_.OnSignal(now_ + kOneSignal, SIGTERM, &effects_);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

// Another agent may renew the lease; if none does, the lease ends the workers.
TEST_F(ShortStopTest, ASilentAgentTakesNoTimeOfADeparture) {
  core_.OnSignal(now_, SIGTERM, &effects_);
  Pass(kLease / 2 + kTick, false);
  ASSERT_TRUE(Said("has been silent"));
  EXPECT_EQ(UntilKilled(), kLeave - kLease / 2 - kTick);
}

// Two thirds of the lease have passed without an answer, and then it is renewed.
TEST_F(ShortStopTest, ARenewedLeaseLeavesTheTimeOfADeparture) {
  Pass(absl::Milliseconds(500));
  core_.OnSignal(now_, SIGTERM, &effects_);
  Pass(absl::Milliseconds(6900), true, false);
  ASSERT_TRUE(Took<Sweep>().empty());
  EXPECT_EQ(UntilKilled(), kLeave - absl::Milliseconds(6900));
  EXPECT_FALSE(Said("the coordinator did not answer"));
}

TEST_F(HostCoreTest, ANoticeFromTheAgentIsALeaveWithItsReason) {
  Run(1);
  Forget();
  v1::HostDirective directive = Directive();
  directive.set_leave("preemption notice of gce");
  Give(directive);
  EXPECT_EQ(Took<StopWorkers>()[0].signal, SIGTERM);
  EXPECT_EQ(LastStatus().leave().signal(), SIGTERM);
  EXPECT_EQ(LastStatus().leave().reason(), "preemption notice of gce");
  Give(directive);
  EXPECT_EQ(Took<StopWorkers>().size(), 1u) << "a repeated notice changes nothing";
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  Pass(kLeaveReportLimit + absl::Seconds(1));
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

TEST_F(HostCoreTest, SigtermAfterANoticeIsNoSecondSignal) {
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

TEST_F(HostCoreTest, ANoticeAfterASignalChangesNothing) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  v1::HostDirective directive = Directive();
  directive.set_leave("preemption notice of gce");
  Give(directive);
  EXPECT_EQ(Took<StopWorkers>().size(), 1u);
  EXPECT_EQ(LastStatus().leave().reason(), "");
}

// A node with a deadline in one hour that stops five minutes before it.
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

TEST_F(DeadlineTest, TheNodeLeavesWhenTheTimeHasCome) {
  Clock(absl::Minutes(55) - absl::Milliseconds(1));
  EXPECT_TRUE(Took<StopWorkers>().empty());
  Clock(absl::Minutes(55));
  EXPECT_EQ(Took<StopWorkers>()[0].signal, SIGTERM);
  EXPECT_EQ(LastStatus().leave().reason(), "--stop-before 5m");
  Clock(absl::Minutes(56));
  EXPECT_EQ(Took<StopWorkers>().size(), 1u);
}

TEST_F(DeadlineTest, SettingTheClockMovesTheDeadline) {
  Clock(absl::Minutes(54));
  Clock(absl::Minutes(10));
  Exit(0, 1);
  Exit(1, 1);
  Swept();
  Start(2);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 1u) << "45 minutes are left after all";
}

TEST_F(DeadlineTest, NoRoundStartsShortlyBeforeTheDeadline) {
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

TEST_F(DeadlineTest, TheGraceEndsAtTheDeadline) {
  Clock(absl::Hours(1) - absl::Seconds(4));
  Pass(absl::Seconds(2));
  EXPECT_TRUE(Took<Sweep>().empty());
  Pass(absl::Seconds(2));
  EXPECT_EQ(Took<Sweep>().size(), 1u) << "killed before the deadline, not at the end of the usual grace";
}

// A deadline is known in advance, so neither --termination-grace nor a shorter STOP cuts the time.
TEST_F(DeadlineTest, WorkersGetAllOfTheRemainingTime) {
  Clock(absl::Minutes(55));
  ASSERT_EQ(Took<StopWorkers>().size(), 1u);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(1000);
  Give(stop);
  Pass(absl::Minutes(5) - absl::Seconds(2));
  EXPECT_TRUE(Took<Sweep>().empty()) << "neither --termination-grace nor the others' stop cuts it short";
  Pass(absl::Seconds(2));
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

// In the log, too: the time was promised.
TEST_F(DeadlineTest, ALeaseThatEndsCutsTheTimeAndSaysSo) {
  Clock(absl::Minutes(55));
  Pass(kLease - kLease / 10, true, false);
  ASSERT_EQ(Took<Sweep>().size(), 1u);
  std::string lines;
  for (const Note& note : Took<Note>()) lines += note.text + "\n";
  EXPECT_NE(lines.find("the coordinator did not answer for 9s; sending SIGKILL to the workers, because"),
            std::string::npos)
      << lines;
}

TEST_F(DeadlineTest, ACoordinatorStaysWhileOthersNeedIt) {
  Clock(absl::Minutes(55));
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  for (int i = 0; i < 60; ++i) {
    now_ += absl::Seconds(1);
    Serve(true);
  }
  EXPECT_FALSE(core_.finished());
  Serve(false);
  EXPECT_TRUE(core_.finished());
}

TEST_F(DeadlineTest, ABusyCoordinatorStillEndsInTime) {
  Clock(absl::Minutes(55));
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  for (int i = 0; i < 299; ++i) {
    EXPECT_FALSE(core_.finished()) << i;
    now_ += absl::Seconds(1);
    Serve(true);
  }
  EXPECT_TRUE(core_.finished());
}

// SIGTERM to a whole job: the other nodes save too, and need the lease meanwhile.
TEST_F(HostCoreTest, ALeavingCoordinatorStaysForTheGrace) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  for (int i = 0; i < 6; ++i) {  // 6 of the 8 s of grace
    now_ += absl::Seconds(1);
    Serve(true);
  }
  EXPECT_FALSE(core_.finished());
  Serve(false);
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

TEST_F(DeadlineAtTheStartTest, TheFirstRoundIsNotCalledAnotherOne) {
  core_.OnWallClock(now_, absl::UnixEpoch() + absl::Seconds(30), &effects_);
  Start(1);
  EXPECT_TRUE(Took<SpawnWorkers>().empty());
  EXPECT_EQ(LastStatus().leave().reason(), "--stop-before 1m: too little time is left for a round");
}

TEST_F(HostCoreTest, CtrlCCancelsAndUsrSignalsPassThrough) {
  Run(1);
  Forget();
  core_.OnSignal(now_, SIGUSR1, &effects_);
  EXPECT_EQ(Took<ForwardSignal>()[0].signal, SIGUSR1);
  EXPECT_TRUE(Took<SignalWorkers>().empty()) << "its default action would end a shell around the training";
  core_.OnSignal(now_, SIGINT, &effects_);
  EXPECT_TRUE(LastStatus().leave().cancel());
}

TEST_F(HostCoreTest, AUsrSignalWithoutWorkersIsAnswered) {
  core_.OnSignal(now_, SIGUSR2, &effects_);
  EXPECT_EQ(Took<Note>().back().text, "SIGUSR2: no worker runs on this node");
  EXPECT_TRUE(Took<ForwardSignal>().empty());
}

TEST_F(HostCoreTest, SigUsr2ThatAWorkerHandlesAsksForNoSnapshotAndIsSaid) {
  Run(1);
  Forget();
  core_.OnForwarded(now_, SIGUSR1, 2, &effects_);
  EXPECT_EQ(Took<Note>().back().text, "SIGUSR1 was forwarded to 2 worker processes that handle it");
  core_.OnForwarded(now_, SIGUSR2, 1, &effects_);
  EXPECT_EQ(Took<Note>().back().text,
            "SIGUSR2 was forwarded to 1 worker process that handles it; no stacks are taken (py-spy "
            "dump --pid PID shows one)");
  EXPECT_TRUE(Took<TakeSnapshot>().empty());
}

TEST_F(HostCoreTest, SigUsr2ThatNobodyHandlesAsksForASnapshot) {
  Run(1);
  Forget();
  core_.OnForwarded(now_, SIGUSR1, 0, &effects_);
  EXPECT_EQ(Took<Note>().back().text, "SIGUSR1 was not forwarded: no worker process handles it");
  EXPECT_TRUE(Took<TakeSnapshot>().empty());
  core_.OnForwarded(now_, SIGUSR2, 0, &effects_);
  core_.OnForwarded(now_, SIGUSR2, 0, &effects_);
  ASSERT_EQ(Took<TakeSnapshot>().size(), 1u) << "one at a time";
  EXPECT_EQ(Took<TakeSnapshot>()[0].first_rank, 2);
  Forget();
  RankSnapshot stopped;
  stopped.rank = 3;
  stopped.state = 'T';
  core_.OnSnapshot(now_, {stopped}, &effects_);
  EXPECT_EQ(Took<Note>().back().text, "rank 3: it is stopped");
  core_.OnForwarded(now_, SIGUSR2, 0, &effects_);
  EXPECT_EQ(Took<TakeSnapshot>().size(), 1u);
}

TEST_F(HostCoreTest, ACancelledPrimaryStaysUntilAllKnowTheVerdict) {
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
  while (now_ < idle + absl::Seconds(9)) {  // the workers of other nodes take long to end
    now_ += kTick;
    Give(hold());
    core_.OnTick(now_, &effects_);
  }
  EXPECT_FALSE(core_.finished()) << "the coordinator would end with this host, and the others would wait in vain";
  v1::HostDirective released = hold();
  released.mutable_exit()->set_exit_code(130);
  Give(released);
  core_.OnAgentClosed(now_, 1, &effects_);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 130);
}

TEST_F(HostCoreTest, ACancelledPrimaryDoesNotStayForever) {
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

TEST_F(HostCoreTest, CtrlZUnderALeaseStopsTheWorkersOnly) {
  Run(1);
  Forget();
  core_.OnSuspend(now_, true, &effects_);
  EXPECT_EQ(Took<SignalWorkers>()[0].signal, SIGSTOP);
  EXPECT_TRUE(Took<StopSelf>().empty());
}

TEST_F(SingleNodeHostCoreTest, CtrlZWithoutALeaseStopsTheHostToo) {
  Run(1);
  core_.OnSuspend(now_, true, &effects_);
  EXPECT_EQ(Took<StopSelf>().size(), 1u);
}

TEST_F(SingleNodeHostCoreTest, CtrlZIsIgnoredIfNoShellCanContinueUs) {
  Run(1);
  Forget();
  core_.OnSuspend(now_, false, &effects_);
  EXPECT_TRUE(Took<StopSelf>().empty());
  EXPECT_TRUE(Took<SignalWorkers>().empty());
  EXPECT_EQ(Took<Note>().size(), 1u);
}

TEST_F(SingleNodeHostCoreTest, ASilentAgentIsReplacedOnceTheWorkersEnd) {
  Run(1);
  Pass(kLoneAgentSilence * 3, false);
  EXPECT_TRUE(Took<KillAgent>().empty()) << "the workers do not need it";
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  Forget();
  Pass(kLoneAgentSilence - absl::Seconds(1), false);
  EXPECT_TRUE(Took<KillAgent>().empty());
  Pass(absl::Seconds(1) + kTick, false);
  EXPECT_EQ(Took<KillAgent>().size(), 1u);
  EXPECT_EQ(Took<StartAgent>().at(0).number, 2u);
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_SUCCEEDED);
}

TEST_F(HostCoreTest, ACancelledHostEndsBySigint) {
  core_.OnSignal(now_, SIGINT, &effects_);
  Pass(kLeaveReportLimit + absl::Seconds(1));
  const Finish finish = Took<Finish>().at(0);
  EXPECT_EQ(finish.exit_code, 130);
  EXPECT_EQ(finish.signal, SIGINT);
}

TEST_F(HostCoreTest, ASignalAfterTheEndHurriesIt) {
  core_.OnSignal(now_, SIGTERM, &effects_);
  Pass(kLeaveReportLimit + absl::Seconds(1));
  ASSERT_EQ(Took<Finish>().size(), 1u);
  core_.OnSignal(now_, SIGUSR1, &effects_);
  core_.OnSuspend(now_, true, &effects_);
  EXPECT_TRUE(Took<HurryFinish>().empty());
  core_.OnSignal(now_, SIGTERM, &effects_);
  EXPECT_EQ(Took<HurryFinish>().size(), 1u);
  EXPECT_FALSE(Took<HurryFinish>()[0].cancel);
  Forget();
  core_.OnSignal(now_, SIGINT, &effects_);
  ASSERT_EQ(Took<HurryFinish>().size(), 1u);
  EXPECT_TRUE(Took<HurryFinish>()[0].cancel);
}

TEST_F(HostCoreTest, AHostCancelledByAnotherNodeExitsWith130) {
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(130);
  Give(directive);
  Pass(kLeaveReportLimit + absl::Seconds(1), false);
  const Finish finish = Took<Finish>().at(0);
  EXPECT_EQ(finish.exit_code, 130);
  EXPECT_EQ(finish.signal, 0);
}

TEST_F(SingleNodeHostCoreTest, NoSilenceIsWatchedAndNoTimerArmed) {
  Run(1);
  Pass(absl::Hours(1), false);
  EXPECT_TRUE(Took<KillAgent>().empty());
  EXPECT_TRUE(Took<SetKernelTimer>().empty());
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_RUNNING);
}

TEST_F(SingleNodeHostCoreTest, AnExitOrderFlushesAndWaitsForTheAgent) {
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

}  // namespace
}  // namespace muster::host
