// The coordinator in an agent's process: its port.
#include "agent/process/local_coordinator.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/io/owned_fd.h"

namespace muster::agent {
namespace {

using rendezvous::OwnPort;

// Another process that listens on a free port of 127.0.0.1.
class OtherListener {
 public:
  OtherListener() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd, 8), 0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    pid_ = fork();
    if (pid_ == 0) {
      while (true) pause();
    }
    close(fd);
  }
  ~OtherListener() { End(); }
  void End() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  uint16_t port() const { return port_; }

 private:
  pid_t pid_ = 0;
  uint16_t port_ = 0;
};

class LocalCoordinatorTest : public ::testing::Test {
 protected:
  LocalCoordinatorTest() {
    first_.set_host_id("host");
    v1::NodeConfig* config = first_.mutable_config();
    config->set_run_id("run");
    config->set_min_nodes(2);
    config->set_max_nodes(2);
    config->set_slots(1);
    config->set_lease_ms(10'000);
    config->set_serves(v1::NodeConfig::SERVES_IF_LOCAL);
    config->mutable_primary()->set_host("127.0.0.1");
    config->mutable_primary()->set_port(other_.port());
    config->set_loopback_only(true);
  }
  LocalCoordinator* Make() {
    coordinator_.emplace(&loop_, first_, Inherit(), nullptr, [](const std::string&) {});
    return &*coordinator_;
  }
  // Copies of the host's sockets, which it keeps.
  rendezvous::InheritedSockets Inherit() const {
    return {.ipv4 = fcntl(ipv4_.get(), F_DUPFD_CLOEXEC, 0), .ipv6 = fcntl(ipv6_.get(), F_DUPFD_CLOEXEC, 0)};
  }
  absl::StatusCode PortForOthers() const {
    return rendezvous::BindTo({"127.0.0.1", other_.port(), true}).status().code();
  }
  // An errno; 0: connected, and the connection stays open.
  int Connect() const {
    const OwnedFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(other_.port());
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return errno;
    char byte = 0;
    const bool is_open = recv(fd.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
    return is_open ? 0 : ECONNRESET;
  }

  OtherListener other_;
  const OwnedFd ipv4_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  const OwnedFd ipv6_{socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  EventLoop loop_;

  v1::HostStatus first_;
  std::optional<LocalCoordinator> coordinator_;
};

TEST_F(LocalCoordinatorTest, AFreePortIsClaimedOnce) {
  other_.End();
  LocalCoordinator* coordinator = Make();
  EXPECT_TRUE(coordinator->ClaimPort());
  EXPECT_FALSE(coordinator->Listen(false).has_value());
  coordinator->Tick();
  EXPECT_FALSE(coordinator->HasRemoteMembers());
}

TEST_F(LocalCoordinatorTest, AUsedPortBelongsToThePrimary) {
  LocalCoordinator* coordinator = Make();
  EXPECT_FALSE(coordinator->ClaimPort());
  EXPECT_FALSE(coordinator->Listen(false).has_value());  // this process serves nobody
  const auto next = coordinator->AfterFailure("no answer", 0, OwnPort::kUsed);
  EXPECT_NE(next.why.find("no answer; on this machine that port is used by "), std::string::npos) << next.why;
  EXPECT_EQ(next.exit_code, 0);
  EXPECT_EQ(coordinator->AfterFailure("refused", 77, OwnPort::kUsed).why, "refused");
  EXPECT_EQ(coordinator->AfterFailure("no answer", 0, OwnPort::kNone).why, "no answer");
}

TEST_F(LocalCoordinatorTest, ThePrimaryRetriesItsPort) {
  LocalCoordinator* coordinator = Make();
  coordinator->Serve();
  const auto next = coordinator->Listen(true);
  ASSERT_TRUE(next.has_value());
  EXPECT_NE(next->why.find(" is used by "), std::string::npos) << next->why;
  EXPECT_EQ(next->exit_code, 0);
  other_.End();
  EXPECT_FALSE(coordinator->Listen(true).has_value());
}

// The next agent listens on it, on any address, too.
TEST_F(LocalCoordinatorTest, TheHostKeepsThePortBetweenTwoAgents) {
  other_.End();
  first_.mutable_memory()->set_served(true);
  for (const bool loopback_only : {true, false}) {
    first_.mutable_config()->set_loopback_only(loopback_only);
    Make()->Serve();
    EXPECT_FALSE(coordinator_->Listen(false).has_value());
    coordinator_.reset();
    EXPECT_EQ(PortForOthers(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(Connect(), 0) << "it waits for the next agent";
    Make()->Serve();
    EXPECT_FALSE(coordinator_->Listen(true).has_value());
    coordinator_->GiveUpPort();
    EXPECT_EQ(PortForOthers(), absl::StatusCode::kOk);
    EXPECT_EQ(Connect(), ECONNREFUSED);
    coordinator_.reset();
  }
}

// The agent before it died before its host knew that it serves: a connection would wait for ever.
TEST_F(LocalCoordinatorTest, AMemberListensOnNoKeptSocket) {
  other_.End();
  Make()->ClaimPort();
  coordinator_.reset();
  EXPECT_EQ(Connect(), 0);
  Make();
  EXPECT_EQ(Connect(), ECONNREFUSED);
  EXPECT_TRUE(coordinator_->ClaimPort());
}

TEST_F(LocalCoordinatorTest, AJobOfOneNodeListensNowhere) {
  first_.mutable_config()->set_single_node(true);
  LocalCoordinator* coordinator = Make();
  coordinator->Serve();
  EXPECT_FALSE(coordinator->Listen(false).has_value());
  coordinator->Tick();
}

}  // namespace
}  // namespace muster::agent
