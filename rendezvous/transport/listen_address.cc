#include "rendezvous/transport/listen_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "rendezvous/gate/tcp.h"

namespace muster::rendezvous {
namespace {

constexpr char kAnyAddress[] = "::";
constexpr char kAnyAddress4[] = "0.0.0.0";

bool IsLiteral(int family, const std::string& host) {
  unsigned char buffer[sizeof(in6_addr)];
  return inet_pton(family, host.c_str(), buffer) == 1;
}

std::string Join(const std::string& host, uint16_t port) {
  const std::string bracketed = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return bracketed + ":" + std::to_string(port);
}

absl::Status BindError(std::string_view address, int error) {
  const std::string where = "cannot listen on " + std::string(address) + ": ";
  switch (error) {
    case EADDRINUSE:
      return absl::UnavailableError(where + "the port is in use");
    case EACCES:
      return absl::PermissionDeniedError(where + "not permitted");
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(where + std::strerror(error));
    default:
      return absl::FailedPreconditionError(where + std::strerror(error));
  }
}

// By the process before this one, for the same job.
bool IsBoundTo(int fd, const SocketAddress& where) {
  SocketAddress own;
  own.size = sizeof(own.storage);
  return getsockname(fd, own.get(), &own.size) == 0 && PortOf(own) != 0 && PortOf(own) == PortOf(where);
}

absl::StatusOr<OwnedFd> BindOne(const std::string& address, const InheritedSockets& inherited) {
  const std::optional<SocketAddress> where = ParseAddressAndPort(address);
  MUSTER_CHECK(where.has_value(), "addresses to listen on are IP addresses");
  const int family = where->storage.ss_family;
  const int given = family == AF_INET ? inherited.ipv4 : inherited.ipv6;
  OwnedFd fd(given >= 0 ? fcntl(given, F_DUPFD_CLOEXEC, 0)
                        : socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return BindError(address, errno);
  if (given >= 0 && IsBoundTo(given, *where)) return fd;
  const int on = 1, off = 0;
  // Ignores sockets in TIME_WAIT. With SO_REUSEPORT two coordinators would share one port without an error.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(fd.get(), where->get(), where->size) != 0) return BindError(address, errno);
  return fd;
}

}  // namespace

std::vector<std::string> ListenAddresses(const ListenPlan& plan) {
  if (!plan.loopback_only) return {Join(kAnyAddress, plan.port)};
  if (IsLiteral(AF_INET, plan.host) || IsLiteral(AF_INET6, plan.host)) return {Join(plan.host, plan.port)};
  return {Join("127.0.0.1", plan.port), Join("::1", plan.port)};
}

absl::StatusOr<std::vector<OwnedFd>> BindTo(const ListenPlan& plan, const InheritedSockets& inherited) {
  std::vector<std::string> candidates = ListenAddresses(plan);
  if (!plan.loopback_only) candidates.push_back(Join(kAnyAddress4, plan.port));
  std::vector<OwnedFd> bound;
  absl::Status lacking;
  for (const std::string& address : candidates) {
    absl::StatusOr<OwnedFd> fd = BindOne(address, inherited);
    if (fd.ok()) {
      bound.push_back(*std::move(fd));
      if (!plan.loopback_only) break;  // "::" covers both families
    } else if (absl::IsFailedPrecondition(fd.status())) {
      lacking = fd.status();
    } else {
      return fd.status();
    }
  }
  if (bound.empty()) return lacking;
  return bound;
}

// shutdown() of a socket that does not listen would mark it, and all that it accepts later, as shut down.
void StopListening(const InheritedSockets& sockets) {
  for (const int fd : {sockets.ipv4, sockets.ipv6}) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    const bool known = fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0;
    if (known && listens != 0) shutdown(fd, SHUT_RD);
  }
}

}  // namespace muster::rendezvous
