// When silence is a stall, and when it is not.
#include "rendezvous/core/stall.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace muster::rendezvous {
namespace {

constexpr absl::Duration kBeat = absl::Milliseconds(500);
constexpr absl::Duration kLimit = absl::Seconds(20);

// The judge, and the nodes that report to it.
struct Round {
  explicit Round(std::optional<absl::Duration> limit, std::optional<absl::Duration> start = std::nullopt)
      : judge(limit, start) {}

  // Silence of that length, as reports show it; then a sign of life.
  bool Silence(absl::Duration length) {
    bool stalled = false;
    for (absl::Duration idle = kBeat; idle < length; idle += kBeat) stalled |= judge.OnReports(idle, signs);
    stalled |= judge.OnReports(length, signs);
    return judge.OnReports(absl::ZeroDuration(), ++signs) || stalled;
  }
  void WarmUp() {
    for (int i = 0; i < kWarmUpSigns; ++i) EXPECT_FALSE(Silence(absl::Seconds(1)));
  }
  void BeginNext() {
    judge.BeginRound();
    signs = 0;
  }

  StallJudge judge;
  int signs = 0;
};

TEST(StallJudge, SilenceBeyondTheLimitIsAStall) {
  Round round(kLimit);
  round.WarmUp();
  EXPECT_FALSE(round.Silence(kLimit));
  EXPECT_TRUE(round.Silence(kLimit + absl::Milliseconds(1)));
}

TEST(StallJudge, ALongImportIsNone) {
  Round round(kLimit);
  EXPECT_FALSE(round.Silence(absl::Minutes(2))) << "nothing was printed yet";
  for (int line = 0; line < kWarmUpSigns - 2; ++line) EXPECT_FALSE(round.Silence(absl::Minutes(2))) << line;
  EXPECT_FALSE(round.judge.is_warm());
  EXPECT_TRUE(round.Silence(kWarmUpLimit + absl::Seconds(1))) << "but it does not wait for ever";
}

TEST(StallJudge, EachRoundWarmsUpAnew) {
  Round round(kLimit);
  round.WarmUp();
  EXPECT_TRUE(round.judge.OnReports(absl::Minutes(2), round.signs));
  round.BeginNext();
  EXPECT_FALSE(round.Silence(absl::Minutes(2)));
}

TEST(StallJudge, ALimitLongerThanTheWarmUpsHoldsThere) {
  Round round(absl::Hours(2));
  EXPECT_FALSE(round.Silence(absl::Hours(1)));
}

TEST(StallJudge, ALimitOfItsOwnHoldsUntilTheRoundIsWarm) {
  Round round(kLimit, absl::Minutes(1));
  EXPECT_FALSE(round.Silence(absl::Minutes(1)));
  EXPECT_TRUE(round.Silence(absl::Minutes(1) + absl::Milliseconds(1)));
  round.WarmUp();
  EXPECT_TRUE(round.Silence(kLimit + absl::Milliseconds(1)));
  EXPECT_TRUE(Round(absl::Hours(2), absl::Minutes(1)).Silence(absl::Minutes(2)))
      << "also if it is the shorter one";
}

TEST(StallJudge, WithoutALimitNothingIsAStall) {
  Round round(absl::InfiniteDuration());
  round.WarmUp();
  EXPECT_FALSE(round.judge.OnReports(absl::Hours(1000), round.signs));
}

TEST(StallJudge, ReportsWithoutASignOfLifeDoNotWarmItUp) {
  Round round(kLimit);
  for (int i = 0; i < 100; ++i) round.judge.OnReports(absl::Seconds(i % 2), round.signs);
  EXPECT_FALSE(round.judge.is_warm());
}

TEST(StallJudge, SilenceThatOnlyBecameUnknownTeachesNothing) {
  Round round(std::nullopt);
  round.WarmUp();
  round.judge.OnReports(absl::Minutes(20), round.signs);
  round.judge.OnReports(absl::ZeroDuration(), round.signs);  // a worker has ended; none has shown a sign
  EXPECT_EQ(round.judge.learned(), absl::ZeroDuration());
}

TEST(StallJudge, WhatAnEarlierCoordinatorHasSeenCounts) {
  Round round(std::nullopt);
  round.judge.Learn(absl::Minutes(8));
  round.WarmUp();
  EXPECT_FALSE(round.Silence(absl::Minutes(80)));
}

TEST(StallJudge, TheLongestSilenceOfTheJobIsLearned) {
  Round round(std::nullopt);
  round.WarmUp();
  EXPECT_EQ(round.judge.limit(), kLeastLearned);
  EXPECT_FALSE(round.Silence(absl::Minutes(8))) << "a checkpoint";
  EXPECT_EQ(round.judge.limit(), absl::Minutes(80));
  round.BeginNext();
  round.WarmUp();
  EXPECT_EQ(round.judge.limit(), absl::Minutes(80)) << "the next round is the same job";
  EXPECT_TRUE(round.Silence(absl::Minutes(81)));
}

TEST(StallJudge, AStallTeachesNothing) {
  Round round(std::nullopt);
  round.WarmUp();
  EXPECT_TRUE(round.judge.OnReports(absl::Minutes(31), round.signs));
  round.BeginNext();
  round.WarmUp();
  EXPECT_EQ(round.judge.limit(), kLeastLearned);
}

// Steps of ten seconds with a tail of minutes, and evaluations that begin with some ten minutes and grow to hours.
TEST(StallJudge, JobsWithHeavyTailsAreNotDisturbed) {
  constexpr int kEvaluationEvery = 500, kSteps = 2500;
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> step_s(std::log(10), 1);
  std::uniform_real_distribution<double> first_evaluation_s(300, 1500), growth(1, 4);
  double longest = 0;
  for (int job = 0; job < 1000; ++job) {
    Round round(std::nullopt);
    double evaluation_s = first_evaluation_s(random);
    for (int step = 1; step <= kSteps; ++step) {
      double seconds = step_s(random);
      if (step % kEvaluationEvery == 0) seconds = std::exchange(evaluation_s, evaluation_s * growth(random));
      longest = std::max(longest, seconds);
      round.judge.OnReports(absl::ZeroDuration(), ++round.signs);
      ASSERT_FALSE(round.judge.OnReports(absl::Seconds(seconds), round.signs))
          << "job " << job << ", step " << step << ": " << seconds;
    }
  }
  EXPECT_GT(longest, 10 * absl::ToDoubleSeconds(kLeastLearned)) << "else nothing needs to be learned";
}

}  // namespace
}  // namespace muster::rendezvous
