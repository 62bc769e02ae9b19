#include "rendezvous/gate/frame_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace muster::rendezvous {
namespace {

constexpr BootTime kStart = absl::UnixEpoch();
constexpr int kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPushPromise = 5, kPing = 6, kContinuation = 9;

std::string Frame(int type, size_t size) {
  std::string frame = {static_cast<char>(size >> 16),
                       static_cast<char>(size >> 8),
                       static_cast<char>(size),
                       static_cast<char>(type),
                       0,
                       0,
                       0,
                       0,
                       1};
  return frame + std::string(size, 'x');
}

class FrameGuardTest : public ::testing::Test {
 protected:
  FrameGuardTest() { EXPECT_TRUE(guard_.Check(now_, kPreface).ok()); }

  // The number of these frames that pass, of at most `most`.
  int Passing(const std::string& frame, int most, absl::Duration apart = absl::ZeroDuration()) {
    for (int i = 0; i < most; ++i, now_ += apart) {
      if (!guard_.Check(now_, frame).ok()) return i;
    }
    return most;
  }

  BootTime now_ = kStart;
  std::vector<uint64_t> evicted_;
  VisitorBytes shared_{[this](uint64_t connection) { evicted_.push_back(connection); }};
  FrameGuard guard_{&shared_, 0};
};

TEST_F(FrameGuardTest, AHeaderBlockMayHaveTheGreatestSize) {
  EXPECT_TRUE(guard_.Check(kStart, Frame(kHeaders, kMaxHeaderBlockBytes)).ok());
  EXPECT_TRUE(guard_.Check(kStart, Frame(kHeaders, kMaxHeaderBlockBytes)).ok()) << "each block counts alone";
}

TEST_F(FrameGuardTest, ALargerHeaderBlockIsRefusedBeforeItHasCome) {
  const std::string frame = Frame(kHeaders, kMaxHeaderBlockBytes + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(guard_.Check(kStart, frame.substr(0, 9))));
}

TEST_F(FrameGuardTest, ABlockIsMeasuredOverAllItsFrames) {
  EXPECT_TRUE(guard_.Check(kStart, Frame(kHeaders, kMaxHeaderBlockBytes / 2)).ok());
  EXPECT_TRUE(guard_.Check(kStart, Frame(kContinuation, kMaxHeaderBlockBytes / 2)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(guard_.Check(kStart, Frame(kContinuation, 1))));
}

TEST_F(FrameGuardTest, ResetsAreCounted) { EXPECT_EQ(Passing(Frame(kReset, 4), 1'000), kMaxStreamResets); }

TEST_F(FrameGuardTest, RequestsAreCounted) { EXPECT_EQ(Passing(Frame(kHeaders, 10), 1'000), kMaxHeaderBlocks); }

TEST_F(FrameGuardTest, AFloodOfAnyFramesIsRefused) {
  EXPECT_EQ(Passing(Frame(kPing, 8), 2 * kFrameBurst), kFrameBurst);
}

TEST_F(FrameGuardTest, FramesAtTheAllowedRateGoOnForEver) {
  const int many = 10 * kFrameBurst;
  guard_.Trust();
  EXPECT_EQ(Passing(Frame(kData, 100), many, absl::Seconds(1) / kFramesPerSecond), many);
}

TEST_F(FrameGuardTest, BeforeAnAgentIsAdmittedBytesAreCounted) {
  const std::string frame = Frame(kData, 0x4000);
  const int most = static_cast<int>(kMaxVisitorBytes / frame.size());
  EXPECT_EQ(Passing(frame, 1'000), most);
  FrameGuard trusted(&shared_, 1);
  EXPECT_TRUE(trusted.Check(now_, kPreface).ok());
  trusted.Trust();
  for (int i = 0; i < 10 * most; ++i) EXPECT_TRUE(trusted.Check(now_, frame).ok());
}

TEST_F(FrameGuardTest, VisitorsTogetherMaySendMuchLessThanAllThatEachMay) {
  const std::string frame = Frame(kData, 0x4000);
  std::map<uint64_t, std::unique_ptr<FrameGuard>> visitors;
  const auto come = [&](uint64_t id) {
    visitors[id] = std::make_unique<FrameGuard>(&shared_, id);
    EXPECT_TRUE(visitors[id]->Check(now_, kPreface).ok());
    return visitors[id].get();
  };
  for (uint64_t id = 1; id <= 100; ++id) {
    FrameGuard* const stranger = come(id);
    for (size_t sent = frame.size(); sent < kMaxVisitorBytes; sent += frame.size()) {
      if (!stranger->Check(now_, frame).ok()) break;
    }
  }
  EXPECT_LT(shared_.left(), kMaxVisitorBytes) << "they have all that there is";

  evicted_.clear();
  FrameGuard* const agent = come(1'000);
  const size_t much = std::min(kMaxVisitorBytes / 2, shared_.left() + 2 * kOwnVisitorBytes);
  EXPECT_TRUE(agent->Check(now_, Frame(kData, much)).ok());
  EXPECT_FALSE(evicted_.empty()) << "whoever sent most leaves";
  for (const uint64_t id : evicted_) EXPECT_LE(id, 100u);
  visitors.clear();
  EXPECT_EQ(shared_.left(), kSharedVisitorBytes) << "those that have gone give back what they had";
}

// Among many that have sent much nobody has to leave for one that would send more.
TEST_F(FrameGuardTest, WhoWouldSendMostIsRefused) {
  const size_t part = kMaxVisitorBytes - kOwnVisitorBytes;
  uint64_t id = 1;
  while (shared_.left() >= part) EXPECT_TRUE(shared_.Resize(id++, part));
  EXPECT_FALSE(shared_.Resize(id, part));
  EXPECT_TRUE(evicted_.empty());
  EXPECT_TRUE(shared_.Resize(1, 0));
  EXPECT_TRUE(shared_.Resize(id, part));
}

TEST_F(FrameGuardTest, PiecesOfAnySizeGetTheSameAnswer) {
  const std::string good = Frame(kHeaders, 300) + Frame(kData, 70'000) + Frame(kPing, 8);
  const std::string bad = good + Frame(kHeaders, kMaxHeaderBlockBytes) + Frame(kContinuation, 1);
  for (const size_t size : {size_t{1}, size_t{8}, size_t{9}, size_t{10}, size_t{4'096}}) {
    FrameGuard guard(&shared_, 1);
    ASSERT_TRUE(guard.Check(kStart, kPreface).ok());
    absl::Status status;
    size_t at = 0;
    for (; at < bad.size() && status.ok(); at += size) {
      status = guard.Check(kStart, std::string_view(bad).substr(at, size));
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << size;
    EXPECT_GT(at, good.size()) << size;
  }
}

TEST_F(FrameGuardTest, AnErrorIsFinal) {
  const absl::Status first = guard_.Check(kStart, Frame(kHeaders, kMaxHeaderBlockBytes + 1));
  EXPECT_EQ(guard_.Check(kStart, Frame(kData, 1)), first);
}

TEST(FrameGuardWithoutPrefaceTest, AnythingElseIsRefused) {
  VisitorBytes shared([](uint64_t) {});
  FrameGuard guard(&shared, 1);
  EXPECT_TRUE(guard.Check(kStart, kPreface.substr(0, 5)).ok());
  EXPECT_FALSE(guard.has_preface());
  EXPECT_TRUE(absl::IsInvalidArgument(guard.Check(kStart, "GET /")));
}

// What a client may be sent: no preface, a directive of the greatest size, and again.
TEST(FrameGuardOfAClientTest, AServerMaySendWhatACoordinatorSends) {
  FrameGuard guard;
  EXPECT_TRUE(guard.Check(kStart, Frame(kSettings, 18) + Frame(kHeaders, 300)).ok());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(guard.Check(kStart + absl::Seconds(i), Frame(kData, 1 << 20)).ok());
  EXPECT_TRUE(guard.Check(kStart + absl::Seconds(100), Frame(kHeaders, 100)).ok()) << "trailers";
}

TEST(FrameGuardOfAClientTest, AServersHeadersAreBoundedAsAClientsAre) {
  FrameGuard large, many, pushing;
  EXPECT_TRUE(large.Check(kStart, Frame(kHeaders, kMaxHeaderBlockBytes)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(large.Check(kStart, Frame(kContinuation, 1))));
  for (int i = 0; i < kMaxHeaderBlocks; ++i) EXPECT_TRUE(many.Check(kStart, Frame(kHeaders, 10)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(many.Check(kStart, Frame(kHeaders, 10))));
  EXPECT_TRUE(absl::IsInvalidArgument(pushing.Check(kStart, Frame(kPushPromise, 10))));
}

}  // namespace
}  // namespace muster::rendezvous
