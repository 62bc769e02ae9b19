// Unix sockets with a path. Any thread.
#pragma once

#include <sys/types.h>
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

// PermissionDenied: in a folder with a sticky bit (/tmp), the other end of this connection belongs to another
// user, who may have been there first.
absl::Status CheckListener(int fd, const std::string& path);

// Who may use a socket that is made there, beside this user and root: its group, if the group's members could put
// a socket of their own there anyway, as in a volume of a pod (fsGroup). Nobody in /tmp, or where the group may
// only read.
mode_t SocketModeAt(const std::string& path);

// Makes the socket with these permissions and listens on it. AlreadyExists: there is something at the path.
absl::StatusOr<OwnedFd> ListenOnUnixSocket(const std::string& path, mode_t mode, int backlog);

}  // namespace muster
