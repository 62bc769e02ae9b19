// Sockets by which a process answers questions of the same machine, without a file system, a port or a setting:
// abstract unix sockets. Every process of the same network namespace can connect to them, so each side looks at
// the other's user. Any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io/owned_fd.h"

namespace muster {

// Listens; nothing blocks on it. AlreadyExists: another process has the name.
absl::StatusOr<OwnedFd> ListenAtDoor(const std::string& name);

// Never blocks. Unavailable: nobody listens there; ResourceExhausted: too many others wait for it;
// PermissionDenied: a process of another user than root and this one listens. Root trusts every user here.
absl::StatusOr<OwnedFd> KnockAtDoor(const std::string& name);

// Whether the other end of this connection is a process of root or of this user.
bool IsOursOrRoots(int socket);
// The process that listened, or connected, at the other end; 0: it is in another namespace, or not known.
pid_t PeerOf(int socket);

// The names that begin so and at which some process listens, sorted.
std::vector<std::string> DoorsHere(std::string_view prefix);
// Those in the text of /proc/net/unix. Pure.
std::vector<std::string> DoorsIn(std::string_view table, std::string_view prefix);

}  // namespace muster
