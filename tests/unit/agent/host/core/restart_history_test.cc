// The reason of each restart, and the time that it cost.
#include "agent/host/core/restart_history.h"

#include <gtest/gtest.h>

namespace muster::host {
namespace {

class RestartHistoryTest : public testing::Test {
 protected:
  void Pass(int seconds) { now_ += absl::Seconds(seconds); }

  BootTime now_ = FromBootNanos(1'000'000'000);
  RestartHistory history_;
};

TEST_F(RestartHistoryTest, ARoundThatIsFollowedByAnotherOneIsARestart) {
  history_.OnStart(now_, 1);
  Pass(100);
  history_.OnOwnStop(now_, "a worker failed");
  Pass(2);
  history_.OnOrderedStop(now_, "rank 3 on b exited with code 7");
  EXPECT_TRUE(history_.restarts().newest.empty());
  Pass(3);
  history_.OnStart(now_, 2);
  ASSERT_EQ(history_.restarts().newest.size(), 1u);
  const Restart& restart = history_.restarts().newest[0];
  EXPECT_EQ(restart.round, 1u);
  EXPECT_EQ(restart.ran, absl::Seconds(100));
  EXPECT_EQ(restart.lost, absl::Seconds(5)) << "from the first sign of its end";
  EXPECT_EQ(restart.cause, "rank 3 on b exited with code 7") << "the group's reason, not this node's echo";
}

TEST_F(RestartHistoryTest, TheFirstReasonOfEachKindCounts) {
  history_.OnStart(now_, 1);
  history_.OnOrderedStop(now_, "the cause");
  history_.OnOrderedStop(now_, "another one");
  history_.OnOwnStop(now_, "the lease ended");
  history_.OnStart(now_, 2);
  EXPECT_EQ(history_.restarts().newest[0].cause, "the cause");
}

TEST_F(RestartHistoryTest, OfManyTheNewestAreKeptAndAllAreCounted) {
  for (uint64_t round = 1; round <= kMaxRestartsKept + 11; ++round) {
    history_.OnStart(now_, round);
    history_.OnOwnStop(now_, "why");
    Pass(2);
  }
  EXPECT_EQ(history_.restarts().newest.size(), kMaxRestartsKept);
  EXPECT_EQ(history_.restarts().newest.back().round, kMaxRestartsKept + 10);
  EXPECT_EQ(history_.restarts().earlier, 10);
  EXPECT_EQ(history_.restarts().lost, absl::Seconds(2 * (static_cast<int>(kMaxRestartsKept) + 10)));
}

}  // namespace
}  // namespace muster::host
