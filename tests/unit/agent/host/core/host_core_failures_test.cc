// The host core: the content of a failure report, and which worker is the cause.
#include <gtest/gtest.h>

#include <csignal>

#include "base/wire/failure.h"
#include "tests/unit/agent/host/core/host_core_fixture.h"

namespace muster::host {
namespace {

TEST_F(HostCoreTest, WorkersThatDoNotStartWithinAMinuteAreAFailure) {
  Start(1);
  core_.OnExecuting(now_, 0, &effects_);
  Pass(kStartLimit + absl::Seconds(1));
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_FAILED);
}

TEST_F(HostCoreTest, LaterFailuresAreListedBesideTheFirst) {
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

TEST_F(HostCoreTest, AStopFromOutsideMakesNoCause) {
  Run(1);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(1000);
  Give(stop);
  Exit(0, 7);
  Exit(1, 7);
  Swept();
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_STOPPED);
  EXPECT_TRUE(LastStatus().failure().after_our_signal()) << "listed beside the cause, which is on another node";
  EXPECT_EQ(LastStatus().failure().others_size(), 1);
}

Ending PeerGone() {
  Ending ending;
  ending.number = 1;
  ending.last_words = "RuntimeError: Connection closed by peer";
  return ending;
}

TEST_F(HostCoreTest, AFailureReportedLateComesFirst) {
  Run(1);
  Ending ending = Ended(false, 7);
  ending.at = now_;
  now_ += absl::Milliseconds(60);
  core_.OnExit(now_, 1, Ended(true, SIGSEGV), &effects_);
  core_.OnExit(now_, 0, ending, &effects_);
  Swept();
  EXPECT_EQ(LastStatus().failure().exit_code(), 7);
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), ending.at);
}

TEST_F(HostCoreTest, AnEchoStopsNobodyUntilItsCauseHasHadTime) {
  Run(1);
  core_.OnExit(now_, 0, PeerGone(), &effects_);
  Pass(kEchoPatience - kTick);
  EXPECT_TRUE(Took<StopWorkers>().empty());
  EXPECT_FALSE(LastStatus().has_failure());
  Pass(kTick);
  EXPECT_EQ(Took<StopWorkers>().size(), 1u);
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(LastStatus().failure().rank(), 2);
}

TEST_F(HostCoreTest, AfterAnEchoTheNextFailureStopsAtOnce) {
  Run(1);
  core_.OnExit(now_, 0, PeerGone(), &effects_);
  Pass(absl::Milliseconds(500));
  Exit(1, 2);
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(LastStatus().failure().rank(), 3);
  EXPECT_EQ(LastStatus().failure().exit_code(), 2);
}

TEST_F(HostCoreTest, EchoesOfAllWorkersAreNotWaitedWith) {
  Run(1);
  core_.OnExit(now_, 0, PeerGone(), &effects_);
  core_.OnExit(now_, 1, PeerGone(), &effects_);
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(LastStatus().failure().rank(), 2);
}

TEST_F(HostCoreTest, ACauseOnAnotherNodeHasTimeToo) {
  v1::HostDirective directive = Directive();
  *directive.mutable_start() = Round(1);
  directive.mutable_start()->set_node_count(2);
  Give(directive);
  for (const int local_rank : {0, 1}) core_.OnExit(now_, local_rank, PeerGone(), &effects_);
  Pass(kEchoPatience - kTick);
  EXPECT_FALSE(LastStatus().has_failure());
  EXPECT_TRUE(Took<Sweep>().empty());
  Pass(kTick);
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(HostCoreTest, AnOrderedStopEndsTheWaitAndReportsTheEcho) {
  Run(1);
  core_.OnExit(now_, 0, PeerGone(), &effects_);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(1000);
  Give(stop);
  EXPECT_EQ(LastStatus().failure().rank(), 2);
  EXPECT_FALSE(LastStatus().failure().after_our_signal()) << "it failed before";
}

TEST_F(HostCoreTest, AFailureIsDatedByTheWorkerToTheSecond) {
  Run(1);
  now_ += absl::Seconds(10);
  Ending ending = Ended(false, 7);
  ending.failed_at_s = absl::ToUnixSeconds(now_) - 5;  // this machine booted at the epoch
  core_.OnExit(now_, 0, ending, &effects_);
  EXPECT_EQ(LastStatus().failure().wall_time_s(), absl::ToUnixSeconds(now_) - 5);
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), absl::FromUnixSeconds(absl::ToUnixSeconds(now_) - 4));
}

TEST_F(HostCoreTest, AWrongWorkerClockIsBoundedByTheRound) {
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

// The time in the error file decides, even if that worker exits later than the others.
TEST_F(HostCoreTest, TheEarliestErrorFileNamesTheCause) {
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

TEST_F(HostCoreTest, TheErrorFilesWriteTimeBoundsTheFailure) {
  Run(1);
  now_ += absl::Milliseconds(10'700);
  Ending ending = Ended(false, 7);
  ending.failed_at_s = absl::ToUnixSeconds(now_);
  ending.reported_at = now_ - absl::Milliseconds(300);
  core_.OnExit(now_, 0, ending, &effects_);
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), now_ - absl::Milliseconds(300));
}

TEST_F(HostCoreTest, AWriteTimeOfAnotherClockIsIgnored) {
  Run(1);
  now_ += absl::Milliseconds(10'700);
  Ending ending = Ended(false, 7);
  ending.failed_at_s = absl::ToUnixSeconds(now_) - 2;
  ending.reported_at = now_ - absl::Seconds(9);
  core_.OnExit(now_, 0, ending, &effects_);
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), absl::FromUnixSeconds(*ending.failed_at_s + 1));
}

TEST_F(HostCoreTest, SettingTheClockMovesNoFailure) {
  Run(1);
  now_ += absl::Seconds(10);
  const absl::Duration set_back = absl::Hours(1);
  Ending ending = Ended(false, 7);
  ending.wall = now_ - set_back;
  ending.failed_at_s = absl::ToUnixSeconds(now_ - set_back) - 5;
  core_.OnExit(now_, 0, ending, &effects_);
  EXPECT_EQ(FromBootNanos(LastStatus().failure_boot_ns()), absl::FromUnixSeconds(absl::ToUnixSeconds(now_) - 4));
}

TEST_F(HostCoreTest, AFailureBeforeAnOutsideStopIsReported) {
  Run(1);
  now_ += absl::Seconds(10);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(1000);
  Give(stop);  // peers on other nodes ended before it did
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

TEST_F(HostCoreTest, TheCausesLastLinesAreWaitedFor) {
  Run(1);
  Exit(1, 1);
  Exit(0, 1);
  core_.OnSwept(now_, "", &effects_);
  ASSERT_EQ(Took<GatherRoundOutput>().size(), 1u);
  EXPECT_EQ(Took<GatherRoundOutput>()[0].local_rank, 1);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STOPPING);
  core_.OnRoundOutput(now_, "why", &effects_);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_IDLE);
  EXPECT_EQ(LastStatus().failure().last_output(), "why");
}

TEST_F(HostCoreTest, ASuccessNamesNoWorkerToWaitFor) {
  Run(1);
  Exit(0, 0);
  Exit(1, 0);
  core_.OnSwept(now_, "", &effects_);
  ASSERT_EQ(Took<GatherRoundOutput>().size(), 1u);
  EXPECT_EQ(Took<GatherRoundOutput>()[0].local_rank, std::nullopt);
}

// Its processes are dead, however long the sweep took: only their output is still awaited.
TEST_F(HostCoreTest, ASweptRoundIsNeverStuck) {
  Run(1);
  Exit(0, 1);
  Exit(1, 1);
  Pass(kStuckAfterKill);
  core_.OnSwept(now_, "", &effects_);
  Pass(kLastOutputLimit);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STOPPING);
  core_.OnRoundOutput(now_, "", &effects_);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_IDLE);
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

TEST_F(UsageErrorTest, ExitCode2OfAllWorkersAtTheStartGetsAHint) {
  EXPECT_NE(HintAfter(absl::Seconds(5), Ended(false, 2), Ended(false, 2)).find("--pass-local-rank"),
            std::string::npos);
}
TEST_F(UsageErrorTest, ExitCode2AndOurSignalGetAHint) {
  EXPECT_NE(HintAfter(absl::Seconds(5), Ended(false, 2), Ended(true, SIGTERM)), "");
}
TEST_F(UsageErrorTest, AnotherCodeGetsNoHint) {
  EXPECT_EQ(HintAfter(absl::Seconds(5), Ended(false, 1), Ended(false, 1)), "");
}
TEST_F(UsageErrorTest, OneWorkerAloneGetsNoHint) {
  EXPECT_EQ(HintAfter(absl::Seconds(5), Ended(false, 2), Ended(false, 0)), "");
}
TEST_F(UsageErrorTest, ALaterExitGetsNoHint) {
  EXPECT_EQ(HintAfter(absl::Seconds(61), Ended(false, 2), Ended(false, 2)), "");
}

}  // namespace
}  // namespace muster::host
