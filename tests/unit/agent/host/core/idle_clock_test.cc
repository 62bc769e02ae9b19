// For how long workers have shown no sign of life, and what does not count.
#include "agent/host/core/idle_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/stacks/warm_up.h"

namespace muster::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Duration kWindow = absl::Seconds(5);

class IdleClockTest : public testing::Test {
 protected:
  IdleClockTest() { clock_.BeginRound(now_, 2); }

  // Seconds of ticks, then the signs.
  void Pass(int seconds, const std::set<int>& signs = {}) {
    for (int i = 0; i < seconds; ++i) clock_.OnTick(now_ += absl::Seconds(1));
    clock_.OnSigns(signs);
  }

  BootTime now_ = FromBootNanos(1'000'000'000);
  IdleClock clock_{kWindow};
};

TEST_F(IdleClockTest, CountsFromTheLastSignOfAnyWorker) {
  Pass(3, {0});
  Pass(2);
  EXPECT_EQ(clock_.Silence(), absl::Seconds(2));
  EXPECT_EQ(clock_.Of(0), absl::Seconds(2));
  EXPECT_EQ(clock_.Of(1), absl::Seconds(5));
  Pass(0, {1});
  EXPECT_EQ(clock_.Silence(), absl::ZeroDuration());
  EXPECT_EQ(clock_.Of(0), absl::Seconds(2));
}

// Without this, a rank that prints for all would leave hours of silence behind when it ends.
TEST_F(IdleClockTest, TheEndOfAWorkerIsNoSilenceOfTheOthers) {
  for (int i = 0; i < 3600; ++i) Pass(1, {0});
  Pass(3);
  clock_.OnEnded(0);
  EXPECT_EQ(clock_.Silence(), absl::ZeroDuration());
  Pass(4);
  EXPECT_EQ(clock_.Silence(), absl::Seconds(4));
  clock_.OnEnded(1);
  EXPECT_EQ(clock_.Silence(), std::nullopt);
}

TEST_F(IdleClockTest, OnlySeparateWindowsCountAsWarmth) {
  for (int line = 0; line < 100; ++line) Pass(0, {0});
  EXPECT_EQ(clock_.signs(), 1) << "whatever is printed at once";
  Pass(4, {0});
  EXPECT_EQ(clock_.signs(), 1);
  Pass(1, {1});
  EXPECT_EQ(clock_.signs(), 2);
  Pass(60);
  EXPECT_EQ(clock_.signs(), 2) << "silence does not warm up";
  Pass(0, {0});
  EXPECT_EQ(clock_.signs(), 3);
}

TEST_F(IdleClockTest, APauseOfTheMachineCountsLittle) {
  clock_.OnTick(now_ += absl::Hours(1));
  EXPECT_EQ(clock_.Silence(), kMaxCountedGap);
}

TEST_F(IdleClockTest, SuspendedTimeDoesNotCountAndSilenceBeginsAnew) {
  Pass(4);
  clock_.OnSuspended(true);
  Pass(100);
  clock_.OnSuspended(false);
  EXPECT_EQ(clock_.Silence(), absl::ZeroDuration()) << "the workers need a moment";
  Pass(1);
  EXPECT_EQ(clock_.Silence(), absl::Seconds(1));
}

TEST_F(IdleClockTest, WorkersThatOthersHaveContinuedAreWatchedAgain) {
  clock_.OnSuspended(true);
  Pass(1, {0});  // what it had written just before
  Pass(100);
  EXPECT_EQ(clock_.Silence(), absl::ZeroDuration());
  Pass(0, {0});
  Pass(3);
  EXPECT_EQ(clock_.Silence(), absl::Seconds(3));
}

TEST_F(IdleClockTest, AStragglerIsOneThatUsedToShowSigns) {
  constexpr absl::Duration kLimit = absl::Seconds(20);
  for (int i = 0; i < 10 * kWarmUpSigns; ++i) Pass(1, {0});
  EXPECT_THAT(clock_.Stragglers(kLimit), IsEmpty()) << "rank 1 has never shown one";
  for (int i = 0; i < 10 * kWarmUpSigns; ++i) Pass(1, {1});
  EXPECT_THAT(clock_.Stragglers(kLimit), ElementsAre(0));
  Pass(10);
  EXPECT_THAT(clock_.Stragglers(kLimit), IsEmpty()) << "now all are silent";
  Pass(0, {1});
  clock_.OnEnded(0);
  EXPECT_THAT(clock_.Stragglers(kLimit), IsEmpty());
}

TEST_F(IdleClockTest, AWarmWorkerIsAStragglerOnceItIsSilentForLonger) {
  constexpr int kLimit = 20;
  for (int i = 0; i < kWarmUpSigns; ++i) Pass(5, {0});
  for (int i = 0; i < kLimit; ++i) Pass(1, {1});
  EXPECT_THAT(clock_.Stragglers(absl::Seconds(kLimit)), IsEmpty());
  Pass(1, {1});
  EXPECT_THAT(clock_.Stragglers(absl::Seconds(kLimit)), ElementsAre(0));
}

TEST_F(IdleClockTest, OfAWorkerThatIsNotThereNothingIsKnown) {
  Pass(1, {2});
  EXPECT_EQ(clock_.Of(2), absl::ZeroDuration());
  EXPECT_EQ(clock_.LiveOne(2), 0);
}

TEST_F(IdleClockTest, WithoutASignOfAnotherWorkerNobodyIsAStraggler) {
  constexpr absl::Duration kLimit = absl::Seconds(20);
  for (int i = 0; i < 10 * kWarmUpSigns; ++i) Pass(1, {0, 1});
  Pass(21);
  clock_.OnEnded(0);
  EXPECT_THAT(clock_.Stragglers(kLimit), IsEmpty()) << "the end of a worker is no sign of another one";
  clock_.OnSuspended(true);
  clock_.OnSuspended(false);
  EXPECT_THAT(clock_.Stragglers(kLimit), IsEmpty()) << "nor is the end of a pause";
}

TEST_F(IdleClockTest, EachRoundBeginsAnew) {
  Pass(3);
  clock_.BeginRound(now_, 2);
  EXPECT_EQ(clock_.Silence(), absl::ZeroDuration());
  Pass(1, {0});
  clock_.OnSuspended(true);
  clock_.BeginRound(now_, 1);
  EXPECT_EQ(clock_.Silence(), absl::ZeroDuration());
  EXPECT_EQ(clock_.signs(), 0);
  Pass(1);
  EXPECT_EQ(clock_.Silence(), absl::Seconds(1));
  clock_.EndRound();
  EXPECT_EQ(clock_.Silence(), std::nullopt);
}

}  // namespace
}  // namespace muster::host
