// A port that is kept for the workers: they can listen on it, and nobody else gets it.
#include "agent/host/port_keeper.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <set>

namespace muster::host {
namespace {

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

TEST(PortKeeperTest, NobodyGetsAPortBeforeTheWorkersStart) {
  PortKeeper keeper({});
  const auto port = keeper.Renew();
  ASSERT_TRUE(port.ok()) << port.status().ToString();
  ASSERT_NE(*port, 0);
  EXPECT_FALSE(AnotherProcessListens(*port, true));
  keeper.Share();
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

}  // namespace
}  // namespace muster::host
