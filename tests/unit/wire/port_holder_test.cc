// Who has a port: found in the kernel's tables and the descriptors of processes, and how long one tries to have
// it.
#include "agent/port_holder.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "agent/host/event_loop.h"
#include "agent/port_retry.h"

namespace muster::agent {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);  // a limit for a broken program, not a measure

constexpr char kForeign[] = "sleep";  // a program that is no muster

// A process of this name that listens on a port of loopback.
class Listener {
 public:
  explicit Listener(const char* name) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd, 1), 0);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    int ready[2];
    EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (name == kForeign) {
        fcntl(fd, F_SETFD, 0);
        execlp(kForeign, kForeign, "1000", nullptr);  // closes the pipe
      }
      prctl(PR_SET_NAME, name);
      (void)!write(ready[1], "x", 1);
      while (true) pause();
    }
    close(ready[1]);
    char byte = 0;
    (void)!read(ready[0], &byte, 1);  // a byte, or the end
    close(ready[0]);
    close(fd);  // the child alone has it now
  }
  ~Listener() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Listener(const Listener&) = delete;

  uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }

 private:
  uint16_t port_ = 0;
  pid_t pid_ = 0;
};

absl::Status InUse() { return absl::UnavailableError("listening on [::]:1: the port is in use"); }

TEST(PortHolder, AListenerIsFoundByItsPortWithPidAndName) {
  const Listener listener("muster-agent");
  const auto holder = FindPortHolder(listener.port(), kPatience);
  ASSERT_TRUE(holder.has_value());
  EXPECT_EQ(holder->pid, listener.pid());
  EXPECT_EQ(holder->name, "muster-agent");
  EXPECT_TRUE(holder->is_muster);
  EXPECT_TRUE(holder->listens);
}

TEST(PortHolder, APortThatNobodyHasHasNoHolder) {
  uint16_t port = 0;
  { port = Listener("other").port(); }
  EXPECT_FALSE(FindPortHolder(port, kPatience).has_value());
}

TEST(PortHolder, IsDescribedWithWhatToDo) {
  EXPECT_EQ(DescribePortHolder(PortHolder{71, "python3", false, true}),
            "process 71 (python3) has it: end it, or give all nodes another port");
  EXPECT_EQ(DescribePortHolder(PortHolder{71, "curl", false, false}),
            "process 71 (curl) has it for a connection of its own: end it, or give all nodes another port");
  EXPECT_NE(DescribePortHolder(std::nullopt).find("no process that can be seen from here"), std::string::npos);
}

TEST(PortRetry, AMusterIsWaitedForAsItMayBeEnding) {
  const Listener listener("muster-agent");
  PortRetry retry;
  const BootTime start = EventLoop::Now();
  EXPECT_FALSE(retry.OnFailure(start, InUse(), listener.port()).give_up);
  EXPECT_FALSE(retry.OnFailure(start + kForeignPortLimit, InUse(), listener.port()).give_up);
  EXPECT_TRUE(retry.OnFailure(start + kBindRetryLimit, InUse(), listener.port()).give_up);
}

TEST(PortRetry, AnotherProgramIsNotWaitedForForLong) {
  const Listener listener(kForeign);
  PortRetry retry;
  const BootTime start = EventLoop::Now();
  const auto first = retry.OnFailure(start, InUse(), listener.port());
  EXPECT_FALSE(first.give_up);
  EXPECT_EQ(first.why, "listening on [::]:1: the port is in use: process " + std::to_string(listener.pid()) +
                           " (sleep) has it: end it, or give all nodes another port");
  EXPECT_TRUE(retry.OnFailure(start + kForeignPortLimit, InUse(), listener.port()).give_up);
}

// A node that is no primary looks for the coordinator behind a port of its own machine: a tunnel may lead there.
TEST(PortRetry, WhatAnswersInThePlaceOfACoordinatorEndsTheSearchAndWhatDoesNotAnswerDoesNot) {
  const Listener listener(kForeign);
  PortRetry retry;
  const BootTime start = EventLoop::Now();
  const BootTime later = start + kBindRetryLimit;
  EXPECT_FALSE(retry.OnNoCoordinator(start, "no muster", true, listener.port()).give_up);
  EXPECT_FALSE(retry.OnNoCoordinator(later, "timed out", false, listener.port()).give_up);
  const auto last = retry.OnNoCoordinator(later, "no muster", true, listener.port());
  EXPECT_TRUE(last.give_up);
  EXPECT_EQ(last.why,
            "no muster; on this machine process " + std::to_string(listener.pid()) + " (sleep) has that port");
}

TEST(PortRetry, AnErrorThatDoesNotPassEndsItAtOnce) {
  const auto next = PortRetry().OnFailure(EventLoop::Now(), absl::PermissionDeniedError("not permitted"), 1);
  EXPECT_TRUE(next.give_up);
  EXPECT_EQ(next.why, "not permitted");
}

}  // namespace
}  // namespace muster::agent
