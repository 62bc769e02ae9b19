// What is shown of how a job gets on.
#include "rendezvous/core/progress.h"

#include <gtest/gtest.h>

#include "rendezvous/core/snapshot.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

TEST(StepHistory, IsTheAverageOfTheLastHour) {
  StepHistory steps;
  BootTime now = FromBootNanos(1'000'000'000'000);
  const auto add = [&](int64_t rate) {
    EXPECT_TRUE(steps.IsDue(now));
    steps.Add(now, rate);
    EXPECT_FALSE(steps.IsDue(now));
    now += kStepSampleEvery;
  };
  add(0);
  EXPECT_EQ(steps.average(), 0) << "what comes before the first step is no step";
  EXPECT_EQ(steps.span(), absl::ZeroDuration());
  add(1'000);
  add(0);
  EXPECT_EQ(steps.average(), 500) << "a restart makes no steps";
  EXPECT_EQ(steps.span(), 2 * kStepSampleEvery);
  for (size_t i = 0; i < kMaxStepSamples; ++i) add(200);
  EXPECT_EQ(steps.average(), 200);
  EXPECT_EQ(steps.span(), absl::Hours(1));
}

// Two nodes of two workers each: ranks 0 and 1 on a, 2 and 3 on b.
class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() {
    c_.Join("a", 0);
    c_.Join("b", 1);
    for (const char* name : {"a", "b"}) c_.Apply(name);
    EXPECT_EQ(c_.state(), State::kRunning);
  }

  v1::AgentStatus& StatusOf(const char* name) { return c_.At(name).status; }
  void Shows(const char* name, std::initializer_list<int64_t> steps, std::initializer_list<int64_t> rates) {
    v1::AgentStatus& status = StatusOf(name);
    status.clear_steps();
    for (const int64_t step : steps) status.add_steps(step);
    status.clear_step_rates();
    for (const int64_t rate : rates) status.add_step_rates(rate);
  }
  v1::Progress Look() { return Snapshot(c_.now(), c_.core().job()).progress(); }

  Cluster c_{Fixed(2)};
};

TEST_F(ProgressTest, IsNotWatchedWhereNoNodeLooksForSigns) {
  c_.Pass(absl::Seconds(2), {"a", "b"});
  EXPECT_FALSE(Look().watched());
  EXPECT_EQ(Look().ranks(), 0);
  EXPECT_FALSE(Look().has_quiet_ms());
}

TEST_F(ProgressTest, IsThatOfTheMedianRankBesideTheSlowest) {
  Shows("a", {120, 118}, {20'000, 20'000});
  Shows("b", {119, 0}, {18'000, 0});
  StatusOf("a").set_quiet_ms(5'000);
  StatusOf("b").set_quiet_ms(2'000);
  c_.Pass(absl::Seconds(1), {"a", "b"});
  const v1::Progress progress = Look();
  EXPECT_TRUE(progress.watched());
  EXPECT_EQ(progress.ranks(), 3) << "of rank 3 no step is known";
  EXPECT_EQ(progress.median_step(), 119);
  EXPECT_EQ(progress.slowest_rank(), 1);
  EXPECT_EQ(progress.slowest_step(), 118);
  EXPECT_EQ(progress.rate(), 20'000);
  EXPECT_FALSE(progress.by_touches());
  EXPECT_EQ(progress.quiet_ms(), 2'000);
  const v1::JobView view = Snapshot(c_.now(), c_.core().job());
  EXPECT_EQ(view.nodes(0).step(), 118);
  EXPECT_EQ(view.nodes(1).step(), 119) << "a rank without a step is not at step 0";
  EXPECT_EQ(MomentOf(c_.now(), c_.core().job()).step, 119);
  EXPECT_EQ(MomentOf(c_.now(), c_.core().job()).round, 1u);
}

TEST_F(ProgressTest, TheLastSignOfLifeAgesWithTheStatusThatNamedIt) {
  StatusOf("a").set_quiet_ms(2'000);
  StatusOf("a").set_progress_file_ms(30'000);
  for (const char* name : {"a", "b"}) c_.Say(name);
  c_.Pass(absl::Seconds(1), {});
  EXPECT_EQ(Look().quiet_ms(), 3'000);
  EXPECT_EQ(Look().progress_file_ms(), 31'000);
}

TEST_F(ProgressTest, TouchesCountWhereNoLineShowsAStep) {
  StatusOf("a").add_touch_rates(1'000);
  c_.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_TRUE(Look().by_touches());
  EXPECT_EQ(Look().rate(), 1'000);
}

TEST_F(ProgressTest, ASilenceOfManyStepsIsOdd) {
  Shows("a", {120, 118}, {10'000, 10'000});  // a step takes 100 ms
  c_.Pass(2 * kStepSampleEvery, {"a", "b"});
  const auto silent_for = [this](absl::Duration quiet) {
    for (const char* name : {"a", "b"}) StatusOf(name).set_quiet_ms(absl::ToInt64Milliseconds(quiet));
    c_.Pass(absl::Seconds(1), {"a", "b"});
    return Snapshot(c_.now(), c_.core().job());
  };
  EXPECT_TRUE(silent_for(kOddSilence - absl::Seconds(2)).odd().empty());
  EXPECT_EQ(Look().rate(), 10'000);
  const v1::JobView view = silent_for(kOddSilence);
  ASSERT_EQ(view.odd_size(), 1);
  EXPECT_EQ(view.odd(0),
            "no worker has shown a sign of life for 1m, which is many steps long: muster stacks shows where "
            "they stand");
  EXPECT_EQ(view.progress().rate(), 0) << "a pace of before is not that of now";
  EXPECT_TRUE(MomentOf(c_.now(), c_.core().job()).is_stalled);
}

TEST_F(ProgressTest, ASlowJobMayBeSilentForLonger) {
  Shows("a", {120, 118}, {10, 10});  // a step takes 100 s
  c_.Pass(2 * kStepSampleEvery, {"a", "b"});
  for (const char* name : {"a", "b"}) StatusOf(name).set_quiet_ms(30 * 60'000);
  c_.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_TRUE(Snapshot(c_.now(), c_.core().job()).odd().empty());
  for (const char* name : {"a", "b"}) StatusOf(name).set_quiet_ms(34 * 60'000);
  c_.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_FALSE(Snapshot(c_.now(), c_.core().job()).odd().empty());
}

TEST_F(ProgressTest, TimeWithoutARoundLowersTheAverage) {
  Shows("a", {120, 118}, {20'000, 20'000});
  c_.Pass(5 * kStepSampleEvery, {"a", "b"});
  EXPECT_EQ(Look().hour_rate(), 20'000);
  c_.Fail("b", 7);
  c_.Pass(5 * kStepSampleEvery, {"a"});
  EXPECT_EQ(Look().rate(), 0);
  EXPECT_GT(Look().hour_rate(), 5'000);
  EXPECT_LT(Look().hour_rate(), 15'000);
}

}  // namespace
}  // namespace muster::rendezvous
