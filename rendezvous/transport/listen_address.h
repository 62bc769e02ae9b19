// The addresses on which the coordinator listens, and its sockets there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io/owned_fd.h"

namespace muster::rendezvous {

struct ListenPlan {
  std::string host;  // the primary's IP address or name, from the job's spec
  uint16_t port = 0;
  bool loopback_only = false;  // the whole spec is loopback: other machines must not reach it
};

// "[::]:29400": all addresses of both families. For a loopback-only job the primary's own address (a socket bound
// to 127.0.0.1 does not answer on 127.0.0.2), or the loopback address of both families if the spec gives a name.
std::vector<std::string> ListenAddresses(const ListenPlan& plan);

// One socket of each family that another process holds, too: so the port is not free while this process is
// replaced by one that inherits them as well. -1: none.
struct InheritedSockets {
  int ipv4 = -1;
  int ipv6 = -1;
};

// Sockets that are bound to those of ListenAddresses() that this machine supports; it may lack a family. They are
// copies of the inherited ones, where those can be used. Unavailable: a port is in use. PermissionDenied,
// FailedPrecondition (no such address here): a retry does not help.
absl::StatusOr<std::vector<OwnedFd>> BindTo(const ListenPlan& plan, const InheritedSockets& inherited = {});

// Ends listening on them, in whichever process; they stay bound. No effect on those that do not listen.
void StopListening(const InheritedSockets& sockets);

}  // namespace muster::rendezvous
