// The first messages of a host and its sidecar, with a peer that is slow, silent or sends garbage.
#include "base/io/frame_exchange.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/io/frame_header.h"
#include "muster/v1/host.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

class FrameExchangeTest : public testing::Test {
 protected:
  FrameExchangeTest() {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
    ours_.Reset(pair[0]);
    theirs_.Reset(pair[1]);
  }

  static v1::HostHello Hello(const std::string& text) {
    v1::HostHello hello;
    hello.set_refused(text);
    return hello;
  }

  void Write(const std::string& bytes) {
    ASSERT_EQ(write(theirs_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  // The lowest number that is free.
  static int NextDescriptor() { return OwnedFd(fcntl(0, F_DUPFD_CLOEXEC, 0)).get(); }

  OwnedFd ours_, theirs_;
};

TEST_F(FrameExchangeTest, AMessageArrivesWithItsDescriptor) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  const OwnedFd out(pipe_ends[0]);
  OwnedFd in(pipe_ends[1]);
  ASSERT_TRUE(SendFrame(theirs_.get(), Hello("with a pipe"), in.get()).ok());
  in.Reset();
  IncomingFrame frame;
  ASSERT_TRUE(AwaitFrame(ours_.get(), kPatience, &frame).ok());
  EXPECT_EQ(frame.payload(), Hello("with a pipe").SerializeAsString());
  const OwnedFd passed = frame.TakeDescriptor();
  ASSERT_TRUE(passed.valid());
  EXPECT_EQ(fcntl(passed.get(), F_GETFD), FD_CLOEXEC);
  ASSERT_EQ(write(passed.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(out.get(), &byte, 1), 1);
}

// Others would stay open for ever.
TEST_F(FrameExchangeTest, OfSeveralDescriptorsOneIsTaken) {
  const int both[] = {theirs_.get(), theirs_.get()};
  std::string bytes;
  AppendFrameHeader(0, &bytes);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(both))> control = {};
  iovec part{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(both));
  std::memcpy(CMSG_DATA(rights), both, sizeof(both));
  ASSERT_EQ(sendmsg(theirs_.get(), &header, 0), static_cast<ssize_t>(bytes.size()));
  const int before = NextDescriptor();
  IncomingFrame frame;
  ASSERT_TRUE(*frame.Read(ours_.get()));
  EXPECT_TRUE(frame.TakeDescriptor().valid());
  EXPECT_EQ(NextDescriptor(), before);
}

TEST_F(FrameExchangeTest, WhatFollowsTheMessageIsLeftInTheSocket) {
  ASSERT_TRUE(SendFrame(theirs_.get(), Hello("first")).ok());
  Write("later");
  IncomingFrame frame;
  ASSERT_TRUE(AwaitFrame(ours_.get(), kPatience, &frame).ok());
  EXPECT_FALSE(frame.TakeDescriptor().valid());
  char rest[16];
  EXPECT_EQ(std::string(rest, static_cast<size_t>(read(ours_.get(), rest, sizeof(rest)))), "later");
}

TEST_F(FrameExchangeTest, SingleBytesMakeAWholeMessage) {
  std::string bytes;
  AppendFrameHeader(5, &bytes);
  bytes += "hello";
  IncomingFrame frame;
  for (const char byte : bytes) {
    EXPECT_FALSE(*frame.Read(ours_.get()));
    Write(std::string(1, byte));
  }
  EXPECT_TRUE(*frame.Read(ours_.get()));
  EXPECT_EQ(frame.payload(), "hello");
}

TEST_F(FrameExchangeTest, AnEmptyMessageIsComplete) {
  Write(std::string(kFrameHeaderBytes, '\0'));
  IncomingFrame frame;
  EXPECT_TRUE(*frame.Read(ours_.get()));
  EXPECT_EQ(frame.payload(), "");
}

TEST_F(FrameExchangeTest, AGarbageLengthIsRefused) {
  Write("\xff\xff\xff\xff");
  IncomingFrame frame;
  const absl::StatusOr<bool> complete = frame.Read(ours_.get());
  EXPECT_EQ(complete.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FrameExchangeTest, TheLongestMessageIsRead) {
  std::string bytes;
  AppendFrameHeader(kMaxFirstFrameBytes, &bytes);
  Write(bytes);
  IncomingFrame frame;
  EXPECT_FALSE(*frame.Read(ours_.get())) << "not refused, and not complete";
  const std::string part(64 * 1024, 'x');
  for (size_t sent = 0; sent < kMaxFirstFrameBytes; sent += part.size()) {
    Write(part);
    EXPECT_EQ(*frame.Read(ours_.get()), sent + part.size() == kMaxFirstFrameBytes);
  }
  EXPECT_EQ(frame.payload().size(), kMaxFirstFrameBytes);
}

TEST_F(FrameExchangeTest, APeerThatClosesIsUnavailable) {
  Write("\x05");
  theirs_.Reset();
  IncomingFrame frame;
  EXPECT_EQ(AwaitFrame(ours_.get(), kPatience, &frame).code(), absl::StatusCode::kUnavailable);
}

TEST_F(FrameExchangeTest, ASilentPeerIsWaitedForUntilTheLimit) {
  IncomingFrame frame;
  EXPECT_EQ(AwaitFrame(ours_.get(), absl::Milliseconds(5), &frame).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(FrameExchangeTest, AMessageLargerThanTheSocketIsSentInParts) {
  OutgoingFrame out(Hello(std::string(kMaxFirstFrameBytes - 16, 'x')));
  IncomingFrame in;
  bool sent = false, complete = false;
  int parts = 0;
  for (; !complete && parts < 10000; ++parts) {
    if (!sent) sent = *out.Write(theirs_.get());
    complete = *in.Read(ours_.get());
  }
  EXPECT_TRUE(complete);
  EXPECT_GT(parts, 1);
  EXPECT_EQ(in.payload(), Hello(std::string(kMaxFirstFrameBytes - 16, 'x')).SerializeAsString());
}

TEST_F(FrameExchangeTest, AFullSocketIsAnError) {
  absl::Status sent;
  for (int i = 0; i < 1000 && sent.ok(); ++i) sent = SendFrame(theirs_.get(), Hello(std::string(100 * 1024, 'x')));
  EXPECT_FALSE(sent.ok());
}

}  // namespace
}  // namespace muster
