// What of a snapshot reaches the coordinator.
#include "base/stacks/snapshot_message.h"

#include <gtest/gtest.h>

#include <string>

#include "base/wire/ranges.h"

namespace muster {
namespace {

RankSnapshot Snapshot(int rank, size_t frames, size_t text) {
  RankSnapshot snapshot;
  snapshot.rank = rank;
  snapshot.pid = 100 + rank;
  snapshot.program = "python3.11";
  snapshot.state = 'S';
  snapshot.waits_in = "do_wait";
  snapshot.threads = 7;
  snapshot.idle = absl::Seconds(rank);
  snapshot.missing = "nothing";
  PythonThread other, main;
  other.name = "Thread-1";
  other.frames.push_back({"pump", "/queue.py", 1});
  main.name = "MainThread";
  main.is_main = true;
  for (size_t i = 0; i < frames; ++i) {
    main.frames.push_back({"f" + std::to_string(i), "/" + std::string(text, 'd') + "/train.py", 10});
  }
  snapshot.python = {other, main};
  return snapshot;
}

v1::AgentStatus StatusWith(const v1::NodeSnapshot& snapshot) {
  v1::AgentStatus status;
  *status.mutable_snapshot() = snapshot;
  return status;
}

TEST(SnapshotMessage, AllButOtherThreadsArrives) {
  const v1::NodeSnapshot message = ToMessage(5, 8, {Snapshot(8, 3, 1), Snapshot(9, 0, 1)});
  EXPECT_EQ(message.number(), 5u);
  EXPECT_EQ(OutOfRange(StatusWith(message)), "");
  const std::vector<RankSnapshot> ranks = FromMessage(message, 16);
  ASSERT_EQ(ranks.size(), 2u);
  const RankSnapshot& rank = ranks[1];
  EXPECT_EQ(ranks[0].rank, 16) << "the coordinator knows better where the node's ranks begin";
  EXPECT_EQ(rank.rank, 17);
  EXPECT_EQ(rank.pid, 109);
  EXPECT_EQ(rank.program, "python3.11");
  EXPECT_EQ(rank.state, 'S');
  EXPECT_EQ(rank.waits_in, "do_wait");
  EXPECT_EQ(rank.threads, 7);
  EXPECT_EQ(rank.idle, absl::Seconds(9));
  EXPECT_EQ(rank.missing, "nothing");
  EXPECT_FALSE(rank.ended);
  EXPECT_TRUE(rank.python.empty());
  ASSERT_EQ(ranks[0].python.size(), 1u);
  EXPECT_TRUE(ranks[0].python[0].is_main);
  ASSERT_EQ(ranks[0].python[0].frames.size(), 3u);
  EXPECT_EQ(ranks[0].python[0].frames[2].function, "f2");
  EXPECT_EQ(ranks[0].python[0].frames[2].file, "/d/train.py");
  EXPECT_EQ(ranks[0].python[0].frames[2].line, 10);
}

TEST(SnapshotMessage, LongStacksLoseTheirOuterFramesAndPathsTheirBeginning) {
  std::vector<RankSnapshot> many;
  for (int rank = 0; rank < 64; ++rank) many.push_back(Snapshot(rank, kMaxFrames, 2 * kMostText));
  const v1::NodeSnapshot message = ToMessage(1, 0, many);
  EXPECT_LE(message.ByteSizeLong(), kMostSnapshotBytes);
  EXPECT_EQ(OutOfRange(StatusWith(message)), "");
  ASSERT_EQ(message.ranks_size(), 64);
  for (const v1::RankSnapshot& rank : message.ranks()) {
    ASSERT_GE(rank.main_thread_size(), 1);
    EXPECT_EQ(rank.main_thread(0).function(), "f0");
    EXPECT_TRUE(rank.main_thread(0).file().ends_with("/train.py"));
  }
}

TEST(SnapshotMessage, OfVeryManyWorkersTheLastAreLeftOut) {
  std::vector<RankSnapshot> many;
  for (int rank = 0; rank < 2000; ++rank) many.push_back(Snapshot(rank, 4, 200));
  const v1::NodeSnapshot message = ToMessage(1, 0, many);
  EXPECT_LE(message.ByteSizeLong(), kMostSnapshotBytes);
  EXPECT_GT(message.ranks_size(), 10);
  EXPECT_EQ(OutOfRange(StatusWith(message)), "");
}

}  // namespace
}  // namespace muster
