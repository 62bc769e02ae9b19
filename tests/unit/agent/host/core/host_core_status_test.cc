// What the host reports to its agent, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/wire/other_failures.h"
#include "base/wire/takeover.h"
#include "tests/unit/agent/host/core/host_core_fixture.h"

namespace muster::host {
namespace {

TEST_F(HostCoreTest, AStatusDescribesTheHost) {
  HostOptions options = Options(false);
  options.host_pid = 77;
  HostCore core(options);
  Effects effects;
  core.Begin(now_, &effects);
  const v1::HostStatus first = AllOf<SendStatus>(effects).at(0).status;
  EXPECT_EQ(first.host_id(), "h");
  EXPECT_EQ(first.host_pid(), 77);
  EXPECT_EQ(first.agent_number(), 1u);
  EXPECT_EQ(first.seq(), 1u);
  EXPECT_EQ(FromBootNanos(first.memory().joined_boot_ns()), now_);
  EXPECT_EQ(first.lease_deadline_boot_ns(), 0) << "no lease is granted yet";
  EXPECT_FALSE(first.progressed());
  EXPECT_FALSE(first.flushed());
  core.OnOffer(now_, 4000, &effects);
  const v1::HostStatus second = AllOf<SendStatus>(effects).back().status;
  EXPECT_EQ(second.seq(), 2u);
  EXPECT_EQ(second.offer_port(), 4000u);
  EXPECT_FALSE(second.has_config()) << "the agent has it already";
}

TEST_F(HostCoreTest, AStatusListsTheLiveWorkers) {
  Start(1);
  std::vector<v1::Worker> workers(3);
  for (int i = 0; i < 3; ++i) {  // the third is not of this node
    workers[static_cast<size_t>(i)].set_local_rank(i);
    workers[static_cast<size_t>(i)].set_pid(100 + i);
    workers[static_cast<size_t>(i)].set_start_ticks(uint64_t{1000} + static_cast<uint64_t>(i));
  }
  core_.OnSpawned(now_, workers, &effects_);
  core_.OnExecuting(now_, 0, &effects_);
  core_.OnExecuting(now_, 0, &effects_);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STARTING);
  core_.OnExecuting(now_, 9, &effects_);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STARTING);
  core_.OnExecuting(now_, 1, &effects_);
  const v1::HostStatus status = LastStatus();
  EXPECT_EQ(status.phase(), v1::HOST_PHASE_RUNNING);
  EXPECT_EQ(status.started().number(), 1u);
  EXPECT_EQ(status.outcome(), v1::OUTCOME_RAN);
  EXPECT_EQ(FromBootNanos(status.lease_deadline_boot_ns()), core_.lease_deadline());
  ASSERT_EQ(status.workers_size(), 2);
  EXPECT_EQ(status.workers(1).local_rank(), 1);
  EXPECT_EQ(status.workers(1).pid(), 101);
  EXPECT_EQ(status.workers(1).start_ticks(), 1001u);
  Exit(1, 0);
  Pass(kBeat);
  EXPECT_EQ(LastStatus().workers_size(), 1);
}

// A host that looks for signs of life, in a job without a lease.
class WatchedHostTest : public HostCoreTest {
 protected:
  static HostOptions Watched() {
    HostOptions options = Options(true);
    options.config.set_hang_timeout_ms(300'000);
    return options;
  }
  WatchedHostTest() : HostCoreTest(Watched()) { Run(1); }
};

TEST_F(WatchedHostTest, TheStepsOfItsWorkersAreReported) {
  core_.OnSteps(now_, {{1, StepSource::kOut, 40}}, &effects_);
  Pass(kBeat);
  EXPECT_THAT(LastStatus().steps(), ::testing::ElementsAre(0, 40));
}

TEST_F(HostCoreTest, WithoutAHangTimeoutNoStepsAreReported) {
  Run(1);
  core_.OnSteps(now_, {{1, StepSource::kOut, 40}}, &effects_);
  Pass(kBeat);
  EXPECT_THAT(LastStatus().steps(), ::testing::IsEmpty());
}

TEST_F(WatchedHostTest, WhileItIsStoppedNoSilenceIsCounted) {
  Pass(absl::Seconds(1));
  EXPECT_GT(LastStatus().quiet_ms(), 0);
  core_.OnSuspend(now_, true, &effects_);
  Pass(absl::Seconds(10));
  EXPECT_EQ(LastStatus().quiet_ms(), 0);
}

TEST_F(WatchedHostTest, ASnapshotEndsWithItsRound) {
  v1::HostDirective directive = Directive();
  directive.set_snapshot(7);
  Give(directive);
  ASSERT_EQ(Took<TakeSnapshot>().size(), 1u);
  core_.OnSnapshot(now_, std::vector<RankSnapshot>(2), &effects_);
  EXPECT_EQ(LastStatus().snapshot().number(), 7u);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  EXPECT_FALSE(LastStatus().has_snapshot());
}

TEST_F(HostCoreTest, AStartIsReportedAtOnce) {
  Forget();
  Start(1);
  ASSERT_EQ(Took<SendStatus>().size(), 1u);
  EXPECT_EQ(LastStatus().phase(), v1::HOST_PHASE_STARTING);
  EXPECT_EQ(LastStatus().applied_seq(), seq_);
}

TEST_F(HostCoreTest, AStatusIsRepeatedTwiceASecond) {
  Pass(kBeat);
  Forget();
  Pass(absl::Seconds(5));
  EXPECT_EQ(Took<SendStatus>().size(), 10u);
}

// An agent that hears nothing for half a lease takes its host for frozen.
TEST_F(HostCoreTest, UnderAShortLeaseAStatusIsRepeatedMoreOften) {
  v1::HostDirective directive = Directive();
  directive.set_lease_ms(1600);
  Give(directive);
  Pass(kBeat);
  Forget();
  Pass(absl::Seconds(2));
  EXPECT_EQ(Took<SendStatus>().size(), 10u) << "an eighth of the lease";
}

TEST_F(HostCoreTest, AnAppliedDirectiveOfTheCoordinatorIsConfirmedAtOnce) {
  v1::HostDirective directive = Directive();
  directive.mutable_memory()->mutable_applied()->set_seq(5);
  Forget();
  Give(directive);
  EXPECT_EQ(Took<SendStatus>().size(), 1u);
  v1::HostDirective beat = Directive();
  *beat.mutable_memory() = directive.memory();
  Give(beat);
  EXPECT_EQ(Took<SendStatus>().size(), 1u);
}

TEST_F(HostCoreTest, ARepeatedDirectiveIsIgnored) {
  v1::HostDirective directive = Directive();
  Give(directive);
  directive.set_leave("preemption notice of gce");
  Give(directive);
  EXPECT_FALSE(LastStatus().has_leave());
  directive = Directive();
  directive.set_leave("preemption notice of gce");
  Give(directive);
  EXPECT_TRUE(LastStatus().has_leave());
}

TEST_F(HostCoreTest, ANewAgentCountsItsDirectivesAnew) {
  for (int i = 0; i < 5; ++i) Give(Directive());
  core_.OnAgentClosed(now_, 1, &effects_);
  seq_ = 0;
  Start(1);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 1u);
}

TEST_F(HostCoreTest, ProgressIsReportedOnceInEachRound) {
  Forget();
  core_.OnProgress(now_, &effects_);
  EXPECT_TRUE(effects_.empty()) << "no round has begun";
  Run(1);
  Forget();
  core_.OnProgress(now_, &effects_);
  core_.OnProgress(now_, &effects_);
  ASSERT_EQ(Took<SendStatus>().size(), 1u);
  EXPECT_TRUE(LastStatus().progressed());
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  EXPECT_TRUE(LastStatus().progressed());
  Run(2);
  EXPECT_FALSE(LastStatus().progressed());
}

TEST_F(HostCoreTest, ANewRoundForgetsTheFailureOfTheOneBefore) {
  Run(1);
  Exit(0, 7);
  Exit(1, 7);
  Swept();
  ASSERT_TRUE(LastStatus().has_failure());
  Run(2);
  EXPECT_FALSE(LastStatus().has_failure());
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_RAN);
  EXPECT_EQ(LastStatus().workers_size(), 2);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_SUCCEEDED);
}

TEST_F(HostCoreTest, AWorkersEndIsReportedOnceOnly) {
  Run(1);
  Exit(0, 7);
  Exit(0, 8);
  Exit(9, 8);
  EXPECT_EQ(LastStatus().failure().exit_code(), 7);
  EXPECT_EQ(LastStatus().failure().others_size(), 0);
}

TEST_F(HostCoreTest, AWorkerThatCannotBeSpawnedHasFailed) {
  Start(1);
  core_.OnSpawnFailed(now_, 1, 127, "no such file", &effects_);
  EXPECT_EQ(LastStatus().failure().exit_code(), 127);
  EXPECT_EQ(LastStatus().failure().error_text(), "no such file");
  EXPECT_EQ(LastStatus().failure().rank(), 3);
}

// The machine had no process left for it.
TEST_F(HostCoreTest, AWorkerWithoutAProcessDidNotExit) {
  Start(1);
  v1::Worker other;
  other.set_pid(100);
  core_.OnSpawned(now_, {other}, &effects_);
  core_.OnSpawnFailed(now_, 1, 70, "starting a process: no", &effects_);
  EXPECT_EQ(LastStatus().failure().exit_code(), 70);
  EXPECT_EQ(LastStatus().failure().error_text(), "starting a process: no");
  std::vector<std::string> said;
  for (const Note& note : Took<Note>()) said.push_back(note.text);
  EXPECT_THAT(said, testing::Contains("worker rank 3 could not be started: starting a process: no"));
}

TEST_F(HostCoreTest, AFailureHasAllThatIsKnownOfIt) {
  Run(3);
  now_ += absl::Seconds(2);
  Ending ending = Ended(true, SIGKILL);
  ending.core_dumped = ending.oom_killed = true;
  ending.error_text = std::string(2 * kMaxErrorText, 'e');
  ending.callstack = std::string(2 * kMaxErrorText, 'c');
  ending.error_file = "/logs/error.json";
  core_.OnExit(now_, 1, ending, &effects_);
  const v1::Failure failure = LastStatus().failure();
  EXPECT_EQ(failure.round().number(), 3u);
  EXPECT_EQ(failure.local_rank(), 1);
  EXPECT_EQ(failure.rank(), 3);
  EXPECT_EQ(failure.node_rank(), 1);
  EXPECT_EQ(failure.host(), "n0");
  EXPECT_EQ(failure.pid(), 101);
  EXPECT_EQ(failure.signal(), SIGKILL);
  EXPECT_TRUE(failure.core_dumped());
  EXPECT_TRUE(failure.oom_killed());
  EXPECT_EQ(failure.error_text(), std::string(kMaxErrorText, 'e'));
  EXPECT_EQ(failure.callstack(), std::string(kMaxErrorText, 'c'));
  EXPECT_EQ(failure.error_file(), "/logs/error.json");
  EXPECT_EQ(failure.wall_time_s(), absl::ToUnixSeconds(now_)) << "this machine booted at the epoch";
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), now_);
}

TEST_F(HostCoreTest, AFailureIsLoggedWithItsReason) {
  const auto said = [this](const Ending& ending) {
    Run(core_.started().number() + 1);
    Forget();
    core_.OnExit(now_, 0, ending, &effects_);
    std::string text = Took<Note>().at(0).text;
    EXPECT_EQ(Took<Note>()[0].severity, Severity::kWarning);
    EXPECT_EQ(Took<Note>()[0].subject.rank, 2);
    Exit(1, 0);
    Swept();
    return text;
  };
  Ending with_text = Ended(false, 3);
  with_text.error_text = "ValueError: x";
  Ending oom = Ended(true, SIGKILL);
  oom.oom_killed = true;
  EXPECT_EQ(said(Ended(false, 3)), "worker rank 2 (pid 100) exited with code 3");
  EXPECT_EQ(said(with_text), "worker rank 2 (pid 100) exited with code 3: ValueError: x");
  EXPECT_EQ(said(Ended(true, SIGSEGV)), "worker rank 2 (pid 100) was killed (SIGSEGV)");
  EXPECT_EQ(said(oom), "worker rank 2 (pid 100) was killed because memory ran out");
}

class ManyWorkersTest : public HostCoreTest {
 protected:
  static constexpr int kWorkers = kMaxOtherFailures + 4;
  ManyWorkersTest() : HostCoreTest(WithManyWorkers()) {
    Start(1);
    for (int i = 0; i < kWorkers; ++i) core_.OnExecuting(now_, i, &effects_);
  }
  static HostOptions WithManyWorkers() {
    HostOptions options = Options(false);
    options.config.set_slots(kWorkers);
    return options;
  }
};

TEST_F(ManyWorkersTest, FurtherFailuresAreListedInBriefThenCounted) {
  now_ += absl::Seconds(10);
  Ending ending = Ended(false, 1);
  ending.error_text = std::string(2 * kMaxBriefText, 'e');
  ending.callstack = "Traceback";
  for (int i = 0; i < kWorkers - 2; ++i) core_.OnExit(now_, i, ending, &effects_);
  Pass(kBeat);
  v1::Failure failure = LastStatus().failure();
  EXPECT_EQ(failure.callstack(), "Traceback");
  ASSERT_EQ(failure.others_size(), kMaxOtherFailures);
  EXPECT_EQ(failure.more_others(), 1);
  EXPECT_EQ(failure.others(0).error_text(), std::string(kMaxBriefText, 'e'));
  EXPECT_EQ(failure.others(0).callstack(), "");
  core_.OnExit(now_, kWorkers - 2, ending, &effects_);
  Pass(kBeat);
  EXPECT_EQ(LastStatus().failure().more_others(), 2);
  Ending earlier = Ended(false, 7);
  earlier.failed_at_s = absl::ToUnixSeconds(now_) - 9;
  core_.OnExit(now_, kWorkers - 1, earlier, &effects_);
  Pass(kBeat);
  failure = LastStatus().failure();
  EXPECT_EQ(failure.exit_code(), 7) << "it had failed before the others";
  EXPECT_EQ(failure.others_size(), kMaxOtherFailures);
  EXPECT_EQ(failure.others(0).local_rank(), 1);
  EXPECT_EQ(failure.more_others(), 3) << "and the former cause is one of the others";
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), absl::FromUnixSeconds(*earlier.failed_at_s + 1));
}

TEST_F(ManyWorkersTest, AFormerCauseIsListedWithoutItsOwnOthers) {
  now_ += absl::Seconds(10);
  Exit(0, 1);
  Exit(1, 1);
  Ending earlier = Ended(false, 7);
  earlier.failed_at_s = absl::ToUnixSeconds(now_) - 5;
  core_.OnExit(now_, 2, earlier, &effects_);
  Ending between = Ended(false, 8);
  between.failed_at_s = absl::ToUnixSeconds(now_) - 3;
  core_.OnExit(now_, 3, between, &effects_);
  Pass(kBeat);
  const v1::Failure failure = LastStatus().failure();
  EXPECT_EQ(failure.local_rank(), 2);
  ASSERT_EQ(failure.others_size(), 3);
  for (const v1::Failure& other : failure.others()) EXPECT_EQ(other.others_size(), 0);
  EXPECT_EQ(failure.others(0).local_rank(), 1);
  EXPECT_EQ(failure.others(1).local_rank(), 0);
  EXPECT_EQ(failure.others(2).local_rank(), 3) << "it failed later than the cause";
}

TEST_F(HostCoreTest, AFailureAtTheMomentOfTheStopIsNoCause) {
  Run(1);
  now_ += absl::Seconds(10);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(1000);
  Give(stop);
  Ending late = Ended(false, 7);
  late.failed_at_s = absl::ToUnixSeconds(now_) - 1;  // that second ends now
  core_.OnExit(now_, 1, late, &effects_);
  Pass(kBeat);
  EXPECT_TRUE(LastStatus().failure().after_our_signal());
  Ending killed = Ended(true, SIGTERM);
  killed.failed_at_s = absl::ToUnixSeconds(now_) - 9;
  core_.OnExit(now_, 0, killed, &effects_);
  Pass(kBeat);
  EXPECT_TRUE(LastStatus().failure().after_our_signal());
  EXPECT_EQ(LastStatus().failure().others_size(), 1);
}

TEST_F(HostCoreTest, AStuckNodeNamesWhatTheSweepFound) {
  Run(1);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(0);
  Give(stop);
  Pass(kTick + kStuckAfterKill);  // killed at the first tick
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STOPPING);
  core_.OnSwept(now_, "pid 7 in D state", &effects_);
  Forget();
  Pass(kTick);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STUCK);
  EXPECT_EQ(Took<Note>().at(0).text, "this node is unusable: pid 7 in D state");
  ASSERT_EQ(Took<SendStatus>().size(), 1u);
  EXPECT_EQ(LastStatus().trouble(), "pid 7 in D state");
  Exit(0, 9);
  Exit(1, 9);
  Swept();
  EXPECT_EQ(LastStatus().phase(), v1::HOST_PHASE_IDLE);
  EXPECT_EQ(LastStatus().trouble(), "");
}

TEST_F(HostCoreTest, AStuckNodeCountsTheWorkersThatSurvive) {
  for (const bool both : {true, false}) {
    Run(core_.started().number() + 1);
    if (!both) Exit(0, 0);
    v1::HostDirective stop = Directive();
    stop.mutable_stop()->set_grace_ms(0);
    Give(stop);
    Pass(kStuckAfterKill + 2 * kTick);
    EXPECT_EQ(LastStatus().trouble(), both ? "2 workers survive SIGKILL" : "1 worker survives SIGKILL");
    if (both) Exit(0, 9);
    Exit(1, 9);
    Swept();
    ASSERT_EQ(core_.phase(), v1::HOST_PHASE_IDLE);
  }
}

TEST_F(HostCoreTest, KillingIsLoggedOnlyIfAWorkerLives) {
  const auto said = [this] {
    int count = 0;
    for (const Note& note : Took<Note>()) count += note.subject.event == events::kWorkersKilled ? 1 : 0;
    return count;
  };
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(1000);
  Run(1);
  Exit(0, 0);
  Exit(1, 0);  // their leftovers are being swept
  stop.set_seq(++seq_);
  Give(stop);
  Pass(absl::Seconds(2));
  EXPECT_EQ(said(), 0);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
  Swept();
  Run(2);
  stop.set_seq(++seq_);
  Give(stop);
  Pass(absl::Milliseconds(900));
  EXPECT_EQ(said(), 0);
  Pass(kTick);
  EXPECT_EQ(said(), 1);
}

TEST_F(HostCoreTest, WorkersHaveAMinuteToStart) {
  Start(1);
  core_.OnExecuting(now_, 0, &effects_);
  Pass(kStartLimit);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STARTING);
  Pass(kTick);
  EXPECT_EQ(LastStatus().failure().local_rank(), 1) << "the one that has not started";
  EXPECT_EQ(LastStatus().failure().error_text(),
            "its process (pid 0) did not begin to execute the program within a minute");
  EXPECT_EQ(LastStatus().failure().exit_code(), 70);
}

TEST_F(HostCoreTest, WorkersThatHaveStartedHaveNoTimeLimit) {
  Run(1);
  Pass(2 * kStartLimit);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_RUNNING);
}

TEST_F(HostCoreTest, OfTwoFailuresOfOneMomentTheFirstReportedIsTheCause) {
  Run(1);
  now_ += absl::Seconds(10);
  Ending ending = Ended(false, 1);
  ending.failed_at_s = absl::ToUnixSeconds(now_) - 5;
  core_.OnExit(now_, 1, ending, &effects_);
  core_.OnExit(now_, 0, ending, &effects_);
  EXPECT_EQ(LastStatus().failure().local_rank(), 1);
}

TEST_F(HostCoreTest, AnErrorFileWrittenAtTheSecondItselfDatesTheFailure) {
  Run(1);
  now_ += absl::Seconds(10);
  Ending ending = Ended(false, 1);
  ending.failed_at_s = absl::ToUnixSeconds(now_) - 5;
  ending.reported_at = absl::FromUnixSeconds(*ending.failed_at_s);
  core_.OnExit(now_, 1, ending, &effects_);
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), *ending.reported_at);
}

TEST_F(HostCoreTest, ASweepThatNobodyAwaitsChangesNothing) {
  Run(1);
  core_.OnSwept(now_, "pid 7", &effects_);
  Pass(kBeat);
  EXPECT_EQ(LastStatus().trouble(), "");
  EXPECT_EQ(LastStatus().workers_size(), 2);
}

TEST_F(HostCoreTest, ARunningWorkersRestHasNotEnded) {
  Run(1);
  core_.OnRestEnded(now_, 0, &effects_);
  core_.OnRestEnded(now_, 9, &effects_);
  Pass(kBeat);
  EXPECT_EQ(LastStatus().workers_size(), 2);
}

TEST_F(HostCoreTest, AFailuresTimeFollowsTheWallClock) {
  Run(1);
  core_.OnWallClock(now_, absl::FromUnixSeconds(1'700'000'000), &effects_);
  Exit(0, 1);
  EXPECT_EQ(LastStatus().failure().wall_time_s(), 1'700'000'000);
}

class UsageHintTest : public HostCoreTest {
 protected:
  // The hint for a script whose only worker rejects its arguments, if --pass-local-rank added this option.
  static std::string HintWith(const std::string& option, absl::Duration after = absl::Seconds(1)) {
    HostOptions options = Options(false);
    options.config.set_slots(1);
    options.local_rank_option = option;
    HostCore core(options);
    Effects effects;
    BootTime now = FromBootNanos(1'000'000'000'000);
    core.Begin(now, &effects);
    v1::HostDirective directive;
    directive.set_agent_number(1);
    directive.set_seq(1);
    directive.set_lease_deadline_boot_ns(ToBootNanos(now + absl::Hours(1)));
    *directive.mutable_start() = Round(1);
    core.OnDirective(now, directive, &effects);
    core.OnExecuting(now, 0, &effects);
    now += after;
    core.OnExit(now, 0, Ended(false, 2), &effects);
    core.OnSwept(now, "", &effects);
    core.OnRoundOutput(now, "", &effects);
    return AllOf<SendStatus>(effects).back().status.failure().hint();
  }
};

TEST_F(UsageHintTest, NamesTheOptionThatWasNotTried) {
  EXPECT_NE(HintWith("").find("expects --local-rank, add --pass-local-rank"), std::string::npos);
  EXPECT_NE(HintWith("local-rank").find("expects --local_rank, with an underscore"), std::string::npos);
  EXPECT_EQ(HintWith("local_rank"), "") << "the user chose it";
}

TEST_F(UsageHintTest, IsGivenWithinAMinute) {
  EXPECT_NE(HintWith("", kUsageErrorWithin), "");
  EXPECT_EQ(HintWith("", kUsageErrorWithin + kTick), "");
}

}  // namespace
}  // namespace muster::host
