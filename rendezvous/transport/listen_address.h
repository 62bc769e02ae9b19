// The addresses on which the coordinator listens, and whether it can.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::rendezvous {

struct ListenPlan {
  std::string host;  // the primary's IP address or name, from the job's spec
  uint16_t port = 0;
  bool loopback_only = false;  // the whole spec is loopback: other machines must not reach it
};

// "[::]:29400": all addresses of both families. For a loopback-only job the primary's own address (a socket bound
// to 127.0.0.1 does not answer on 127.0.0.2), or the loopback address of both families if the spec gives a name.
std::vector<std::string> ListenAddresses(const ListenPlan& plan);

// Binds the address and closes it again: whether the gate could listen there. Unavailable: the port is in use.
// InvalidArgument, PermissionDenied, FailedPrecondition (no such address here): a retry does not help.
absl::Status TryBind(std::string_view address);

// Those of ListenAddresses() that this machine supports; it may lack a family. Unavailable: a port is in use.
absl::StatusOr<std::vector<std::string>> UsableAddresses(const ListenPlan& plan);

}  // namespace muster::rendezvous
