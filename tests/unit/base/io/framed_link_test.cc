// The link between host and agent with a peer that is slow, silent, dying or sends garbage.
#include "base/io/framed_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "muster/v1/host.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

class FramedLinkTest : public testing::Test {
 protected:
  FramedLinkTest() {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
    peer_ = pair[1];
    link_ = std::make_unique<FramedLink>(
        &loop_, pair[0], [this](std::string_view payload) { messages_.emplace_back(payload); },
        [this](const std::string& why) { closed_ = why; });
  }
  ~FramedLinkTest() override { ClosePeer(); }

  void ClosePeer() {
    if (peer_ >= 0) close(peer_);
    peer_ = -1;
  }

  bool RunUntil(const std::function<bool()>& condition) {
    const BootTime deadline = EventLoop::Now() + kPatience;
    std::function<void()> look = [&] {
      if (condition() || EventLoop::Now() > deadline) {
        loop_.Stop();
      } else {
        loop_.After(absl::Milliseconds(1), look);
      }
    };
    loop_.Post(look);
    loop_.Run();
    return condition();
  }

  static std::string Framed(const std::string& payload) {
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>((payload.size() >> (8 * i)) & 0xff));
    return bytes + payload;
  }

  static v1::HostStatus Status(size_t bytes) {
    v1::HostStatus status;
    status.set_trouble(std::string(bytes, 'x'));
    return status;
  }

  EventLoop loop_;
  int peer_ = -1;
  std::unique_ptr<FramedLink> link_;
  std::vector<std::string> messages_;
  std::optional<std::string> closed_;
};

TEST_F(FramedLinkTest, SingleBytesMakeWholeMessages) {
  const std::string bytes = Framed("first") + Framed("") + Framed("third");
  size_t at = 0;
  ASSERT_TRUE(RunUntil([&] {
    if (at < bytes.size()) {
      EXPECT_EQ(write(peer_, &bytes[at++], 1), 1);
    }
    return messages_.size() == 3;
  }));
  EXPECT_EQ(messages_, (std::vector<std::string>{"first", "", "third"}));
}

TEST_F(FramedLinkTest, AMessageLargerThanTheSocketArrivesWhole) {
  const v1::HostStatus status = Status(3 * 1024 * 1024);
  ASSERT_TRUE(link_->Send(status));
  ASSERT_FALSE(link_->drained());
  std::string got;
  const std::string wanted = Framed(status.SerializeAsString());
  ASSERT_TRUE(RunUntil([&] {
    char bytes[7001];
    const ssize_t n = recv(peer_, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n > 0) got.append(bytes, static_cast<size_t>(n));
    return got.size() >= wanted.size();
  }));
  EXPECT_EQ(got, wanted);
  EXPECT_TRUE(link_->drained());
}

TEST_F(FramedLinkTest, AGarbageLengthClosesTheLink) {
  ASSERT_EQ(write(peer_, "\xff\xff\xff\xff", 4), 4);
  ASSERT_TRUE(RunUntil([&] { return closed_.has_value(); }));
  EXPECT_NE(closed_->find("invalid data"), std::string::npos);
  EXPECT_FALSE(link_->open());
  EXPECT_FALSE(link_->Send(Status(1)));
}

TEST_F(FramedLinkTest, APeerThatNeverReadsClosesTheLink) {
  int sent = 0;
  while (link_->Send(Status(1024 * 1024)) && sent < 100) ++sent;
  EXPECT_GE(sent, 7);
  EXPECT_LE(sent, 10);
  ASSERT_TRUE(RunUntil([&] { return closed_.has_value(); }));
  EXPECT_NE(closed_->find("does not read"), std::string::npos);
}

TEST_F(FramedLinkTest, AMessageOverTheLimitIsRefused) {
  EXPECT_FALSE(link_->Send(Status(kMaxFrameBytes)));
  EXPECT_TRUE(RunUntil([&] { return closed_.has_value(); }));
}

TEST_F(FramedLinkTest, MessagesArriveAfterAFailedSend) {
  const std::string words = Framed("goodbye");
  ASSERT_EQ(write(peer_, words.data(), words.size()), static_cast<ssize_t>(words.size()));
  ClosePeer();
  EXPECT_FALSE(link_->Send(Status(10)));
  ASSERT_TRUE(RunUntil([&] { return closed_.has_value(); }));
  EXPECT_EQ(messages_, std::vector<std::string>{"goodbye"});
}

TEST_F(FramedLinkTest, AnUnfinishedMessageIsDroppedWhenThePeerCloses) {
  ASSERT_EQ(write(peer_, "\x08\x00\x00\x00half", 8), 8);
  ClosePeer();
  ASSERT_TRUE(RunUntil([&] { return closed_.has_value(); }));
  EXPECT_TRUE(messages_.empty());
}

TEST_F(FramedLinkTest, ACallbackMayDestroyTheLink) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  std::unique_ptr<FramedLink> doomed;
  int calls = 0;
  doomed = std::make_unique<FramedLink>(
      &loop_, pair[0],
      [&](std::string_view) {
        doomed.reset();
        ++calls;
      },
      [&](const std::string&) { ADD_FAILURE() << "nothing is called after the end"; });
  const std::string bytes = Framed("a") + Framed("b");
  ASSERT_EQ(write(pair[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  close(pair[1]);
  ASSERT_TRUE(RunUntil([&] { return calls > 0; }));
  EXPECT_EQ(calls, 1);
}

// Each message is answered with another one before the link reads on.
TEST_F(FramedLinkTest, APeerThatSendsWithoutEndDoesNotKeepTheLoop) {
  constexpr int kEndless = 100'000;
  int pair[2], messages = 0;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const std::string more = Framed("more");
  const auto send_more = [&] { ASSERT_EQ(write(pair[1], more.data(), more.size()), ssize_t(more.size())); };
  FramedLink link(
      &loop_, pair[0], [&](std::string_view) { ++messages < kEndless ? send_more() : void(); },
      [](const std::string&) {});
  send_more();
  loop_.After(absl::ZeroDuration(), [this] { loop_.Stop(); });
  loop_.Run();
  EXPECT_LT(messages, kEndless);
  EXPECT_TRUE(link.open());
  close(pair[1]);
}

}  // namespace
}  // namespace muster
