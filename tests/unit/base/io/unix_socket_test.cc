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
