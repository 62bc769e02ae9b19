// The coordinator in an agent's process: its port.
#include "agent/local_coordinator.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

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
    coordinator_.emplace(&loop_, first_, nullptr, [](const std::string&) {});
    return &*coordinator_;
  }

  OtherListener other_;
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

TEST_F(LocalCoordinatorTest, AJobOfOneNodeListensNowhere) {
  first_.mutable_config()->set_single_node(true);
  LocalCoordinator* coordinator = Make();
  coordinator->Serve();
  EXPECT_FALSE(coordinator->Listen(false).has_value());
  coordinator->Tick();
}

}  // namespace
}  // namespace muster::agent
