#include "agent/host/preload/bootstrap.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "agent/host/preload/messages.h"
#include "base/io/event_loop.h"
#include "tests/unit/python_archive.h"

namespace muster::host {
namespace {

TEST(BootstrapArchive, HoldsTheFilesOfTheRepository) {
  const auto archive = BootstrapArchive();
  ASSERT_TRUE(archive.ok());
  EXPECT_EQ(Python("import pathlib, sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); "
                   "folder = pathlib.Path('" MUSTER_SOURCE_DIR "/agent/host/preload/python'); "
                   "assert {n: z.read(n) for n in z.namelist()} == "
                   "{str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob('*.py')}",
                   *archive),
            0);
}

class MessagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    ours_ = OwnedFd(fds[0]);
    theirs_ = OwnedFd(fds[1]);
  }
  OwnedFd ours_, theirs_;
};

TEST_F(MessagesTest, FieldsArriveAsTheyWereSent) {
  const std::vector<std::string> fields = {"kind", "", "a b\n", std::string(20'000, 'x')};
  ASSERT_TRUE(SendMessage(ours_.get(), fields, {}).ok());
  const auto received = ReceiveMessage(theirs_.get(), EventLoop::Now());
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(*received, fields);
}

TEST_F(MessagesTest, SilenceEndsWithItsTimeAndAClosedEndAtOnce) {
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(ReceiveMessage(theirs_.get(), EventLoop::Now() + absl::Milliseconds(1)).status()));
  ours_.Reset();
  EXPECT_TRUE(absl::IsUnavailable(ReceiveMessage(theirs_.get(), absl::InfiniteFuture()).status()));
}

TEST(JoinTexts, EachIsEndedByAZeroByte) {
  EXPECT_EQ(JoinTexts({"a", "", "b"}), std::string("a\0\0b\0", 5));
  EXPECT_EQ(JoinTexts({}), "");
}

}  // namespace
}  // namespace muster::host
