// Unix sockets with a path. Any thread.
#pragma once

#include <sys/un.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/owned_fd.h"

namespace muster {

// InvalidArgument: the path is empty, or longer than the kernel allows (107 bytes).
absl::StatusOr<sockaddr_un> UnixAddress(const std::string& path);

// Neither blocks nor waits. NotFound: there is no socket; Unavailable: nobody listens on it; ResourceExhausted:
// too many wait there.
absl::StatusOr<OwnedFd> ConnectToUnixSocket(const std::string& path);

// Makes the socket with these permissions and listens on it. AlreadyExists: there is something at the path.
absl::StatusOr<OwnedFd> ListenOnUnixSocket(const std::string& path, mode_t mode, int backlog);

}  // namespace muster
