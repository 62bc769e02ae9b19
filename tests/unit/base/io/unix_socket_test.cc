// Sockets at a path that is free, in use, left over, or impossible.
#include "base/io/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace muster {
namespace {

class UnixSocketTest : public testing::Test {
 protected:
  UnixSocketTest() {
    std::string pattern = "/tmp/muster-test-XXXXXX";  // not TempDir(), which may be too long for a socket
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/socket";
  }
  ~UnixSocketTest() override {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }

  absl::StatusOr<OwnedFd> Listen() { return ListenOnUnixSocket(path_, 0660, 4); }

  std::string folder_, path_;
};

TEST_F(UnixSocketTest, AListenerIsReachedAndHasItsMode) {
  const absl::StatusOr<OwnedFd> listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(ConnectToUnixSocket(path_).ok());
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0660u);
}

TEST_F(UnixSocketTest, TheGroupIsLetInWhereItMayPutASocketItself) {
  const auto mode_in = [this](mode_t folder) {
    EXPECT_EQ(chmod(folder_.c_str(), folder), 0);
    return SocketModeAt(path_);
  };
  EXPECT_EQ(mode_in(0700), 0600u);
  EXPECT_EQ(mode_in(0755), 0600u) << "of a home folder";
  EXPECT_EQ(mode_in(01777), 0600u) << "/tmp";
  EXPECT_EQ(mode_in(0777), 0660u) << "a volume of a pod";
  EXPECT_EQ(mode_in(02770), 0660u) << "the same with an fsGroup";
  EXPECT_EQ(SocketModeAt("/missing/socket"), 0600u);
}

TEST_F(UnixSocketTest, ItsModeIsNotGivenToALinksTarget) {
  const std::string target = folder_ + "/target";
  { ASSERT_TRUE(Listen().ok()); }
  std::filesystem::rename(path_, target);
  ASSERT_EQ(chmod(target.c_str(), 0600), 0);
  ASSERT_EQ(symlink("target", path_.c_str()), 0);
  EXPECT_EQ(Listen().status().code(), absl::StatusCode::kAlreadyExists);
  struct stat info {};
  ASSERT_EQ(stat(target.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  unlink(target.c_str());
}

TEST_F(UnixSocketTest, InAStickyFolderAnotherUsersListenerIsNoPeer) {
  const absl::StatusOr<OwnedFd> listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  const absl::StatusOr<OwnedFd> ours = ConnectToUnixSocket(path_);
  ASSERT_TRUE(ours.ok()) << ours.status();
  ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  EXPECT_TRUE(CheckListener(ours->get(), path_).ok());
  if (seteuid(104'243) != 0) GTEST_SKIP() << "only root";
  ASSERT_EQ(unlink(path_.c_str()), -1);
  ASSERT_EQ(seteuid(0), 0);
  unlink(path_.c_str());
  ASSERT_EQ(seteuid(104'243), 0);
  const absl::StatusOr<OwnedFd> theirs = ListenOnUnixSocket(path_, 0600, 4);
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  const absl::StatusOr<OwnedFd> fooled = ConnectToUnixSocket(path_);
  ASSERT_TRUE(fooled.ok()) << fooled.status();
  EXPECT_TRUE(absl::IsPermissionDenied(CheckListener(fooled->get(), path_)));
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  EXPECT_TRUE(CheckListener(fooled->get(), path_).ok()) << "in a pod's volume the two users may differ";
}

TEST_F(UnixSocketTest, AMissingSocketIsNotFound) {
  EXPECT_EQ(ConnectToUnixSocket(path_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(UnixSocketTest, ASocketThatNobodyListensOnIsUnavailable) {
  { ASSERT_TRUE(Listen().ok()); }
  EXPECT_EQ(ConnectToUnixSocket(path_).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Listen().status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(UnixSocketTest, ATooLongPathIsRefused) {
  const std::string longest(sizeof(sockaddr_un::sun_path) - 1, 'x');
  EXPECT_TRUE(UnixAddress(longest).ok());
  EXPECT_EQ(UnixAddress(longest + "x").status().message(), "a socket's path has 1 to 107 bytes, not 108");
  EXPECT_FALSE(UnixAddress("").ok());
}

}  // namespace
}  // namespace muster
