// Where the time of a job goes.
#include "rendezvous/core/time_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/wire/time_spent.h"
#include "rendezvous/core/progress.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

using State = TimeLedger::State;
using ::testing::HasSubstr;

class TimeLedgerTest : public ::testing::Test {
 protected:
  TimeLedgerTest() { ledger_.OnTick(now_, {}); }
  // So many seconds of this.
  void Pass(int seconds, TimeLedger::Moment moment) {
    for (int i = 0; i < seconds; ++i) ledger_.OnTick(now_ += absl::Seconds(1), moment);
  }
  static TimeLedger::Moment Runs(uint64_t round, int64_t step, bool has_shown_signs = true) {
    return {.state = State::kRunning,
            .round = round,
            .is_watched = true,
            .has_shown_signs = has_shown_signs,
            .step = step};
  }
  int64_t Seconds(Spent kind) { return absl::ToInt64Seconds(ledger_.Of(kind)); }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  TimeLedger ledger_;
};

TEST_F(TimeLedgerTest, EachSecondIsOfOneKind) {
  Pass(5, {.state = State::kWaiting});
  Pass(4, Runs(1, 0, false));
  Pass(3, Runs(1, 0));
  Pass(20, Runs(1, 7));
  Pass(2, {.state = State::kRestarting});
  EXPECT_EQ(Seconds(Spent::kWaiting), 5);
  EXPECT_EQ(Seconds(Spent::kStarting), 4);
  EXPECT_EQ(Seconds(Spent::kWarmingUp), 3);
  EXPECT_EQ(Seconds(Spent::kStepping), 20);
  EXPECT_EQ(Seconds(Spent::kRestarting), 2);
  EXPECT_EQ(ledger_.ToMessage().counted_ms(), 34'000);
  EXPECT_EQ(DescribeTime(ledger_.ToMessage()),
            "34s: 20s in steps, 4s starting, 3s to the first step, 2s restarting, 5s waiting for nodes");
}

TEST_F(TimeLedgerTest, StepsThatARoundDoesAgainAreToldFromNewOnes) {
  Pass(10, Runs(1, 1'200));
  Pass(1, {.state = State::kRestarting});
  Pass(6, Runs(2, 1'000));
  Pass(3, Runs(2, 1'199));
  Pass(4, Runs(2, 1'200));
  EXPECT_EQ(Seconds(Spent::kRepeating), 9);
  EXPECT_EQ(Seconds(Spent::kStepping), 14);
  EXPECT_THAT(DescribeTime(ledger_.ToMessage()), HasSubstr("; round 2 went from step 1200 back to 1000"));
  EXPECT_EQ(TimeObject(ledger_.ToMessage())["repeated"]["from"], 1'200);
}

// Then a small number does not show that a step is done again.
TEST_F(TimeLedgerTest, WhereNumbersBeginAgainInARoundNothingIsGuessed) {
  Pass(5, Runs(1, 100));
  Pass(5, Runs(1, 3));
  Pass(5, Runs(2, 50));
  EXPECT_EQ(Seconds(Spent::kRepeating), 0);
  EXPECT_EQ(ledger_.ToMessage().repeated_round(), 0u);
}

TEST_F(TimeLedgerTest, AJobThatShowsNoStepsOnlyRuns) {
  Pass(5, Runs(1, 0));
  EXPECT_EQ(Seconds(Spent::kRunning), 5);
  EXPECT_EQ(Seconds(Spent::kWarmingUp), 0);
  Pass(1, Runs(1, 9));
  EXPECT_EQ(Seconds(Spent::kWarmingUp), 5) << "now it is known that steps came";
  EXPECT_EQ(Seconds(Spent::kRunning), 0);
}

TEST_F(TimeLedgerTest, WhatIsNotWatchedRunsAndWhatIsSilentForTooLongIsStalled) {
  Pass(3, {.state = State::kRunning, .round = 1});
  TimeLedger::Moment silent = Runs(1, 5);
  silent.is_stalled = true;
  Pass(2, silent);
  EXPECT_EQ(Seconds(Spent::kRunning), 3);
  EXPECT_EQ(Seconds(Spent::kStalled), 2);
}

TEST_F(TimeLedgerTest, AfterTheVerdictNothingCounts) {
  Pass(3, {.state = State::kOver});
  EXPECT_EQ(ledger_.ToMessage().counted_ms(), 0);
  EXPECT_EQ(DescribeTime(ledger_.ToMessage()), "under a second");
}

TEST(TimeOfAJob, IsInItsVerdict) {
  Cluster c(Fixed(2, 0));
  c.Join("a", 0);
  c.Pass(absl::Seconds(30), {"a"});
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) c.Apply(name);
  ASSERT_EQ(c.state(), rendezvous::State::kRunning);
  c.Pass(absl::Seconds(40), {"a", "b"});
  c.Fail("b", 7);
  for (const char* name : {"a", "b"}) c.Apply(name);
  ASSERT_TRUE(c.core().verdict());
  const v1::TimeSpent& time = c.core().verdict()->time();
  EXPECT_NEAR(static_cast<double>(time.waiting_ms()), 30'000, 1'000);
  EXPECT_NEAR(static_cast<double>(time.running_ms()), 40'000, 1'000);
  EXPECT_EQ(c.Said("the time of the job: 1m"), 1) << DescribeTime(time);
}

// Nodes say since when their workers are silent; the round began before that.
TEST(TimeOfAJob, ARoundStartsUntilItsFirstSignOfLife) {
  Cluster c(Fixed(2));
  for (const auto& [name, place] : std::map<std::string, int>{{"a", 0}, {"b", 1}}) c.Join(name, place);
  for (const char* name : {"a", "b"}) c.Apply(name);
  for (int second = 0; second < 20; ++second) {
    for (const char* name : {"a", "b"}) c.At(name).status.set_quiet_ms(second * 1'000);
    c.Pass(absl::Seconds(1), {"a", "b"});
  }
  EXPECT_FALSE(MomentOf(c.now(), c.core().job()).has_shown_signs);
  c.At("b").status.set_quiet_ms(500);
  c.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_TRUE(MomentOf(c.now(), c.core().job()).has_shown_signs);
  EXPECT_NEAR(absl::ToDoubleSeconds(c.core().job().time.Of(Spent::kStarting)), 20, 2);
}

// The workers do not know that a coordinator was replaced.
TEST(TimeOfAJob, WhatRunsWhileANewCoordinatorFindsOutIsNoRestart) {
  Cluster c(Fixed(2));
  for (const auto& [name, place] : std::map<std::string, int>{{"a", 0}, {"b", 1}}) c.Join(name, place);
  for (const char* name : {"a", "b"}) c.Apply(name);
  ASSERT_EQ(c.state(), rendezvous::State::kRunning);
  Cluster next(Fixed(2), 7);
  next.At("a") = c.At("a");
  next.Say("a");
  next.Pass(absl::Seconds(3), {"a"});
  ASSERT_EQ(next.state(), rendezvous::State::kRecovering);
  EXPECT_EQ(next.core().job().time.Of(Spent::kRestarting), absl::ZeroDuration());
  EXPECT_NEAR(absl::ToDoubleSeconds(next.core().job().time.Of(Spent::kRunning)), 3, 1);
}

}  // namespace
}  // namespace muster::rendezvous
