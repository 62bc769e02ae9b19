// Where the coordinator listens, and whether it can.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::rendezvous {

struct ListenPlan {
  std::string host;  // the primary's, as the spec says it: a literal or a name
  uint16_t port = 0;
  bool loopback_only = false;  // the whole spec is loopback: nothing else may reach us
};

// "[::]:29400" and its like: all addresses of both families; or, of a loopback-only job, the primary's own address
// (a bind to 127.0.0.1 does not answer on 127.0.0.2), both families' for a name.
std::vector<std::string> ListenAddresses(const ListenPlan& plan);

// Tries a bind and gives it up again, since gRPC does not tell why it could not. Unavailable: the port is in use.
// InvalidArgument, PermissionDenied, FailedPrecondition (no such address here): trying again does not help.
absl::Status TryBind(std::string_view address);

// Those of ListenAddresses that this machine has: it may lack one of the families. Unavailable: a port is in use.
absl::StatusOr<std::vector<std::string>> UsableAddresses(const ListenPlan& plan);

}  // namespace muster::rendezvous
