// What of a picture reaches the coordinator.
#include "base/picture/picture_message.h"

#include <gtest/gtest.h>

#include <string>

#include "base/ranges.h"

namespace muster {
namespace {

RankPicture Picture(int rank, size_t frames, size_t text) {
  RankPicture picture;
  picture.rank = rank;
  picture.pid = 100 + rank;
  picture.program = "python3.11";
  picture.state = 'S';
  picture.waits_in = "do_wait";
  picture.threads = 7;
  picture.idle = absl::Seconds(rank);
  picture.missing = "nothing";
  PythonThread other, main;
  other.name = "Thread-1";
  other.frames.push_back({"pump", "/queue.py", 1});
  main.name = "MainThread";
  main.is_main = true;
  for (size_t i = 0; i < frames; ++i) {
    main.frames.push_back({"f" + std::to_string(i), "/" + std::string(text, 'd') + "/train.py", 10});
  }
  picture.python = {other, main};
  return picture;
}

v1::AgentStatus StatusWith(const v1::NodePicture& picture) {
  v1::AgentStatus status;
  *status.mutable_picture() = picture;
  return status;
}

TEST(PictureMessage, AllButOtherThreadsArrives) {
  const v1::NodePicture message = ToMessage(5, 8, {Picture(8, 3, 1), Picture(9, 0, 1)});
  EXPECT_EQ(message.number(), 5u);
  EXPECT_EQ(OutOfRange(StatusWith(message)), "");
  const std::vector<RankPicture> ranks = FromMessage(message, 16);
  ASSERT_EQ(ranks.size(), 2u);
  const RankPicture& rank = ranks[1];
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

TEST(PictureMessage, LongStacksLoseTheirOuterFramesAndPathsTheirBeginning) {
  std::vector<RankPicture> many;
  for (int rank = 0; rank < 64; ++rank) many.push_back(Picture(rank, kMaxFrames, 2 * kMostText));
  const v1::NodePicture message = ToMessage(1, 0, many);
  EXPECT_LE(message.ByteSizeLong(), kMostPictureBytes);
  EXPECT_EQ(OutOfRange(StatusWith(message)), "");
  ASSERT_EQ(message.ranks_size(), 64);
  for (const v1::RankPicture& rank : message.ranks()) {
    ASSERT_GE(rank.main_thread_size(), 1);
    EXPECT_EQ(rank.main_thread(0).function(), "f0");
    EXPECT_TRUE(rank.main_thread(0).file().ends_with("/train.py"));
  }
}

TEST(PictureMessage, OfVeryManyWorkersTheLastAreLeftOut) {
  std::vector<RankPicture> many;
  for (int rank = 0; rank < 2000; ++rank) many.push_back(Picture(rank, 4, 200));
  const v1::NodePicture message = ToMessage(1, 0, many);
  EXPECT_LE(message.ByteSizeLong(), kMostPictureBytes);
  EXPECT_GT(message.ranks_size(), 10);
  EXPECT_EQ(OutOfRange(StatusWith(message)), "");
}

}  // namespace
}  // namespace muster
