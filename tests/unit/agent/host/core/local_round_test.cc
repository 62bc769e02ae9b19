// A round of two workers by itself. The host_core_*_test.cc files show it with agent, lease and signals.
#include "agent/host/core/local_round.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "tests/unit/effects.h"

namespace muster::host {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(30);
constexpr absl::Duration kNano = absl::Nanoseconds(1);

class LocalRoundTest : public ::testing::Test {
 protected:
  LocalRoundTest() { StartRound(1); }

  void StartRound(uint64_t number) {
    v1::Round round;
    round.mutable_id()->set_number(number);
    round.set_first_rank(2);
    round_.Start(now_, round);
  }
  bool Exit(int local_rank, Ending ending = {}) {
    const bool failed =
        round_.OnExit({.at = now_, .local_rank = local_rank, .ending = std::move(ending)}, &effects_);
    round_.SweepIfAllEnded(now_, &effects_);
    return failed;
  }
  bool Stop(absl::Duration grace = kGrace, v1::Outcome outcome = v1::OUTCOME_STOPPED) {
    return round_.BeginStop(now_, {.grace = grace, .outcome = outcome, .cause = "a test"}, &effects_);
  }
  bool Tick(absl::Duration after) {
    now_ += after;
    return round_.OnTick(now_, &effects_);
  }
  template <typename T>
  size_t Count() const {
    return AllOf<T>(effects_).size();
  }
  static Ending BySignal(int signal) { return Ending{.by_signal = true, .number = signal}; }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  LocalRound round_{{.slots = 2, .hostname = "n0", .local_rank_option = ""}};
  Effects effects_;
};

TEST_F(LocalRoundTest, ItRunsOnceAllWorkersExecute) {
  EXPECT_EQ(round_.phase(), v1::HOST_PHASE_STARTING);
  EXPECT_FALSE(round_.OnExecuting(0));
  EXPECT_TRUE(round_.OnExecuting(1));
  EXPECT_EQ(round_.phase(), v1::HOST_PHASE_RUNNING);
}

TEST_F(LocalRoundTest, AWorkerMustStartInTime) {
  EXPECT_FALSE(round_.OnExecuting(0));
  now_ += kStartLimit;
  EXPECT_FALSE(round_.FailsToStart(now_, absl::UnixEpoch(), &effects_));
  now_ += kNano;
  EXPECT_TRUE(round_.FailsToStart(now_, absl::UnixEpoch(), &effects_));
  EXPECT_EQ(round_.failed_local_rank(), 1);
}

TEST_F(LocalRoundTest, WorkersThatOutliveTheirGracePeriodAreNamed) {
  v1::Worker worker;
  worker.set_local_rank(1);
  worker.set_pid(812);
  round_.OnSpawned({worker});
  EXPECT_TRUE(Stop());
  Exit(0);
  EXPECT_FALSE(Tick(kGrace));
  EXPECT_EQ(AllOf<Note>(effects_).back().text,
            absl::StrCat("rank 3 (pid 812) did not exit within the grace period of ", absl::FormatDuration(kGrace),
                         ": sending SIGKILL"));
}

TEST_F(LocalRoundTest, ASecondRequestIsNoGracePeriodThatIsOver) {
  EXPECT_TRUE(Stop());
  EXPECT_FALSE(round_.BeginStop(now_, {.signal = SIGKILL, .cause = "second signal"}, &effects_));
  EXPECT_FALSE(Tick(absl::ZeroDuration()));
  EXPECT_EQ(AllOf<Note>(effects_).back().text, "sending SIGKILL to rank 2, rank 3");
}

// The grace period would have ended while this process was frozen.
TEST_F(LocalRoundTest, AGracePeriodIsNeverNegative) {
  EXPECT_TRUE(Stop(-absl::Milliseconds(400)));
  EXPECT_EQ(AllOf<Note>(effects_).back().text, "stopping workers: a test; grace period 0");
  EXPECT_FALSE(Tick(absl::ZeroDuration()));
  EXPECT_EQ(AllOf<Note>(effects_).back().text, "sending SIGKILL to rank 2, rank 3");
}

TEST_F(LocalRoundTest, AStopIsNotHastenedIntoThePast) {
  EXPECT_TRUE(Stop());
  EXPECT_FALSE(Stop(-absl::Milliseconds(400)));
  EXPECT_FALSE(Tick(absl::ZeroDuration()));
  EXPECT_EQ(AllOf<Note>(effects_).back().text, "sending SIGKILL to rank 2, rank 3");
}

TEST_F(LocalRoundTest, ItSucceedsIfAllWorkersEndByThemselves) {
  EXPECT_FALSE(Exit(0));
  EXPECT_EQ(Count<Sweep>(), 0u);
  EXPECT_FALSE(Exit(1));
  EXPECT_EQ(Count<Sweep>(), 1u);
  EXPECT_EQ(round_.outcome(), v1::OUTCOME_SUCCEEDED);
  EXPECT_FALSE(Exit(1)) << "reported before";
  EXPECT_EQ(Count<Sweep>(), 1u);
}

TEST_F(LocalRoundTest, AStopDoesNotUndoSuccess) {
  Exit(0);
  Exit(1);
  EXPECT_TRUE(Stop());
  EXPECT_EQ(round_.outcome(), v1::OUTCOME_SUCCEEDED);
  EXPECT_EQ(Count<StopWorkers>(), 0u) << "there is none";
}

TEST_F(LocalRoundTest, ExitsAfterAStopAreNoSuccess) {
  EXPECT_TRUE(Stop());
  Exit(0);
  Exit(1);
  EXPECT_EQ(round_.outcome(), v1::OUTCOME_STOPPED);
}

TEST_F(LocalRoundTest, AFailureIsReportedOnce) {
  EXPECT_TRUE(Exit(0, Ending{.number = 3}));
  EXPECT_TRUE(Stop(kGrace, v1::OUTCOME_FAILED));
  EXPECT_FALSE(Exit(1, Ending{.number = 3}));
  EXPECT_EQ(round_.failed_local_rank(), 0);
  EXPECT_EQ(round_.outcome(), v1::OUTCOME_FAILED);
}

TEST_F(LocalRoundTest, TheGraceCanOnlyBeShortened) {
  EXPECT_TRUE(Stop(absl::Seconds(10)));
  EXPECT_FALSE(Stop(absl::Seconds(20)));
  EXPECT_FALSE(Tick(absl::Seconds(5)));
  EXPECT_FALSE(Stop(absl::Seconds(1)));
  EXPECT_EQ(Count<StopWorkers>(), 1u);
  EXPECT_FALSE(Tick(absl::Seconds(1) - kNano));
  EXPECT_EQ(Count<Sweep>(), 0u);
  EXPECT_FALSE(Tick(kNano));
  EXPECT_EQ(Count<Sweep>(), 1u);
}

TEST_F(LocalRoundTest, WhatSurvivesSigkillMakesItStuck) {
  EXPECT_TRUE(Stop(absl::ZeroDuration()));
  EXPECT_FALSE(Tick(absl::ZeroDuration()));
  EXPECT_TRUE(round_.can_be_stopped());
  EXPECT_FALSE(Tick(kStuckAfterKill));
  EXPECT_TRUE(Tick(kNano));
  EXPECT_TRUE(round_.stuck());
  EXPECT_FALSE(round_.can_be_stopped());
  EXPECT_EQ(round_.trouble(), "2 workers survive SIGKILL");
  EXPECT_FALSE(Stop()) << "SIGKILL is pending already";
}

TEST_F(LocalRoundTest, AStuckRoundStaysStuck) {
  Exit(0);
  Exit(1);
  EXPECT_FALSE(round_.OnSwept("pid 9"));
  EXPECT_TRUE(Tick(kStuckAfterKill + kNano));
  Exit(1);  // reported before
  EXPECT_TRUE(round_.stuck());
}

TEST_F(LocalRoundTest, ItIsOverOnceNothingIsLeft) {
  Exit(0);
  Exit(1);
  EXPECT_FALSE(round_.OnSwept("pid 9"));
  EXPECT_EQ(round_.trouble(), "pid 9");
  now_ += absl::Seconds(1);
  EXPECT_TRUE(round_.OnSwept(""));
  EXPECT_TRUE(round_.active()) << "what its workers wrote last is still to be gathered";
  EXPECT_TRUE(round_.OnOutput(now_, ""));
  EXPECT_FALSE(round_.active());
  EXPECT_EQ(round_.over_since(), now_);
  EXPECT_EQ(round_.trouble(), "");
  EXPECT_EQ(round_.outcome(), v1::OUTCOME_SUCCEEDED) << "known until the next one starts";
}

TEST_F(LocalRoundTest, AnUnreportedExitAwaitsAnotherSweep) {
  EXPECT_TRUE(Stop(absl::ZeroDuration()));
  EXPECT_FALSE(Tick(absl::ZeroDuration()));
  Exit(0, BySignal(SIGKILL));
  EXPECT_FALSE(round_.OnSwept("")) << "the exit of the other worker is still to be reported";
  Exit(1, BySignal(SIGKILL));
  EXPECT_EQ(Count<Sweep>(), 2u);
  EXPECT_TRUE(round_.OnSwept(""));
}

TEST_F(LocalRoundTest, ARoundWhoseOutputIsGatheredIsNotStuck) {
  Exit(0);
  Exit(1);
  EXPECT_TRUE(round_.OnSwept(""));
  EXPECT_FALSE(Tick(2 * kStuckAfterKill));
  EXPECT_FALSE(round_.stuck());
}

// A file system that hangs may delay the output: nothing is left that a stop could end.
TEST_F(LocalRoundTest, ARoundWhoseOutputIsGatheredIsNotStopped) {
  Exit(0);
  Exit(1);
  EXPECT_TRUE(round_.can_be_stopped()) << "descendants of the workers may be alive";
  EXPECT_TRUE(round_.OnSwept(""));
  EXPECT_FALSE(round_.can_be_stopped());
  EXPECT_TRUE(round_.is_awaited());
  EXPECT_FALSE(Stop());
  EXPECT_FALSE(round_.stopping());
  EXPECT_TRUE(round_.OnOutput(now_, ""));
  EXPECT_FALSE(round_.is_awaited());
}

TEST_F(LocalRoundTest, AnAnswerThatNobodyAskedForEndsNothing) {
  EXPECT_FALSE(round_.OnSwept(""));
  EXPECT_FALSE(round_.OnOutput(now_, ""));
  EXPECT_TRUE(round_.active());
}

TEST_F(LocalRoundTest, TheRestIsSparedDuringTheGracePeriod) {
  EXPECT_FALSE(round_.SparesRest()) << "no stop has begun";
  EXPECT_TRUE(Stop(absl::Seconds(1)));
  EXPECT_TRUE(round_.SparesRest());
  EXPECT_FALSE(Tick(absl::Seconds(1)));
  EXPECT_FALSE(round_.SparesRest()) << "the grace period is over";
}

TEST_F(LocalRoundTest, TheRestIsSignalledAtHalfOfTheGrace) {
  EXPECT_TRUE(Stop(absl::Seconds(10)));
  EXPECT_FALSE(Tick(absl::Seconds(5) - kNano));
  EXPECT_EQ(Count<SignalRest>(), 0u);
  EXPECT_FALSE(Tick(kNano));
  EXPECT_EQ(Count<SignalRest>(), 1u);
  EXPECT_FALSE(Tick(absl::Seconds(1)));
  EXPECT_EQ(Count<SignalRest>(), 1u) << "once";
}

TEST_F(LocalRoundTest, AShortenedGraceMovesItsHalf) {
  EXPECT_TRUE(Stop(absl::Seconds(10)));
  EXPECT_FALSE(Stop(absl::Seconds(2)));
  EXPECT_FALSE(Tick(absl::Seconds(1)));
  EXPECT_EQ(Count<SignalRest>(), 1u);
}

TEST_F(LocalRoundTest, NothingIsSignalledBesideSigkill) {
  EXPECT_TRUE(Stop(absl::Seconds(10)));
  EXPECT_FALSE(Tick(absl::Seconds(10)));
  EXPECT_EQ(Count<SignalRest>(), 0u);
}

TEST_F(LocalRoundTest, SparedProcessesAreAwaited) {
  EXPECT_TRUE(Stop());
  Exit(0);
  Ending ending = BySignal(SIGTERM);
  ending.rest_lives = true;
  Exit(1, ending);
  EXPECT_FALSE(Tick(kSayFinishing));
  EXPECT_EQ(
      AllOf<Note>(effects_).back().text,
      "the first process of rank 3 has ended; processes that it started handle SIGTERM and have 29s to finish");
  EXPECT_EQ(Count<Sweep>(), 0u);
  round_.OnRestEnded(1);
  round_.SweepIfAllEnded(now_, &effects_);
  EXPECT_EQ(Count<Sweep>(), 1u);
}

TEST_F(LocalRoundTest, KilledProcessesHaveNoTimeToFinish) {
  EXPECT_TRUE(Stop(kSayFinishing / 2));
  Ending ending = BySignal(SIGTERM);
  ending.rest_lives = true;
  Exit(1, ending);
  EXPECT_FALSE(Tick(kSayFinishing / 2));
  EXPECT_EQ(Count<Sweep>(), 1u);
  const size_t notes = Count<Note>();
  EXPECT_FALSE(Tick(kSayFinishing));
  EXPECT_EQ(Count<Note>(), notes);
}

TEST_F(LocalRoundTest, ProgressCountsOnceForEachRound) {
  LocalRound none({.slots = 2});
  EXPECT_FALSE(none.OnProgress(now_)) << "there was no round";
  EXPECT_TRUE(round_.OnProgress(now_));
  now_ += absl::Seconds(5);
  EXPECT_FALSE(round_.OnProgress(now_));
  v1::HostStatus status;
  round_.Describe(&status);
  EXPECT_EQ(status.progress_boot_ns(), ToBootNanos(now_)) << "of the newest touch";
  Exit(0);
  Exit(1);
  EXPECT_TRUE(round_.OnSwept(""));
  EXPECT_TRUE(round_.OnOutput(now_, ""));
  StartRound(2);
  EXPECT_TRUE(round_.OnProgress(now_));
}

TEST_F(LocalRoundTest, ANewRoundKnowsNothingOfTheLast) {
  EXPECT_TRUE(Exit(0, Ending{.number = 3}));
  EXPECT_TRUE(Stop(kGrace, v1::OUTCOME_FAILED));
  Exit(1);
  EXPECT_TRUE(round_.OnSwept(""));
  EXPECT_TRUE(round_.OnOutput(now_, ""));
  EXPECT_EQ(round_.failed_local_rank(), std::nullopt) << "the round is over";
  v1::HostStatus status;
  round_.Describe(&status);
  EXPECT_TRUE(status.has_failure());
  StartRound(2);
  status.Clear();
  round_.Describe(&status);
  EXPECT_FALSE(status.has_failure());
  EXPECT_EQ(status.outcome(), v1::OUTCOME_RAN);
  EXPECT_EQ(status.started().number(), 2u);
  EXPECT_EQ(status.workers_size(), 2);
  EXPECT_FALSE(round_.stopping());
}

}  // namespace
}  // namespace muster::host
