// When silence is a stall, and when it is not.
#include "rendezvous/core/stall.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace muster::rendezvous {
namespace {

constexpr absl::Duration kBeat = absl::Milliseconds(500);
constexpr absl::Duration kLimit = absl::Seconds(20);

// Silence of that length, as reports show it; then a sign of life.
bool Silence(StallJudge* judge, absl::Duration length) {
  bool stalled = false;
  for (absl::Duration idle = kBeat; idle < length; idle += kBeat) stalled |= judge->OnIdle(idle);
  stalled |= judge->OnIdle(length);
  return judge->OnIdle(absl::ZeroDuration()) || stalled;
}

void WarmUp(StallJudge* judge) {
  for (int i = 0; i < kWarmUpSigns; ++i) EXPECT_FALSE(Silence(judge, absl::Seconds(1)));
}

TEST(StallJudge, SilenceBeyondTheLimitIsAStall) {
  StallJudge judge(kLimit);
  WarmUp(&judge);
  EXPECT_FALSE(Silence(&judge, kLimit));
  EXPECT_TRUE(Silence(&judge, kLimit + absl::Milliseconds(1)));
}

TEST(StallJudge, ALongImportIsNone) {
  StallJudge judge(kLimit);
  EXPECT_FALSE(Silence(&judge, absl::Minutes(2))) << "nothing was printed yet";
  for (int line = 0; line < kWarmUpSigns - 2; ++line) EXPECT_FALSE(Silence(&judge, absl::Minutes(2))) << line;
  EXPECT_FALSE(judge.is_warm());
  EXPECT_TRUE(Silence(&judge, kWarmUpLimit + absl::Seconds(1))) << "but it does not wait for ever";
}

TEST(StallJudge, EachRoundWarmsUpAnew) {
  StallJudge judge(kLimit);
  WarmUp(&judge);
  EXPECT_TRUE(judge.OnIdle(absl::Minutes(2)));
  judge.BeginRound();
  EXPECT_FALSE(Silence(&judge, absl::Minutes(2)));
}

TEST(StallJudge, ALimitLongerThanTheWarmUpsHoldsThere) {
  StallJudge judge(absl::Hours(2));
  EXPECT_FALSE(Silence(&judge, absl::Hours(1)));
}

TEST(StallJudge, WithoutALimitNothingIsAStall) {
  StallJudge judge(absl::InfiniteDuration());
  WarmUp(&judge);
  EXPECT_FALSE(judge.OnIdle(absl::Hours(1000)));
}

// Reports that repeat what they said, or come late, are no signs of life.
TEST(StallJudge, TheSameReportIsNoSign) {
  StallJudge judge(kLimit);
  for (int i = 0; i < 100; ++i) judge.OnIdle(absl::Seconds(1));
  EXPECT_FALSE(judge.is_warm());
}

TEST(StallJudge, TheLongestSilenceOfTheJobIsLearned) {
  StallJudge judge(std::nullopt);
  WarmUp(&judge);
  EXPECT_EQ(judge.limit(), kLeastLearned);
  EXPECT_FALSE(Silence(&judge, absl::Minutes(8))) << "a checkpoint";
  EXPECT_EQ(judge.limit(), absl::Minutes(80));
  judge.BeginRound();
  WarmUp(&judge);
  EXPECT_EQ(judge.limit(), absl::Minutes(80)) << "the next round is the same job";
  EXPECT_TRUE(Silence(&judge, absl::Minutes(81)));
}

TEST(StallJudge, AStallTeachesNothing) {
  StallJudge judge(std::nullopt);
  WarmUp(&judge);
  EXPECT_TRUE(judge.OnIdle(absl::Minutes(11)));
  judge.BeginRound();
  WarmUp(&judge);
  EXPECT_EQ(judge.limit(), kLeastLearned);
}

// Steps of a second on average: with a tail, and with one so heavy that some take five minutes.
TEST(StallJudge, JobsWithHeavyTailsAreNotDisturbed) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> lognormal(-1, 1.5);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int job = 0; job < 1000; ++job) {
    StallJudge judge(std::nullopt);
    for (int step = 0; step < 2000; ++step) {
      const double pareto = std::min(300.0, 0.3 * std::pow(1 - uniform(random), -1 / 1.2));
      const double seconds = job % 2 == 0 ? lognormal(random) : pareto;
      judge.OnIdle(absl::ZeroDuration());
      ASSERT_FALSE(judge.OnIdle(absl::Seconds(seconds))) << "job " << job << ", step " << step << ": " << seconds;
    }
  }
}

}  // namespace
}  // namespace muster::rendezvous
