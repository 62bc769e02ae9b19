#include "agent/host/port_keeper.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>

#include "base/core/status_macros.h"
#include "base/io/bound_port.h"

namespace muster::host {
namespace {

uint16_t BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const bool ipv6 = address.ss_family == AF_INET6;
  return ntohs(ipv6 ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                    : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// Binding without SO_REUSEADDR makes the reservation exclusive; with it, two keepers could get the same port. A
// shared bind is the fallback for a port on which connections of an earlier round linger. Returns a bound
// descriptor, or -1 with errno.
int Keep(uint16_t port, bool shared) { return BindPort(port, shared).Release(); }

}  // namespace

absl::StatusOr<uint16_t> PortKeeper::Renew() {
  const int fd = range_.low == 0 ? KeepAny() : KeepInRange();
  if (fd < 0) {
    const std::string range =
        range_.low == 0 ? "any" : std::to_string(range_.low) + ":" + std::to_string(range_.high);
    return absl::ErrnoToStatus(errno, AsAbsl("reserving a port for the workers (--worker-port: " + range + ")"));
  }
  Drop();
  fd_ = fd;
  port_ = BoundPort(fd);
  if (range_.low != 0) Share();
  return port_;
}

void PortKeeper::Share() {
  const int on = 1;
  setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

int PortKeeper::KeepAny() const {
  const int fd = Keep(0, false);
  if (fd < 0 || range_.except == 0 || BoundPort(fd) != range_.except) return fd;
  const int other = Keep(0, false);  // while the excepted port is held, so the kernel returns another
  const int error = errno;
  close(fd);
  errno = error;
  return other;
}

// The search starts at a random port, because several hosts of one machine may share a range.
int PortKeeper::KeepInRange() {
  const unsigned size = static_cast<unsigned>(range_.high) - range_.low + 1;
  const uint16_t before = port_;
  const unsigned usable = size - (range_.except >= range_.low && range_.except <= range_.high ? 1 : 0);
  if (usable == 1) Drop();
  const unsigned start = std::random_device{}() % size;
  errno = EADDRINUSE;  // in case the only port is the coordinator's
  for (const bool shared : {false, true}) {
    for (unsigned i = 0; i < size; ++i) {
      const auto port = static_cast<uint16_t>(range_.low + (start + i) % size);
      if (port == range_.except || (port == before && usable > 1)) continue;
      if (const int fd = Keep(port, shared); fd >= 0) return fd;
    }
  }
  return -1;
}

void PortKeeper::Drop() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  port_ = 0;
}

}  // namespace muster::host
