// The holder of a port, found in the kernel's tables and the descriptors of processes.
#include "base/proc/port_holder.h"

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

namespace muster {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);  // only a hang reaches it

constexpr char kForeign[] = "sleep";  // a program other than muster

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
    (void)!read(ready[0], &byte, 1);  // a byte, or end of file
    close(ready[0]);
    close(fd);  // now only the child has it
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

TEST(PortHolder, AListenerIsFoundByItsPortWithPidAndName) {
  const Listener listener("muster-agent");
  const auto holder = FindPortHolder(listener.port(), kPatience);
  ASSERT_TRUE(holder.has_value());
  EXPECT_EQ(holder->pid, listener.pid());
  EXPECT_EQ(holder->name, "muster-agent");
  EXPECT_TRUE(holder->is_muster);
  EXPECT_TRUE(holder->listens);
  EXPECT_TRUE(IsListenedOn(listener.port()));
}

TEST(PortHolder, AFreePortHasNoHolder) {
  uint16_t port = 0;
  { port = Listener("other").port(); }
  EXPECT_FALSE(FindPortHolder(port, kPatience).has_value());
  EXPECT_FALSE(IsListenedOn(port));
}

// As torch's store listens. Its port could be bound a second time, but for the listener.
TEST(PortHolder, AListenerThatLetsItsAddressBeReusedIsSeen) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_FALSE(IsListenedOn(ntohs(address.sin_port))) << "it is bound, and nobody listens";
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_TRUE(IsListenedOn(ntohs(address.sin_port)));
  close(fd);
}

TEST(PortHolder, AnotherProgramIsNoMuster) {
  const Listener listener(kForeign);
  const auto holder = FindPortHolder(listener.port(), kPatience);
  ASSERT_TRUE(holder.has_value());
  EXPECT_EQ(holder->name, kForeign);
  EXPECT_FALSE(holder->is_muster);
}

}  // namespace
}  // namespace muster
