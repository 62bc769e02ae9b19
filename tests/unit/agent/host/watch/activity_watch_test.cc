// What is a sign of life of a worker, and of which one.
#include "agent/host/watch/activity_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
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
      workers_.push_back(
          {.local_rank = local_rank,
           .pid = getpid(),
           .streams = {{.source = StepSource::kErr, .file = File(local_rank), .bytes = bytes_.back()}}});
    }
  }
  std::string File(int local_rank) const { return folder_ / ("heartbeat-" + std::to_string(local_rank)); }
  static void Touch(const std::string& path) { std::ofstream(path, std::ios::app) << "x"; }

  // The next workers that show a sign. A change before both threads have looked for the first time is not
  // seen, so `act` is repeated until one is.
  template <typename Act>
  std::set<int> SignsOf(Act act) {
    signs_.clear();
    std::function<void()> again = [&] {
      act();
      timer_ = loop_.After(kLookPeriod / 4, again);
    };
    loop_.Post(again);
    const auto limit = loop_.After(kLimit, [this] { loop_.Stop(); });
    loop_.Run();
    loop_.Cancel(limit);
    loop_.Cancel(timer_);
    return signs_;
  }

  EventLoop loop_;
  EventLoop::TimerId timer_ = 0;
  std::set<int> signs_;
  std::vector<StepSeen> steps_;
  TestFolder folder_;
  std::vector<ByteCount> bytes_;
  std::vector<ActivityWatch::Worker> workers_;
  ActivityWatch watch_{&loop_,
                       {.showed =
                            [this](const std::set<int>& local_ranks) {
                              signs_ = local_ranks;
                              loop_.Stop();
                            },
                        .stepped = [this](const std::vector<StepSeen>& seen) { steps_ = seen; }}};  // after that
};

TEST_F(ActivityWatchTest, OutputIsASignOfItsWorker) {
  watch_.BeginRound(workers_, "");
  EXPECT_EQ(SignsOf([&] { *bytes_[1] += 1; }), std::set<int>({1}));
}

TEST_F(ActivityWatchTest, AHeartbeatFileIsASignOfItsWorker) {
  watch_.BeginRound(workers_, "");
  EXPECT_EQ(SignsOf([&] { Touch(File(0)); }), std::set<int>({0}));
}

TEST_F(ActivityWatchTest, TheProgressFileIsASignOfAll) {
  const std::string progress = folder_ / "progress";
  watch_.BeginRound(workers_, progress);
  EXPECT_EQ(SignsOf([&] { Touch(progress); }), std::set<int>({0, 1}));
}

// Both workers of this test are this process.
TEST_F(ActivityWatchTest, ACheckpointThatIsBeingWrittenIsASign) {
  watch_.BeginRound(workers_, "");
  const auto write = [&] { std::ofstream(folder_ / "checkpoint") << std::string(2 * kBusyBytes, 'x'); };
  EXPECT_EQ(SignsOf(write), std::set<int>({0, 1}));
}

TEST_F(ActivityWatchTest, WhatAWorkerWritesOnATerminalIsASign) {
  workers_[1].on_terminal = true;
  watch_.BeginRound(workers_, "");
  EXPECT_EQ(SignsOf([&] { Touch(folder_ / "little"); }), std::set<int>({1}));
}

TEST_F(ActivityWatchTest, TheNewestNumberInItsLinesIsAWorkersStep) {
  workers_[1].streams[0].lines = std::make_shared<OutputTail>();
  // An old number of a stream that is silent now does not count.
  workers_[1].streams.push_back({.source = StepSource::kOut,
                                 .bytes = std::make_shared<std::atomic<uint64_t>>(0),
                                 .lines = std::make_shared<OutputTail>()});
  workers_[1].streams[1].lines->Feed("resumed from step 5000\n");
  watch_.BeginRound(workers_, "");
  SignsOf([&] {
    workers_[1].streams[0].lines->Feed("step 7\nstep 8\n");
    *bytes_[1] += 1;
  });
  ASSERT_EQ(steps_.size(), 1u);
  EXPECT_EQ(steps_[0].local_rank, 1);
  EXPECT_EQ(steps_[0].source, StepSource::kErr);
  EXPECT_EQ(steps_[0].number, 8);
}

TEST_F(ActivityWatchTest, LinesInAFileHaveStepsToo) {
  watch_.BeginRound(workers_, "");
  SignsOf([&] { std::ofstream(File(0), std::ios::app) << "step 9\n"; });
  ASSERT_EQ(steps_.size(), 1u);
  EXPECT_EQ(steps_[0].source, StepSource::kErr);
  EXPECT_EQ(steps_[0].number, 9);
}

TEST_F(ActivityWatchTest, ATouchOfTheHeartbeatFileIsAStep) {
  workers_[0].streams.clear();
  workers_[0].heartbeat = File(0);
  watch_.BeginRound(workers_, "");
  EXPECT_EQ(SignsOf([&] { Touch(File(0)); }), std::set<int>({0}));
  ASSERT_EQ(steps_.size(), 1u);
  EXPECT_EQ(steps_[0].source, StepSource::kHeartbeat);
}

TEST_F(ActivityWatchTest, AnEarlierRoundsFilesAreForgotten) {
  watch_.BeginRound(workers_, "");
  EXPECT_EQ(SignsOf([&] { Touch(File(1)); }), std::set<int>({1}));
  workers_.pop_back();
  watch_.BeginRound(workers_, "");
  EXPECT_EQ(SignsOf([&] {
              Touch(File(1));
              *bytes_[0] += 1;
            }),
            std::set<int>({0}));
}

}  // namespace
}  // namespace muster::host
