#include "base/io/bound_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace muster {
namespace {

bool BindAny(int fd, bool ipv6, uint16_t port) {
  if (ipv6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    address.sin6_port = htons(port);
    return bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(port);
  return bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

OwnedFd BindOn(bool ipv6, uint16_t port, bool shared) {
  OwnedFd fd(socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fd;
  const int on = 1, off = 0;
  if (ipv6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (shared) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (BindAny(fd.get(), ipv6, port)) return fd;
  const int error = errno;
  fd.Reset();
  errno = error;
  return fd;
}

}  // namespace

OwnedFd BindPort(uint16_t port, bool shared) {
  OwnedFd fd = BindOn(true, port, shared);
  // Falls back to IPv4 if the machine has no IPv6, or has it disabled, which shows only at bind().
  if (fd.valid() || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)) return fd;
  return BindOn(false, port, shared);
}

}  // namespace muster
