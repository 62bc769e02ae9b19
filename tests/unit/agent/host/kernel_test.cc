// Kernel behaviour that the host relies on: the timer that kills a stopped process, a kept port, OOM counters.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "agent/host/port_keeper.h"
#include "agent/host/watch/oom_watch.h"
#include "tests/unit/agent/host/host_shell_support.h"

namespace muster::host {
namespace {

TEST(BoundedCallTest, WithoutANewThreadTheCallRunsHere) {
  LinePipe pipe;
  const pid_t actor = SpawnActor({"threadless"}, pipe.in());
  ASSERT_GT(actor, 0);
  EXPECT_EQ(pipe.Line(), "called");
  waitpid(actor, nullptr, 0);
}

TEST(KernelTimerTest, AStoppedProcessIsKilled) {
  LinePipe pipe;
  const pid_t pid = SpawnActor({"timer", "100", "stop"}, pipe.in());
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST(KernelTimerTest, ADisarmedTimerKillsNobody) {
  LinePipe pipe;
  const pid_t pid = SpawnActor({"timer", "300", "disarm"}, pipe.in());
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
}

// A listener like that of worker 0's store; -1 if refused.
int Listen(uint16_t port, bool reuse) {
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = reuse ? 1 : 0;
  const int off = 0;
  setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  address.sin6_port = htons(port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && listen(fd, 8) == 0) return fd;
  close(fd);
  return -1;
}

uint16_t PortOf(int fd) {
  sockaddr_in6 address{};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

// Listens in a child, so that the listener belongs to another process. True if it could listen.
bool AnotherProcessListens(uint16_t port, bool reuse) {
  const pid_t pid = fork();
  if (pid == 0) _exit(Listen(port, reuse) >= 0 ? 0 : 1);
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(PortKeeperTest, AKeptPortServesWorkersAndNotStrangers) {
  PortKeeper keeper({});
  const auto port = keeper.Renew();
  ASSERT_TRUE(port.ok()) << port.status().ToString();
  ASSERT_NE(*port, 0);
  EXPECT_TRUE(AnotherProcessListens(*port, true));
  EXPECT_FALSE(AnotherProcessListens(*port, false));
}

// The first of two ports that are free beside each other.
uint16_t TwoFreePorts() {
  for (int i = 0; i < 1000; ++i) {
    PortKeeper scout({});
    const uint16_t port = *scout.Renew();
    scout.Drop();
    const int first = Listen(port, false), second = port < 65535 ? Listen(port + 1, false) : -1;
    for (int fd : {first, second}) {
      if (fd >= 0) close(fd);
    }
    if (first >= 0 && second >= 0) return port;
  }
  return 0;
}

TEST(PortKeeperTest, TwoKeepersNeverKeepTheSamePortOfARange) {
  const uint16_t low = TwoFreePorts();
  ASSERT_NE(low, 0);
  const PortRange range{low, static_cast<uint16_t>(low + 1)};
  for (int i = 0; i < 20; ++i) {  // each begins its search at a random port
    PortKeeper a(range), b(range);
    const auto first = a.Renew();
    const auto second = b.Renew();
    ASSERT_TRUE(first.ok() && second.ok());
    ASSERT_EQ(*first + *second, 2 * low + 1);
    b.Drop();
    const auto renewed = a.Renew();
    ASSERT_TRUE(renewed.ok());
    ASSERT_EQ(*renewed, *second);
  }
}

TEST(PortKeeperTest, ARangeOfOnePortIsReusedAndNamedIfTaken) {
  PortKeeper scout({});
  const uint16_t port = *scout.Renew();
  scout.Drop();
  PortKeeper keeper({port, port});
  ASSERT_TRUE(keeper.Renew().ok());
  ASSERT_TRUE(keeper.Renew().ok());
  EXPECT_EQ(keeper.port(), port);
  keeper.Drop();
  const int listener = Listen(port, true);
  ASSERT_GE(listener, 0);
  const auto refused = keeper.Renew();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().ToString().find(std::to_string(port)), std::string::npos) << refused.status();
  close(listener);
}

// A kept port would let the coordinator listen there too, and then worker 0 could not.
TEST(PortKeeperTest, TheCoordinatorsPortIsNeverKept) {
  const uint16_t low = TwoFreePorts();
  ASSERT_NE(low, 0);
  PortKeeper only({low, low, low});
  EXPECT_FALSE(only.Renew().ok());
  PortKeeper either({low, static_cast<uint16_t>(low + 1), low});
  for (int i = 0; i < 20; ++i) ASSERT_EQ(either.Renew().value_or(0), low + 1);
}

// In a network namespace with eight ports to give away: port 0 gives away seven of them and then none.
int CountPortsGivenAway() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return -1;
  std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40000 40007";
  PortKeeper keeper({});
  const auto kept = keeper.Renew();
  if (!kept.ok()) return -2;
  std::set<uint16_t> given;
  for (int i = 0; i < 64; ++i) {
    const int fd = Listen(0, i % 2 == 0);
    if (fd >= 0 && !given.insert(PortOf(fd)).second) return -3;
  }
  return given.count(*kept) > 0 ? -4 : static_cast<int>(given.size());
}

TEST(PortKeeperTest, PortZeroNeverHandsOutAKeptPort) {
  const pid_t pid = fork();
  if (pid == 0) _exit(CountPortsGivenAway() & 0xff);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 0xff) GTEST_SKIP() << "no network namespaces here";
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(OomWatchTest, BothKindsOfCounterFilesAreRead) {
  EXPECT_EQ(OomWatch::ParseCount("low 0\nhigh 0\nmax 4\noom 2\noom_kill 1\noom_group_kill 0\n"), 1u);
  EXPECT_EQ(OomWatch::ParseCount("oom_kill_disable 0\nunder_oom 0\noom_kill 12\n"), 12u);
  EXPECT_EQ(OomWatch::ParseCount(""), std::nullopt);
  EXPECT_EQ(OomWatch::ParseCount("garbage"), std::nullopt);
}

class CountedOomTest : public ::testing::Test {
 protected:
  CountedOomTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "muster-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    Count(3);
    watch_.emplace(Path());
  }
  ~CountedOomTest() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return folder_ / "memory.events"; }
  void Count(int kills) const { std::ofstream(Path()) << "oom " << kills << "\noom_kill " << kills << "\n"; }

  std::filesystem::path folder_;
  std::optional<OomWatch> watch_;
};

TEST_F(CountedOomTest, ACountedKillExplainsOneWorker) {
  EXPECT_FALSE(watch_->WasOomKilled(0));
  Count(4);
  EXPECT_TRUE(watch_->WasOomKilled(0));
  EXPECT_FALSE(watch_->WasOomKilled(1));
}

TEST_F(CountedOomTest, EarlierRoundsKillsExplainNoFailure) {
  Count(4);  // for example a DataLoader: its worker ended for another reason
  watch_->BeginRound();
  EXPECT_FALSE(watch_->WasOomKilled(0));
  Count(5);
  EXPECT_TRUE(watch_->WasOomKilled(0));
}

TEST_F(CountedOomTest, OurOwnKillIsNoOutOfMemoryKill) {
  Count(4);
  watch_->WeKill(0);
  EXPECT_FALSE(watch_->WasOomKilled(0));
  EXPECT_TRUE(watch_->WasOomKilled(1));
  Count(5);
  watch_->WeKillAll();
  EXPECT_FALSE(watch_->WasOomKilled(2));
  watch_->BeginRound();
  Count(6);
  EXPECT_TRUE(watch_->WasOomKilled(0));
}

}  // namespace
}  // namespace muster::host
