#include "agent/process/agent_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"
#include "base/io/framed_link.h"
#include "muster/v1/host.pb.h"
#include "tests/unit/rendezvous/transport/wire_fixture.h"

namespace muster::agent {
namespace {

constexpr uid_t kOrdinaryUser = 54'321;

// As a program that this user has started: whoever changes its user is private by that alone.
void BecomeUser(uid_t user) {
  MUSTER_CHECK(setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0, "root may be anybody");
  prctl(PR_SET_DUMPABLE, 1);
}

// Whether another process of this user can read that one's memory.
bool CanRead(uid_t user, pid_t pid) {
  const pid_t reader = fork();
  if (reader == 0) {
    BecomeUser(user);
    _exit(open(absl::StrCat("/proc/", pid, "/mem").c_str(), O_RDONLY | O_CLOEXEC) >= 0 ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(reader, &status, 0), reader);
  return status == 0;
}

// A forked agent process whose host is this test: host_pid is this test's, and the agent never has a reason to
// kill it.
class AgentProcessTest : public ::testing::Test {
 protected:
  // user: as which the agent runs; 0: as this process.
  explicit AgentProcessTest(uid_t user = 0, bool by_sidecar = false) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    pid_ = fork();  // before this process has a second thread
    if (pid_ == 0) {
      close(ends[0]);
      if (user != 0) BecomeUser(user);
      _exit(RunAgent({.fd = ends[1], .by_sidecar = by_sidecar}));
    }
    close(ends[1]);
    link_ = std::make_unique<FramedLink>(
        &loop_, ends[0],
        [this](std::string_view payload) {
          ASSERT_TRUE(directive_.ParseFromArray(payload.data(), static_cast<int>(payload.size())));
          if (directive_.has_start()) return loop_.Stop();
          // Like a host: reports what it has stored and applied.
          *status_.mutable_memory() = directive_.memory();
          status_.set_applied_seq(directive_.seq());
          status_.clear_config();
          Tell();
        },
        [](const std::string&) {});
    status_.set_host_id("host");
    status_.set_agent_number(1);
    status_.set_seq(1);
    status_.set_host_pid(getpid());
    status_.set_offer_port(4242);
    status_.mutable_memory()->set_joined_boot_ns(ToBootNanos(EventLoop::Now()));
    v1::NodeConfig* config = status_.mutable_config();
    config->set_run_id("run");
    config->set_role(v1::ROLE_TRAINER);
    config->set_min_nodes(1);
    config->set_max_nodes(1);
    config->set_slots(2);
    config->set_serves(v1::NodeConfig::SERVES_YES);
    config->mutable_primary()->set_host("127.0.0.1");
    config->set_loopback_only(true);
    config->set_lease_ms(10'000);
    config->set_join_timeout_ms(60'000);
    config->set_rejoin_timeout_ms(60'000);
    config->set_coordinator_timeout_ms(60'000);
    config->set_reconnect_grace_ms(2'000);
    config->set_shutdown_grace_ms(1'000);
  }
  ~AgentProcessTest() override {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void Tell() {
    status_.set_seq(status_.seq() + 1);
    EXPECT_TRUE(link_->Send(status_));
  }
  void ExpectStartOfRoundOne() {
    Tell();
    loop_.After(rendezvous::kPatience, [this] { loop_.Stop(); });
    loop_.Run();
    ASSERT_TRUE(directive_.has_start());
    EXPECT_EQ(directive_.start().world_size(), 2);
    EXPECT_EQ(directive_.start().master().host(), "127.0.0.1");
    EXPECT_EQ(directive_.start().master().port(), 4242u);
  }

  EventLoop loop_;
  pid_t pid_ = 0;
  std::unique_ptr<FramedLink> link_;
  v1::HostStatus status_;
  v1::HostDirective directive_;
};

TEST_F(AgentProcessTest, ASingleNodeJobStartsItsRound) {
  status_.mutable_config()->set_single_node(true);
  ExpectStartOfRoundOne();
}

TEST_F(AgentProcessTest, APrimaryWithoutOthersStartsItsRound) { ExpectStartOfRoundOne(); }

TEST_F(AgentProcessTest, AnUnwatchableHostIsNotTakenForDead) {
  status_.set_host_pid(-1);  // pidfd_open(2) refuses it, which proves no death
  Tell();
  int status = 0;
  ASSERT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = 0;
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 70);
}

class OrdinaryUsersAgentTest : public AgentProcessTest {
 protected:
  OrdinaryUsersAgentTest() : AgentProcessTest(getuid() == 0 ? kOrdinaryUser : 0) {
    status_.mutable_config()->set_single_node(true);
  }
  void SetUp() override {
    if (getuid() != 0) GTEST_SKIP() << "only root can start processes of another user";
  }
};

// It has received nothing yet: what has a secret was private before.
TEST_F(OrdinaryUsersAgentTest, IsPrivateBeforeItKnowsOfASecret) {
  EXPECT_TRUE(rendezvous::RunUntil(&loop_, [this] { return !CanRead(kOrdinaryUser, pid_); }));
}

TEST_F(OrdinaryUsersAgentTest, StaysPrivateIfTheJobHasAToken) {
  status_.mutable_config()->add_tokens("a-token-of-more-than-22-characters");
  ExpectStartOfRoundOne();
  EXPECT_FALSE(CanRead(kOrdinaryUser, pid_));
}

TEST_F(OrdinaryUsersAgentTest, CanBeLookedAtIfTheJobHasNoSecret) {
  ExpectStartOfRoundOne();
  EXPECT_TRUE(CanRead(kOrdinaryUser, pid_));
}

// What a host says decides neither whether the agent of a sidecar shows the sidecar's token, nor to whom.
class SidecarsAgentTest : public AgentProcessTest {
 protected:
  SidecarsAgentTest() : AgentProcessTest(0, true) {}
};

TEST_F(SidecarsAgentTest, DoesNotUseTheHostsCredentials) {
  status_.mutable_config()->set_split(false);
  status_.mutable_config()->mutable_certificates()->set_cert_file("/missing");  // would end it with 70
  ExpectStartOfRoundOne();
}

}  // namespace
}  // namespace muster::agent
