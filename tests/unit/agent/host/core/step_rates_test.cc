#include "agent/host/core/step_rates.h"

#include <gtest/gtest.h>

#include "base/wire/ranges.h"

namespace muster::host {
namespace {

const BootTime kStart = FromBootNanos(1'000'000'000'000);

TEST(StepInTest, TheNumberFollowsAWordOrStandsInABar) {
  for (const char* line :
       {"step 120", "Step: 120, loss 0.7", "[step=120]", "global_step 120", "iter: 120/1000", "ITERATION 120",
        "steps 120", " iteration      120/    5000 | loss 3", "epoch 3 batch 120", "step 120 | tokens/step 4096",
        " 12%|#2        | 120/1000 [00:10<01:20, 11.2it/s]",
        "Epoch 1:  12%|#2  | 120/1000 [00:10<01:20, 11.2it/s, v_num=3, train_loss_step=0.123, batch=7]"}) {
    EXPECT_EQ(StepIn(line), 120) << line;
  }
}

TEST(StepInTest, OtherNumbersAreNone) {
  for (const char* line :
       {"", "120", "loss 120", "steppe 120", "step", "step by step at 120 ms", "stepsize = 0", "step:\n120",
        "a/b | 120/1000 samples", "step 99999999999999999999", "loss_step=152.7", "step time 1e3", "step 3e5"}) {
    EXPECT_EQ(StepIn(line), std::nullopt) << line;
  }
}

TEST(StepInTest, TheNewestLineCounts) {
  EXPECT_EQ(StepIn("step 1 loss 3\nstep 2 loss 4\nloss 5"), 2);
  EXPECT_EQ(StepIn("| 1/9 [\r 11%|#| 2/9 [0:1]\r 22%|#| 3/9 [0:2]"), 3);
}

// Numbers that are seen every `every`, each `by` more than the one before.
class StepRateTest : public ::testing::Test {
 protected:
  void Show(int times, absl::Duration every, int64_t by) {
    for (int i = 0; i < times; ++i) {
      now_ += every;
      number_ += by;
      rate_.OnNumber(now_, number_);
    }
  }
  int64_t Rate() const { return rate_.In1000Seconds(now_); }

  StepRate rate_;
  BootTime now_ = kStart;
  int64_t number_ = 5000;  // a checkpoint was loaded
};

TEST_F(StepRateTest, AFewSightingsAreAwaited) {
  Show(static_cast<int>(kLeastSightings) - 1, absl::Seconds(1), 2);
  EXPECT_EQ(Rate(), 0);
  Show(1, absl::Seconds(1), 2);
  EXPECT_EQ(Rate(), 2000);
}

TEST_F(StepRateTest, LinesThatAreRareAndCountManyStepsHaveTheSameRateAtAnyMoment) {
  Show(10, absl::Seconds(31), 50);
  for (int second = 0; second < 31; ++second) {
    EXPECT_EQ(Rate(), 50 * 1000 / 31) << second;
    now_ += absl::Seconds(1);
  }
}

TEST_F(StepRateTest, AStepThatIsLateLowersIt) {
  Show(10, absl::Seconds(1), 1);
  now_ += absl::Seconds(2);
  EXPECT_EQ(Rate(), 1000);
  now_ += absl::Milliseconds(1);
  EXPECT_LT(Rate(), 1000) << "more than two of its steps have passed";
  now_ += absl::Milliseconds(6'999);
  EXPECT_EQ(Rate(), 500);
  now_ += absl::Hours(1);
  EXPECT_EQ(Rate(), 2);
  now_ += absl::Hours(10);
  EXPECT_EQ(Rate(), 1) << "0 would mean that it is not known";
}

TEST_F(StepRateTest, WhatIsLongAgoDoesNotCount) {
  Show(60, absl::Seconds(1), 10);
  Show(60, absl::Seconds(1), 1);
  EXPECT_NEAR(static_cast<double>(Rate()), 1000, 200);
}

TEST_F(StepRateTest, ASmallerNumberBelongsToAnotherEpochAndTheSameOneIsNoStep) {
  Show(5, absl::Seconds(1), 1);
  number_ = 3;
  rate_.OnNumber(now_, number_);
  rate_.OnNumber(now_, number_);
  EXPECT_EQ(Rate(), 1000);
}

TEST_F(StepRateTest, AnAbsurdNumberKeepsToTheRange) {
  Show(4, absl::Seconds(1), 1);
  Show(1, absl::Seconds(1), int64_t{900'000'000'000'000});
  EXPECT_EQ(Rate(), kMaxCount);
}

class StepRatesTest : public ::testing::Test {
 protected:
  void See(int local_rank, StepSource source, int64_t by = 1) {
    for (int i = 0; i < 10; ++i) rates_.OnSeen(kStart + absl::Seconds(i), {{local_rank, source, i * by}});
    rates_.OnTick(kStart + absl::Seconds(9));
  }
  using Rates = std::vector<int64_t>;

  StepRates rates_;
};

TEST_F(StepRatesTest, LinesAndTouchesAreApart) {
  rates_.BeginRound(2);
  See(0, StepSource::kHeartbeat);
  See(1, StepSource::kOut);
  EXPECT_EQ(rates_.ByLines(), Rates({0, 1000}));
  EXPECT_EQ(rates_.ByTouches(), Rates({1000, 0}));
}

TEST_F(StepRatesTest, TheNewestStepIsKnownFromTheFirstLineOn) {
  rates_.BeginRound(2);
  EXPECT_EQ(rates_.Newest(), Rates({0, 0}));
  rates_.OnSeen(kStart, {{0, StepSource::kOut, 40}, {0, StepSource::kErr, 39}, {1, StepSource::kHeartbeat, 7}});
  EXPECT_EQ(rates_.Newest(), Rates({40, 0})) << "touches have no number";
  rates_.OnSeen(kStart + absl::Seconds(1), {{0, StepSource::kErr, 100'000}});
  rates_.OnSeen(kStart + absl::Seconds(2), {{0, StepSource::kOut, 41}, {0, StepSource::kErr, 100'000}});
  EXPECT_EQ(rates_.Newest(), Rates({41, 0})) << "a full bar stays in the other stream";
}

TEST_F(StepRatesTest, OfTwoStreamsTheFasterOneCounts) {
  rates_.BeginRound(1);
  See(0, StepSource::kOut, 0);
  See(0, StepSource::kErr, 7);
  EXPECT_EQ(rates_.ByLines(), Rates({7000}));
}

TEST_F(StepRatesTest, AWorkerThatHasEndedIsNotSlow) {
  rates_.BeginRound(1);
  See(0, StepSource::kOut);
  rates_.OnEnded(0);
  EXPECT_EQ(rates_.ByLines(), Rates({0}));
}

TEST_F(StepRatesTest, ARoundBeginsWithoutAny) {
  See(0, StepSource::kOut);
  rates_.BeginRound(1);
  See(7, StepSource::kOut);
  See(-1, StepSource::kHeartbeat);
  EXPECT_EQ(rates_.ByLines(), Rates({0}));
  rates_.EndRound();
  EXPECT_TRUE(rates_.ByLines().empty());
}

TEST_F(StepRatesTest, ALargeNodeReportsItsFirstRanks) {
  rates_.BeginRound(kMaxRanksSent + 1);
  EXPECT_EQ(rates_.ByLines().size(), static_cast<size_t>(kMaxRanksSent));
  EXPECT_EQ(rates_.ByTouches().size(), static_cast<size_t>(kMaxRanksSent));
}

}  // namespace
}  // namespace muster::host
