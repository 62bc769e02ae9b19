#include "base/core/allowance.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr BootTime kStart = absl::UnixEpoch();

int TakenOf(int wanted, BootTime now, Allowance* allowance) {
  int taken = 0;
  for (int i = 0; i < wanted; ++i) taken += allowance->Take(now) ? 1 : 0;
  return taken;
}

TEST(AllowanceTest, ABurstIsAllowedAndThenARate) {
  Allowance allowance(10, 2);
  EXPECT_EQ(TakenOf(100, kStart, &allowance), 10);
  EXPECT_EQ(TakenOf(100, kStart + absl::Seconds(3), &allowance), 6);
  EXPECT_EQ(TakenOf(100, kStart + absl::Hours(1), &allowance), 10) << "no more than the burst is saved up";
}

TEST(AllowanceTest, WhatIsGivenBackMayBeTakenAgain) {
  Allowance allowance(2, 0);
  EXPECT_EQ(TakenOf(3, kStart, &allowance), 2);
  allowance.GiveBack();
  EXPECT_EQ(TakenOf(3, kStart, &allowance), 1);
}

}  // namespace
}  // namespace muster
