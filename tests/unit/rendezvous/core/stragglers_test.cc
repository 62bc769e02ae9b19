#include "rendezvous/core/stragglers.h"

#include <gtest/gtest.h>

#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

class StragglersTest : public ::testing::Test {
 protected:
  StragglersTest() { stragglers_.BeginRound(now_); }
  // The next comparison. Returns who is named.
  std::vector<int> Compare(const std::map<int, int64_t>& rates) {
    now_ += kCompareEvery;
    EXPECT_TRUE(stragglers_.IsDue(now_));
    EXPECT_FALSE(stragglers_.IsDue(now_ - absl::Nanoseconds(1)));
    found_ = stragglers_.Compare(now_, rates);
    std::vector<int> named;
    if (found_) {
      for (const auto& one : found_->slow) named.push_back(one.rank);
    }
    return named;
  }
  // Comparisons for that long. Returns who is named by the last one; those before must name nobody.
  std::vector<int> CompareFor(absl::Duration time, const std::map<int, int64_t>& rates) {
    for (absl::Duration passed; passed < time; passed += kCompareEvery) EXPECT_TRUE(Compare(rates).empty());
    return Compare(rates);
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  Stragglers stragglers_;
  std::optional<Stragglers::Finding> found_;
};

using Ranks = std::vector<int>;

TEST_F(StragglersTest, WhoIsSlowerThanHalfOfTheMedianForAWhileIsNamed) {
  EXPECT_EQ(CompareFor(kSlowFor, {{0, 40}, {1, 19}, {2, 41}}), Ranks({1}));
  EXPECT_EQ(found_->median, 40);
  EXPECT_EQ(found_->slow[0].rate, 19);
}

TEST_F(StragglersTest, HalfOfItIsNotSlow) {
  EXPECT_EQ(CompareFor(2 * kSlowFor, {{0, 40}, {1, 20}, {2, 40}}), Ranks());
}

TEST_F(StragglersTest, OfTwoRanksTheFasterOneIsTheMeasure) {
  EXPECT_EQ(CompareFor(kSlowFor, {{0, 40}, {1, 10}}), Ranks({1}));
}

TEST_F(StragglersTest, ARankThatCatchesUpOrIsNotHeardCountsAnew) {
  for (const auto& [rank, rate] : std::map<int, int64_t>{{1, 30}, {3, 1}}) {
    CompareFor(kSlowFor - kCompareEvery, {{0, 40}, {1, 1}, {2, 40}});
    EXPECT_EQ(Compare({{0, 40}, {rank, rate}, {2, 40}}), Ranks());
    EXPECT_EQ(Compare({{0, 40}, {1, 1}, {2, 40}}), Ranks());
  }
}

TEST_F(StragglersTest, TheyAreNamedOnceInAWhile) {
  EXPECT_EQ(CompareFor(kSlowFor, {{0, 40}, {1, 1}, {2, 40}}), Ranks({1}));
  EXPECT_EQ(CompareFor(kStragglersAgain - kCompareEvery, {{0, 40}, {1, 1}, {2, 40}}), Ranks({1}));
}

TEST_F(StragglersTest, ARoundBeginsAnew) {
  CompareFor(kSlowFor - kCompareEvery, {{0, 40}, {1, 1}, {2, 40}});
  stragglers_.BeginRound(now_);
  EXPECT_EQ(Compare({{0, 40}, {1, 1}, {2, 40}}), Ranks());
  EXPECT_EQ(Compare({}), Ranks());
}

// Two nodes of two workers each: ranks 0 and 1 on a, 2 and 3 on b.
class SlowRanks : public ::testing::Test {
 protected:
  SlowRanks() {
    c_.Join("a", 0);
    c_.Join("b", 1);
    for (const char* name : {"a", "b"}) c_.Apply(name);
  }
  static void Lines(v1::AgentStatus* status, int64_t first, int64_t second) {
    status->clear_step_rates();
    status->add_step_rates(first);
    status->add_step_rates(second);
  }
  void Pass(absl::Duration time, const std::vector<std::string>& beating) { c_.Pass(time, beating); }

  Cluster c_{Fixed(2)};
};

TEST_F(SlowRanks, AreNamedWithTheirNode) {
  Lines(&c_.At("a").status, 20'000, 20'000);
  Lines(&c_.At("b").status, 20'000, 1'750);
  Pass(kSlowFor + 3 * kCompareEvery, {"a", "b"});
  EXPECT_EQ(
      c_.Said("slower than the others: rank 3 on node 1 (b) with 105 steps a minute; the median rank makes 1200 "
              "steps a minute"),
      1);
  Pass(kStragglersAgain / 2, {"a", "b"});
  EXPECT_EQ(c_.Said("slower than the others"), 1);
}

TEST_F(SlowRanks, HeartbeatsAreComparedWithHeartbeats) {
  Lines(&c_.At("a").status, 20'000, 20'000);
  for (const char* name : {"a", "b"}) c_.At(name).status.add_touch_rates(1'000);
  Pass(kSlowFor + 3 * kCompareEvery, {"a", "b"});
  EXPECT_EQ(c_.Said("slower than the others"), 0);
  c_.At("b").status.set_touch_rates(0, 90);
  Pass(kSlowFor + 3 * kCompareEvery, {"a", "b"});
  EXPECT_EQ(c_.Said("slower than the others: rank 2 on node 1 (b) with 5.4 heartbeats a minute"), 1);
}

TEST_F(SlowRanks, ANodeThatIsNotHeardIsNotCompared) {
  Lines(&c_.At("a").status, 20'000, 20'000);
  Lines(&c_.At("b").status, 20'000, 1'000);
  for (const char* name : {"a", "b"}) c_.Apply(name);
  c_.Close("b");
  Pass(kSlowFor + 3 * kCompareEvery, {"a"});
  EXPECT_EQ(c_.Said("slower than the others"), 0);
}

TEST_F(SlowRanks, OfManyAFewAreNamed) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.At("a").status.set_slots(40);
  c.Say("a");
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) c.Apply(name);
  for (int rank = 0; rank < 40; ++rank) c.At("a").status.add_step_rates(rank < 12 ? 10 : 1'000);
  c.Pass(kSlowFor + 3 * kCompareEvery, {"a", "b"});
  EXPECT_EQ(c.Said("rank 7 on node 0 (a) with 0.6 steps a minute and 4 more; the median"), 1);
}

}  // namespace
}  // namespace muster::rendezvous
