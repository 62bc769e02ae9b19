// Who has rank 0's port in its place. test_worker_failure.py shows it with another process.
#include "agent/host/process/taken_port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::host {
namespace {

// A DataLoader's worker, say, which has inherited the socket of rank 0's store.
TEST(TakenPortTest, AChildThatListensHasNotTakenIt) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(listen(fd, 1), 0);
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pause();  // until it is killed
    _exit(0);
  }
  close(fd);
  EXPECT_EQ(WhoTook(ntohs(address.sin_port)), "");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace muster::host
