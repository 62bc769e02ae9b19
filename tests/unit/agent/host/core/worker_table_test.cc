#include "agent/host/core/worker_table.h"

#include <gtest/gtest.h>

namespace muster::host {
namespace {

class WorkerTableTest : public ::testing::Test {
 protected:
  WorkerTableTest() {
    table_.Reset(2);
    std::vector<v1::Worker> workers(3);
    for (int i = 0; i < 3; ++i) {
      workers[static_cast<size_t>(i)].set_local_rank(i);
      workers[static_cast<size_t>(i)].set_pid(100 + i);
      workers[static_cast<size_t>(i)].set_start_ticks(7);
    }
    table_.OnSpawned(workers);
  }
  std::optional<int64_t> Exit(int local_rank, bool rest_lives = false) {
    return table_.OnExit(now_, local_rank, rest_lives);
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  WorkerTable table_;
};

TEST_F(WorkerTableTest, AllMustExecute) {
  EXPECT_EQ(table_.FindNotStarted()->local_rank, 0);
  EXPECT_TRUE(table_.OnExecuting(0));
  EXPECT_FALSE(table_.OnExecuting(0)) << "reported before";
  EXPECT_FALSE(table_.OnExecuting(2)) << "there is no such slot";
  EXPECT_EQ(table_.FindNotStarted()->pid, 101);
  EXPECT_TRUE(table_.OnExecuting(1));
  EXPECT_FALSE(table_.FindNotStarted());
}

TEST_F(WorkerTableTest, AnExitCountsOnce) {
  EXPECT_EQ(Exit(1), 101);
  EXPECT_FALSE(Exit(1));
  EXPECT_FALSE(Exit(2));
  EXPECT_FALSE(table_.OnExecuting(1)) << "it has ended";
  EXPECT_EQ(table_.live(), 1);
}

TEST_F(WorkerTableTest, AWorkerLivesUntilItsSparedProcessesEnd) {
  EXPECT_TRUE(Exit(0, true));
  EXPECT_TRUE(Exit(1));
  EXPECT_EQ(table_.live(), 1);
  EXPECT_FALSE(Exit(0)) << "reported before";
  table_.OnRestEnded(1);
  EXPECT_EQ(table_.live(), 1) << "nothing of it was spared";
  table_.OnRestEnded(0);
  EXPECT_EQ(table_.live(), 0);
}

TEST_F(WorkerTableTest, TheRestMayEndBeforeTheExitIsReported) {
  table_.OnRestEnded(0);
  EXPECT_EQ(table_.live(), 2);
  EXPECT_TRUE(Exit(0, true));
  EXPECT_EQ(table_.live(), 1);
}

TEST_F(WorkerTableTest, TheSweepMayComeBeforeTheExitIsReported) {
  table_.OnSwept();
  EXPECT_EQ(table_.live(), 2);
  EXPECT_TRUE(Exit(0, true));
  EXPECT_EQ(table_.live(), 1);
}

TEST_F(WorkerTableTest, ASweepEndsSparedProcessesOnly) {
  EXPECT_TRUE(Exit(0, true));
  table_.OnSwept();
  EXPECT_EQ(table_.live(), 1) << "the exit of the other one is still to be reported";
}

TEST_F(WorkerTableTest, FinishingWorkersAreNamedOnceAfterAMoment) {
  EXPECT_TRUE(Exit(1, true));
  EXPECT_THAT(table_.TakeFinishing(now_ + kSayFinishing - absl::Nanoseconds(1)), testing::IsEmpty());
  EXPECT_THAT(table_.TakeFinishing(now_ + kSayFinishing), testing::ElementsAre(1));
  EXPECT_THAT(table_.TakeFinishing(now_ + 2 * kSayFinishing), testing::IsEmpty());
}

TEST_F(WorkerTableTest, TheStatusListsLiveWorkers) {
  EXPECT_TRUE(Exit(0));
  v1::HostStatus status;
  table_.Describe(&status);
  ASSERT_EQ(status.workers_size(), 1);
  EXPECT_EQ(status.workers(0).local_rank(), 1);
  EXPECT_EQ(status.workers(0).pid(), 101);
  EXPECT_EQ(status.workers(0).start_ticks(), 7u);
}

}  // namespace
}  // namespace muster::host
