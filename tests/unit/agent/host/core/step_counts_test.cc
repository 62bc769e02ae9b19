#include "agent/host/core/step_counts.h"

#include <gtest/gtest.h>

#include "base/ranges.h"

namespace muster::host {
namespace {

TEST(StepInTest, TheNumberFollowsAWordOrStandsInABar) {
  for (const char* line :
       {"step 120", "Step: 120, loss 0.7", "[step=120]", "global_step 120", "iter: 120/1000", "ITERATION 120",
        "steps 120", "epoch 3 batch 120", " 12%|#2        | 120/1000 [00:10<01:20, 11.2it/s]"}) {
    EXPECT_EQ(StepIn(line), 120) << line;
  }
}

TEST(StepInTest, OtherNumbersAreNone) {
  for (const char* line : {"", "120", "loss 120", "steppe 120", "footstep120x 7", "step", "step by step at 120 ms",
                           "stepsize = 0", "step:\n120", "a/b | 120/1000 samples", "step 99999999999999999999"}) {
    EXPECT_EQ(StepIn(line), std::nullopt) << line;
  }
}

TEST(StepInTest, TheNewestOneCounts) {
  EXPECT_EQ(StepIn("step 1 loss 3\nstep 2 loss 4\nloss 5"), 2);
  EXPECT_EQ(StepIn("1/9 [\r 11%|#| 2/9 [0:1]\r 22%|#| 3/9 [0:2]"), 3);
}

TEST(StepCountsTest, NumbersAreCountedFromTheFirstOne) {
  StepCounts counts;
  counts.BeginRound(2);
  EXPECT_EQ(counts.Counts(), std::vector<int64_t>({0, 0}));
  counts.OnSeen({.numbers = {{1, 5000}}});
  EXPECT_EQ(counts.Counts(), std::vector<int64_t>({0, 1})) << "a checkpoint was loaded";
  counts.OnSeen({.numbers = {{1, 5040}}});
  EXPECT_EQ(counts.Counts(), std::vector<int64_t>({0, 41}));
}

TEST(StepCountsTest, ASmallerNumberBelongsToAnotherEpoch) {
  StepCounts counts;
  counts.BeginRound(1);
  for (const int64_t number : {90, 100, 3, 13}) counts.OnSeen({.numbers = {{0, number}}});
  EXPECT_EQ(counts.Counts(), std::vector<int64_t>({1 + 10 + 10}));
}

TEST(StepCountsTest, TouchesCountInPlaceOfNumbers) {
  StepCounts counts;
  counts.BeginRound(1);
  counts.OnSeen({.numbers = {{0, 90}}, .touched = {0}});
  counts.OnSeen({.numbers = {{0, 95}}, .touched = {0}});
  EXPECT_EQ(counts.Counts(), std::vector<int64_t>({2}));
}

TEST(StepCountsTest, ARoundBeginsWithoutAny) {
  StepCounts counts;
  counts.OnSeen({.touched = {0}});
  counts.BeginRound(1);
  counts.OnSeen({.numbers = {{7, 1}, {-1, 1}}, .touched = {0, 1}});
  counts.BeginRound(1);
  EXPECT_EQ(counts.Counts(), std::vector<int64_t>({0}));
  counts.EndRound();
  EXPECT_TRUE(counts.Counts().empty());
}

TEST(StepCountsTest, WhatIsReportedIsWithinItsRange) {
  StepCounts counts;
  counts.BeginRound(kMaxRanksSent + 1);
  counts.OnSeen({.numbers = {{0, 0}}});
  counts.OnSeen({.numbers = {{0, int64_t{1} << 40}}});
  EXPECT_EQ(counts.Counts().size(), static_cast<size_t>(kMaxRanksSent));
  EXPECT_EQ(counts.Counts()[0], kMaxCount);
}

}  // namespace
}  // namespace muster::host
