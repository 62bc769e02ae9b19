// Fitness by itself. host_core_fitness_test.cc shows it between the rounds of a job.
#include "agent/host/core/fitness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/host/core/ladder.h"
#include "tests/unit/effects.h"

namespace muster::host {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);
constexpr absl::Duration kSetupTimeout = absl::Minutes(30);
constexpr Fitness::Job kReady{.wants_node = true, .round_closed = true};

class FitnessTest : public ::testing::Test {
 protected:
  static Fitness Make(absl::Duration preflight, absl::Duration gpus) {
    HostOptions options;
    options.config.set_hostname("n0");
    options.preflight_timeout = preflight;
    options.gpu_release_timeout = gpus;
    options.driver_pids = true;
    return Fitness(options);
  }
  // A node whose setup runs; with a preflight after it or without.
  Fitness SettingUp(absl::Duration preflight) {
    HostOptions options;
    options.config.set_hostname("n0");
    options.setup_timeout = kSetupTimeout;
    options.preflight_timeout = preflight;
    Fitness fitness(options);
    EXPECT_TRUE(fitness.Prepare(now_, kReady, &effects_)) << "the status names the setup";
    return fitness;
  }
  std::vector<Check> Started() const {
    std::vector<Check> checks;
    for (const StartCheck& start : AllOf<StartCheck>(effects_)) checks.push_back(start.check);
    return checks;
  }
  // A node whose preflight runs.
  Fitness Preflighting() {
    Fitness fitness = Make(kTimeout, absl::ZeroDuration());
    EXPECT_TRUE(fitness.Prepare(now_, kReady, &effects_)) << "the status names the preflight";
    return fitness;
  }
  void EndPreflight(Fitness* fitness, int code, const std::string& last_line = "") {
    fitness->OnCheckEnded(now_, Ending{.number = code}, &effects_);
    EXPECT_FALSE(fitness->OnSwept(now_, "", true, &effects_));
    EXPECT_EQ(fitness->OnCheckOutput(now_, last_line, true, &effects_), code != 0);
  }
  template <typename T>
  size_t Count() const {
    return AllOf<T>(effects_).size();
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  Effects effects_;
};

TEST_F(FitnessTest, WithoutChecksItIsFitAtOnce) {
  Fitness fitness = Make(absl::ZeroDuration(), absl::ZeroDuration());
  EXPECT_FALSE(fitness.Prepare(now_, {.wants_node = true}, &effects_));
  EXPECT_TRUE(fitness.fit());
  EXPECT_EQ(Count<RenewOffer>(), 1u);
}

TEST_F(FitnessTest, ANodeThatIsNotWantedPreparesNothing) {
  Fitness fitness = Make(kTimeout, absl::ZeroDuration());
  EXPECT_FALSE(fitness.Prepare(now_, {.wants_node = false, .round_closed = true}, &effects_));
  EXPECT_TRUE(effects_.empty());
}

TEST_F(FitnessTest, ThePreflightAwaitsTheEndOfTheRound) {
  Fitness fitness = Make(kTimeout, absl::ZeroDuration());
  EXPECT_FALSE(fitness.Prepare(now_, {.wants_node = true, .round_closed = false}, &effects_));
  EXPECT_EQ(Count<StartCheck>(), 0u);
  EXPECT_TRUE(fitness.Prepare(now_, kReady, &effects_));
  EXPECT_EQ(Count<StartCheck>(), 1u);
}

TEST_F(FitnessTest, TheSetupRunsOnceAndBeforeThePreflight) {
  Fitness fitness = SettingUp(kTimeout);
  EXPECT_EQ(fitness.Preparing(), "its setup runs, for up to 30m (--hook-timeout)");
  fitness.OnCheckEnded(now_, Ending{}, &effects_);
  EXPECT_FALSE(fitness.OnSwept(now_, "", true, &effects_));
  EXPECT_TRUE(fitness.OnCheckOutput(now_, "", true, &effects_)) << "the status names the preflight";
  EXPECT_THAT(Started(), testing::ElementsAre(Check::kSetup, Check::kPreflight));
  EndPreflight(&fitness, 0);
  EXPECT_TRUE(fitness.fit());
  fitness.OnRoundOver();
  EXPECT_TRUE(fitness.OnTick(now_, kReady, &effects_));
  EXPECT_THAT(Started(), testing::ElementsAre(Check::kSetup, Check::kPreflight, Check::kPreflight));
}

TEST_F(FitnessTest, ASetupAloneMakesTheNodeFit) {
  Fitness fitness = SettingUp(absl::ZeroDuration());
  EndPreflight(&fitness, 0);
  EXPECT_TRUE(fitness.fit());
  fitness.OnRoundOver();
  EXPECT_FALSE(fitness.OnTick(now_, kReady, &effects_));
  EXPECT_TRUE(fitness.fit());
  EXPECT_EQ(Count<StartCheck>(), 1u);
}

TEST_F(FitnessTest, AFailedSetupIsTriedAgainAndNoPreflightFollows) {
  Fitness fitness = SettingUp(kTimeout);
  EndPreflight(&fitness, 3, "no such model");
  EXPECT_EQ(fitness.why_unfit(), "setup failed on n0: exit code 3: no such model");
  EXPECT_TRUE(fitness.OnTick(now_ + kUnfitRetry, kReady, &effects_));
  EXPECT_THAT(Started(), testing::ElementsAre(Check::kSetup, Check::kSetup));
}

TEST_F(FitnessTest, ASetupHasItsOwnTimeLimit) {
  Fitness fitness = SettingUp(kTimeout);
  EXPECT_FALSE(fitness.OnTick(now_ + kSetupTimeout - absl::Nanoseconds(1), kReady, &effects_));
  EXPECT_EQ(Count<Sweep>(), 0u);
  EXPECT_FALSE(fitness.OnTick(now_ + kSetupTimeout, kReady, &effects_));
  EXPECT_EQ(Count<Sweep>(), 1u);
  EXPECT_TRUE(fitness.OnCheckOutput(now_, "", true, &effects_));
  EXPECT_EQ(fitness.why_unfit(), "setup failed on n0: timed out after 30m (--hook-timeout)");
}

TEST_F(FitnessTest, APassedPreflightIsSweptBeforeItCounts) {
  Fitness fitness = Preflighting();
  fitness.OnCheckEnded(now_, Ending{}, &effects_);
  EXPECT_EQ(Count<Sweep>(), 1u);
  EXPECT_FALSE(fitness.fit());
  EXPECT_FALSE(fitness.OnSwept(now_, "", true, &effects_));
  EXPECT_EQ(Count<GatherCheckOutput>(), 1u);
  EXPECT_FALSE(fitness.fit());
  EXPECT_FALSE(fitness.OnCheckOutput(now_, "", true, &effects_));
  EXPECT_TRUE(fitness.fit());
}

TEST_F(FitnessTest, AFailureIsNamedAndRetriedWithGrowingPauses) {
  Fitness fitness = Preflighting();
  EndPreflight(&fitness, 3, "no GPU");
  EXPECT_EQ(fitness.why_unfit(), "preflight failed on n0: exit code 3: no GPU");
  for (const absl::Duration pause : {kUnfitRetry, 2 * kUnfitRetry}) {
    EXPECT_FALSE(fitness.OnTick(now_ + pause - absl::Nanoseconds(1), kReady, &effects_));
    now_ += pause;
    EXPECT_TRUE(fitness.OnTick(now_, kReady, &effects_));
    EndPreflight(&fitness, 3);
  }
  EXPECT_EQ(Count<StartCheck>(), 3u);
}

TEST_F(FitnessTest, SuccessResetsReasonAndPause) {
  Fitness fitness = Preflighting();
  EndPreflight(&fitness, 3);
  now_ += kUnfitRetry;
  ASSERT_TRUE(fitness.OnTick(now_, kReady, &effects_));
  EndPreflight(&fitness, 0);
  EXPECT_TRUE(fitness.fit());
  EXPECT_EQ(fitness.why_unfit(), "");
  fitness.OnRoundOver();
  ASSERT_TRUE(fitness.OnTick(now_, kReady, &effects_));
  EndPreflight(&fitness, 3);
  EXPECT_TRUE(fitness.OnTick(now_ + kUnfitRetry, kReady, &effects_)) << "the pause is short again";
}

TEST_F(FitnessTest, APreflightHasATimeLimit) {
  Fitness fitness = Preflighting();
  now_ += kTimeout;
  EXPECT_FALSE(fitness.OnTick(now_, kReady, &effects_));
  EXPECT_EQ(Count<Sweep>(), 1u);
  EXPECT_FALSE(fitness.OnSwept(now_, "", true, &effects_));
  EXPECT_TRUE(fitness.OnCheckOutput(now_, "", true, &effects_));
  EXPECT_THAT(fitness.why_unfit(), testing::HasSubstr("timed out after 1m (--preflight-timeout)"));
}

TEST_F(FitnessTest, LeftoversThatSurviveSigkillAreReportedOnce) {
  Fitness fitness = Preflighting();
  fitness.OnCheckEnded(now_, Ending{}, &effects_);
  EXPECT_FALSE(fitness.OnSwept(now_ + kStuckAfterKill, "pid 9", true, &effects_));
  now_ += kStuckAfterKill + absl::Nanoseconds(1);
  EXPECT_TRUE(fitness.OnSwept(now_, "pid 9", true, &effects_));
  EXPECT_THAT(fitness.why_unfit(), testing::HasSubstr("survive SIGKILL: pid 9"));
  EXPECT_FALSE(fitness.OnSwept(now_, "pid 9", true, &effects_));
}

TEST_F(FitnessTest, GpusAreFreeBeforeThePreflight) {
  Fitness fitness = Make(kTimeout, absl::Seconds(30));
  fitness.OnRoundOver();
  EXPECT_FALSE(fitness.Prepare(now_, kReady, &effects_));
  EXPECT_THAT(fitness.Preparing(), testing::HasSubstr("GPUs"));
  EXPECT_EQ(Count<AskGpus>(), 1u);
  EXPECT_FALSE(fitness.OnGpuUsers(now_, {.old_workers = {71}}, &effects_));
  EXPECT_EQ(Count<StartCheck>(), 0u);
  EXPECT_TRUE(fitness.OnGpuUsers(now_, {}, &effects_));
  EXPECT_EQ(Count<StartCheck>(), 1u);
}

TEST_F(FitnessTest, HeldGpusMakeItUnfit) {
  Fitness fitness = Make(absl::ZeroDuration(), absl::Seconds(30));
  fitness.OnRoundOver();
  ASSERT_FALSE(fitness.Prepare(now_, kReady, &effects_));
  EXPECT_TRUE(fitness.OnGpuUsers(now_ + absl::Seconds(30), {.old_workers = {71}}, &effects_));
  EXPECT_EQ(fitness.why_unfit(),
            "GPUs of n0 are still held by exited workers (pid 71) after 30s (--gpu-release-timeout)");
}

TEST_F(FitnessTest, ARoundUsesUpTheOffer) {
  Fitness fitness = Make(absl::ZeroDuration(), absl::ZeroDuration());
  EXPECT_FALSE(fitness.Prepare(now_, kReady, &effects_));
  fitness.OnOffer(4000);
  EXPECT_EQ(fitness.offer_port(), 4000u);
  fitness.OnRoundOver();
  EXPECT_EQ(fitness.offer_port(), 0u);
  EXPECT_FALSE(fitness.fit());
}

TEST_F(FitnessTest, AFitNodeRetriesForAPort) {
  Fitness fitness = Make(absl::ZeroDuration(), absl::ZeroDuration());
  fitness.WatchOffer(now_ + kOfferRetry, &effects_);
  EXPECT_EQ(Count<RenewOffer>(), 0u) << "it is not fit yet";
  EXPECT_FALSE(fitness.Prepare(now_, kReady, &effects_));
  fitness.WatchOffer(now_ + kOfferRetry - absl::Nanoseconds(1), &effects_);
  EXPECT_EQ(Count<RenewOffer>(), 1u);
  fitness.WatchOffer(now_ + kOfferRetry, &effects_);
  EXPECT_EQ(Count<RenewOffer>(), 2u);
  fitness.OnOffer(4000);
  fitness.WatchOffer(now_ + 3 * kOfferRetry, &effects_);
  EXPECT_EQ(Count<RenewOffer>(), 2u);
}

TEST_F(FitnessTest, AnEndingNodeKillsItsPreflight) {
  Fitness fitness = Preflighting();
  EXPECT_FALSE(fitness.End(now_, &effects_));
  EXPECT_EQ(Count<Sweep>(), 1u);
  EXPECT_FALSE(fitness.OnSwept(now_, "", false, &effects_));
  EXPECT_FALSE(fitness.OnCheckOutput(now_, "", false, &effects_));
  EXPECT_TRUE(fitness.End(now_, &effects_));
  EXPECT_EQ(Count<Note>(), 0u) << "its result is of no use any more";
}

TEST_F(FitnessTest, AnEndingNodeDoesNotAwaitWhatSurvives) {
  Fitness fitness = Preflighting();
  EXPECT_FALSE(fitness.End(now_, &effects_));
  EXPECT_TRUE(fitness.End(now_ + kStuckAfterKill + absl::Nanoseconds(1), &effects_));
}

v1::RoundId Id(uint64_t number) {
  v1::RoundId id;
  id.set_number(number);
  return id;
}

TEST(RoundIsClosedTest, ByTheCoordinatorIfItsResultMatters) {
  v1::Memory memory;
  EXPECT_TRUE(RoundIsClosed(memory, v1::RoundId(), v1::OUTCOME_NONE)) << "there was none";
  EXPECT_FALSE(RoundIsClosed(memory, Id(2), v1::OUTCOME_FAILED));
  EXPECT_FALSE(RoundIsClosed(memory, Id(2), v1::OUTCOME_SUCCEEDED));
  EXPECT_TRUE(RoundIsClosed(memory, Id(2), v1::OUTCOME_STOPPED));
  *memory.mutable_stopped() = Id(2);
  EXPECT_TRUE(RoundIsClosed(memory, Id(2), v1::OUTCOME_FAILED));
  EXPECT_FALSE(RoundIsClosed(memory, Id(3), v1::OUTCOME_FAILED));
  *memory.mutable_last()->mutable_id() = Id(4);
  EXPECT_TRUE(RoundIsClosed(memory, Id(3), v1::OUTCOME_FAILED)) << "no STOP for it will come";
}

}  // namespace
}  // namespace muster::host
