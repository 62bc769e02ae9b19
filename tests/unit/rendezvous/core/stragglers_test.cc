#include "rendezvous/core/stragglers.h"

#include <gtest/gtest.h>

#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

class StragglersTest : public ::testing::Test {
 protected:
  StragglersTest() { stragglers_.BeginRound(now_); }
  // A window in which the ranks make so many steps each. Returns who is slow.
  std::vector<int> Window(const std::map<int, int64_t>& made) {
    now_ += kStepWindow;
    EXPECT_TRUE(stragglers_.IsDue(now_));
    for (const auto& [rank, steps] : made) steps_[rank] += steps;
    found_ = stragglers_.Compare(now_, steps_);
    std::vector<int> slow;
    if (found_) {
      for (const auto& one : found_->slow) slow.push_back(one.rank);
    }
    return slow;
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  Stragglers stragglers_;
  std::map<int, int64_t> steps_;
  std::optional<Stragglers::Finding> found_;
};

using Ranks = std::vector<int>;

TEST_F(StragglersTest, WhoMakesLessThanHalfOfTheMediansStepsIsSlow) {
  EXPECT_EQ(Window({{0, 1}, {1, 1}, {2, 1}}), Ranks()) << "nothing is known of the time before";
  EXPECT_FALSE(stragglers_.IsDue(now_ + kStepWindow - absl::Nanoseconds(1)));
  EXPECT_EQ(Window({{0, 40}, {1, 19}, {2, 41}}), Ranks({1}));
  EXPECT_EQ(found_->median, 40);
  EXPECT_EQ(found_->slow[0].steps, 19);
  EXPECT_EQ(found_->window, kStepWindow);
}

TEST_F(StragglersTest, TheFirstStepsBeginAWindow) {
  now_ += kFirstSteps;
  EXPECT_TRUE(stragglers_.IsDue(now_));
  stragglers_.Compare(now_, {});
  now_ += kFirstSteps;
  EXPECT_TRUE(stragglers_.IsDue(now_));
  stragglers_.Compare(now_, {{0, 1}, {1, 1}});
  EXPECT_FALSE(stragglers_.IsDue(now_ + kFirstSteps));
  now_ += kStepWindow;
  EXPECT_TRUE(stragglers_.Compare(now_, {{0, 41}, {1, 2}}));
}

TEST_F(StragglersTest, HalfOfThemIsNotSlow) {
  Window({{0, 1}, {1, 1}, {2, 1}});
  EXPECT_EQ(Window({{0, 40}, {1, 20}, {2, 40}}), Ranks());
}

TEST_F(StragglersTest, OfTwoRanksTheFasterOneIsTheMeasure) {
  Window({{0, 1}, {1, 1}});
  EXPECT_EQ(Window({{0, 40}, {1, 10}}), Ranks({1}));
}

TEST_F(StragglersTest, FewStepsAreAwaited) {
  Window({{0, 1}, {1, 1}, {2, 1}});
  EXPECT_EQ(Window({{0, 19}, {1, 1}, {2, 19}}), Ranks());
  EXPECT_EQ(Window({{0, 1}, {1, 1}, {2, 1}}), Ranks({1}));
  EXPECT_EQ(found_->median, 20);
  EXPECT_EQ(found_->window, 2 * kStepWindow);
}

TEST_F(StragglersTest, ButNotForEver) {
  Window({{0, 1}, {1, 1}, {2, 1}});
  for (absl::Duration passed; passed < kLongestStepWindow; passed += kStepWindow) Window({});
  EXPECT_EQ(Window({{0, 40}, {1, 1}, {2, 40}}), Ranks({1}));
  EXPECT_EQ(found_->window, kStepWindow);
}

TEST_F(StragglersTest, TheyAreNamedOnceInAWhile) {
  Window({{0, 1}, {1, 1}, {2, 1}});
  EXPECT_EQ(Window({{0, 40}, {1, 1}, {2, 40}}), Ranks({1}));
  for (absl::Duration passed = kStepWindow; passed < kStragglersAgain; passed += kStepWindow) {
    EXPECT_EQ(Window({{0, 40}, {1, 1}, {2, 40}}), Ranks());
  }
  EXPECT_EQ(Window({{0, 40}, {1, 1}, {2, 40}}), Ranks({1}));
}

TEST_F(StragglersTest, ARankWhoseStepsAreNotKnownIsNotSlow) {
  Window({{0, 1}, {1, 1}});
  EXPECT_EQ(Window({{0, 40}, {1, 40}, {2, 1}}), Ranks());
  steps_[0] = 1;
  EXPECT_EQ(Window({{1, 40}, {2, 40}}), Ranks()) << "it counts anew";
}

TEST_F(StragglersTest, ARoundBeginsAnew) {
  Window({{0, 1}, {1, 1}, {2, 1}});
  stragglers_.BeginRound(now_);
  EXPECT_EQ(Window({{0, 40}, {1, 1}, {2, 40}}), Ranks());
}

// Two nodes of two workers each.
TEST(SlowRanks, AreNamedWithTheirNode) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  const auto make = [&c](int64_t steps, int64_t slow) {
    for (const char* name : {"a", "b"}) {
      c.At(name).status.clear_steps();
      c.At(name).status.add_steps(steps);
      c.At(name).status.add_steps(name[0] == 'a' ? steps : slow);
      c.Apply(name);
    }
    c.Pass(kStepWindow + absl::Seconds(1), {"a", "b"});
  };
  make(1, 1);
  make(50, 7);
  EXPECT_EQ(c.Said("slower than the others: rank 3 on node 1 (b): 6 steps; the median rank has made 49 (in 30"),
            1);
  make(1000, 8);
  EXPECT_EQ(c.Said("slower than the others"), 1);
}

TEST(SlowRanks, ANodeThatIsCutOffHasNone) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) {
    for (int i = 0; i < 2; ++i) c.At(name).status.add_steps(1);
    c.Apply(name);
  }
  c.Pass(kStepWindow + absl::Seconds(1), {"a", "b"});
  c.Close("b");
  for (int i = 0; i < 2; ++i) c.At("a").status.set_steps(i, 100);
  c.Pass(kStepWindow + absl::Seconds(1), {"a"});
  EXPECT_EQ(c.Said("slower than the others"), 0);
}

}  // namespace
}  // namespace muster::rendezvous
