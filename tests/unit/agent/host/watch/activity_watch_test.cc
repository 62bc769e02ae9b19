// What is a sign of life of a worker, and of which one.
#include "agent/host/watch/activity_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/test_folder.h"

namespace muster::host {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(20);  // only a hang reaches it

class ActivityWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(watch_.Start().ok());
    for (int local_rank = 0; local_rank < 2; ++local_rank) {
      bytes_.push_back(std::make_shared<std::atomic<uint64_t>>(0));
      workers_.push_back({local_rank, getpid(), {File(local_rank)}, {bytes_.back()}});
    }
  }
  std::string File(int local_rank) const { return folder_ / ("heartbeat-" + std::to_string(local_rank)); }
  static void Touch(const std::string& path) { std::ofstream(path, std::ios::app) << "x"; }

  // What the next look finds. The first one after BeginRound has seen all that was there before.
  std::set<int> Look() {
    looked_.reset();
    const auto timer = loop_.After(kLimit, [this] { loop_.Stop(); });
    loop_.Run();
    loop_.Cancel(timer);
    EXPECT_TRUE(looked_.has_value());
    return looked_.value_or(std::set<int>());
  }

  EventLoop loop_;
  std::optional<std::set<int>> looked_;
  TestFolder folder_;
  std::vector<ByteCount> bytes_;
  std::vector<ActivityWatch::Worker> workers_;
  ActivityWatch watch_{&loop_, [this](const std::set<int>& signs) {
                         looked_ = signs;
                         loop_.Stop();
                       }};
};

TEST_F(ActivityWatchTest, OutputAndHeartbeatFilesAreSignsOfTheirWorker) {
  watch_.BeginRound(workers_, "");
  EXPECT_EQ(Look(), std::set<int>());
  Touch(File(1));
  EXPECT_EQ(Look(), std::set<int>({1})) << "it did not exist before";
  *bytes_[0] += 1;
  EXPECT_EQ(Look(), std::set<int>({0}));
  EXPECT_EQ(Look(), std::set<int>());
}

TEST_F(ActivityWatchTest, TheProgressFileIsASignOfAll) {
  const std::string progress = folder_ / "progress";
  Touch(progress);
  watch_.BeginRound(workers_, progress);
  EXPECT_EQ(Look(), std::set<int>());
  Touch(progress);
  EXPECT_EQ(Look(), std::set<int>({0, 1}));
}

// Both workers of this test are this process.
TEST_F(ActivityWatchTest, ACheckpointThatIsBeingWrittenIsASign) {
  watch_.BeginRound(workers_, "");
  Look();
  std::ofstream(folder_ / "checkpoint") << std::string(2 * kBusyBytes, 'x');
  EXPECT_EQ(Look(), std::set<int>({0, 1}));
  EXPECT_EQ(Look(), std::set<int>());
}

TEST_F(ActivityWatchTest, AnEarlierRoundsFilesAreForgotten) {
  watch_.BeginRound(workers_, "");
  Look();
  workers_.pop_back();
  watch_.BeginRound(workers_, "");
  Look();
  Touch(File(1));
  EXPECT_EQ(Look(), std::set<int>());
}

}  // namespace
}  // namespace muster::host
