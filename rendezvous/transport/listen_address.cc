#include "rendezvous/transport/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/io/owned_fd.h"
#include "base/status_macros.h"
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

}  // namespace

std::vector<std::string> ListenAddresses(const ListenPlan& plan) {
  if (!plan.loopback_only) return {Join(kAnyAddress, plan.port)};
  if (IsLiteral(AF_INET, plan.host) || IsLiteral(AF_INET6, plan.host)) return {Join(plan.host, plan.port)};
  return {Join("127.0.0.1", plan.port), Join("::1", plan.port)};
}

absl::Status TryBind(std::string_view address) {
  const std::optional<SocketAddress> where = ParseAddressAndPort(address);
  if (!where.has_value()) {
    return absl::InvalidArgumentError("cannot listen on " + std::string(address) + ": not an address and port");
  }
  const OwnedFd fd(socket(where->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return BindError(address, errno);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // like the gate, ignores sockets in TIME_WAIT
  return bind(fd.get(), where->get(), where->size) == 0 ? absl::OkStatus() : BindError(address, errno);
}

absl::StatusOr<std::vector<std::string>> UsableAddresses(const ListenPlan& plan) {
  std::vector<std::string> candidates = ListenAddresses(plan);
  if (!plan.loopback_only) candidates.push_back(Join(kAnyAddress4, plan.port));
  std::vector<std::string> usable;
  absl::Status lacking;
  for (const std::string& address : candidates) {
    absl::Status status = TryBind(address);
    if (status.ok()) {
      usable.push_back(address);
      if (!plan.loopback_only) break;  // "::" covers both families
    } else if (absl::IsFailedPrecondition(status)) {
      lacking = status;
    } else {
      return status;
    }
  }
  if (usable.empty()) return lacking;
  return usable;
}

}  // namespace muster::rendezvous
