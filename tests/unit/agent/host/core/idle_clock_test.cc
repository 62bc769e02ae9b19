// For how long a worker has shown no sign of life, and what does not count.
#include "agent/host/core/idle_clock.h"

#include <gtest/gtest.h>

namespace muster::host {
namespace {

class IdleClockTest : public testing::Test {
 protected:
  IdleClockTest() { clock_.BeginRound(now_, 2); }

  void Look(const std::set<int>& signs, absl::Duration after = absl::Seconds(1)) {
    now_ += after;
    clock_.OnLook(now_, signs);
  }

  BootTime now_ = FromBootNanos(1'000'000'000);
  IdleClock clock_;
};

TEST_F(IdleClockTest, CountsFromTheLastSign) {
  for (int i = 0; i < 3; ++i) Look({0});
  EXPECT_EQ(clock_.Of(0), absl::ZeroDuration());
  EXPECT_EQ(clock_.Of(1), absl::Seconds(3));
  EXPECT_EQ(clock_.Shortest(), absl::ZeroDuration());
  EXPECT_EQ(clock_.signs(), 3);
  Look({});
  EXPECT_EQ(clock_.signs(), 3);
  Look({1});
  EXPECT_EQ(clock_.Of(1), absl::ZeroDuration());
}

TEST_F(IdleClockTest, APauseOfTheMachineOrOfTheLooksCountsLittle) {
  Look({}, absl::Hours(1));
  EXPECT_EQ(clock_.Shortest(), kMaxCountedGap);
}

TEST_F(IdleClockTest, SuspendedTimeDoesNotCount) {
  clock_.OnSuspended(true);
  for (int i = 0; i < 100; ++i) Look({});
  clock_.OnSuspended(false);
  EXPECT_EQ(clock_.Shortest(), absl::ZeroDuration());
  Look({});
  EXPECT_EQ(clock_.Shortest(), absl::Seconds(1));
}

TEST_F(IdleClockTest, OfAWorkerThatHasEndedNothingIsExpected) {
  Look({});
  Look({1});
  clock_.OnEnded(1);
  EXPECT_EQ(clock_.Shortest(), absl::Seconds(2));
  clock_.OnEnded(0);
  EXPECT_EQ(clock_.Shortest(), std::nullopt);
}

TEST_F(IdleClockTest, EachRoundBeginsAnew) {
  Look({});
  clock_.OnSuspended(true);
  clock_.BeginRound(now_, 1);
  EXPECT_EQ(clock_.Shortest(), absl::ZeroDuration());
  Look({});
  EXPECT_EQ(clock_.Shortest(), absl::Seconds(1));
  EXPECT_EQ(clock_.signs(), 0);
  clock_.EndRound();
  EXPECT_EQ(clock_.Shortest(), std::nullopt);
}

}  // namespace
}  // namespace muster::host
