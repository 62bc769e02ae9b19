#include "rendezvous/gate/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"

namespace muster::rendezvous {
namespace {

constexpr std::string_view kMappedPrefix = "::ffff:";
// The receive buffer of a connection that waits; the kernel doubles it, and takes the packet that crosses it as a
// whole.
constexpr int kWaitingBytes = 8 * 1024;

const sockaddr_in* AsV4(const SocketAddress& a) { return reinterpret_cast<const sockaddr_in*>(&a.storage); }
const sockaddr_in6* AsV6(const SocketAddress& a) { return reinterpret_cast<const sockaddr_in6*>(&a.storage); }

}  // namespace

std::optional<SocketAddress> ParseSocketAddress(const std::string& ip, uint16_t port) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET6, ip.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.size = sizeof(*v6);
  } else if (inet_pton(AF_INET, ip.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof(*v4);
  } else {
    return std::nullopt;
  }
  return address;
}

std::string IpOf(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool v4 = address.storage.ss_family == AF_INET;
  const void* const bytes = v4 ? static_cast<const void*>(&AsV4(address)->sin_addr)
                               : static_cast<const void*>(&AsV6(address)->sin6_addr);
  if (!v4 && address.storage.ss_family != AF_INET6) return "";
  inet_ntop(address.storage.ss_family, bytes, text, sizeof(text));
  const std::string_view shown = text;
  const bool mapped = shown.starts_with(kMappedPrefix) && shown.find('.') != std::string_view::npos;
  return std::string(mapped ? shown.substr(kMappedPrefix.size()) : shown);
}

std::optional<SocketAddress> ParseAddressAndPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string host(text.substr(0, colon));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  int port = 0;
  if (!absl::SimpleAtoi(AsAbsl(text.substr(colon + 1)), &port) || port < 0 || port > UINT16_MAX)
    return std::nullopt;
  return ParseSocketAddress(host, static_cast<uint16_t>(port));
}

uint16_t PortOf(const SocketAddress& address) {
  return ntohs(address.storage.ss_family == AF_INET ? AsV4(address)->sin_port : AsV6(address)->sin6_port);
}

void PrepareConnection(int fd, absl::Duration dead_after) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const auto limit_ms = static_cast<unsigned>(absl::ToInt64Milliseconds(dead_after));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
}

int ShrinkReceiveBuffer(int fd) {
  int before = 0;
  socklen_t size = sizeof(before);
  const int no_lock = 0;  // a buffer whose size was set does not grow by itself
  if (setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &no_lock, sizeof(no_lock)) != 0) return 0;
  if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &before, &size) != 0) return 0;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kWaitingBytes, sizeof(kWaitingBytes));
  return before;
}

void ReleaseReceiveBuffer(int fd, int before) {
  if (before == 0) return;
  const int half = before / 2, no_lock = 0;  // the kernel doubles it
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &half, sizeof(half));
  setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &no_lock, sizeof(no_lock));
}

absl::StatusOr<NamedPair> MakeNamedPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    return absl::ErrnoToStatus(errno, "making a pair of sockets");
  }
  NamedPair pair{.ours = OwnedFd(fds[0]), .theirs = OwnedFd(fds[1]), .name = ""};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Without a path the kernel chooses an abstract name.
  if (bind(fds[0], reinterpret_cast<const sockaddr*>(&address), sizeof(address.sun_family)) != 0) {
    return absl::ErrnoToStatus(errno, "naming a socket");
  }
  socklen_t size = sizeof(address);
  if (getsockname(fds[0], reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return absl::ErrnoToStatus(errno, "reading the name of a socket");
  }
  const size_t length = size - offsetof(sockaddr_un, sun_path) - 1;
  pair.name = absl::StrCat("unix-abstract:", absl::string_view(address.sun_path + 1, length));
  return pair;
}

}  // namespace muster::rendezvous
