#include "base/io/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/sidecar.h"
#include "base/status_macros.h"

namespace muster {
namespace {

absl::StatusOr<OwnedFd> NewSocket() {
  OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "making a socket");
  return fd;
}

static_assert(sizeof(sockaddr_un::sun_path) == kMaxSocketPath + 1);

const sockaddr* Plain(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

}  // namespace

absl::StatusOr<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() > kMaxSocketPath) {
    return absl::InvalidArgumentError(
        absl::StrCat("a socket's path has 1 to ", kMaxSocketPath, " bytes, not ", path.size()));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<OwnedFd> ConnectToUnixSocket(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  ASSIGN_OR_RETURN(OwnedFd fd, NewSocket());
  if (connect(fd.get(), Plain(address), sizeof(address)) == 0) return fd;
  const int error = errno;
  const std::string what = absl::StrCat("cannot connect to ", path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(what);
  if (error == ECONNREFUSED) return absl::UnavailableError(what);
  if (error == EAGAIN) return absl::ResourceExhaustedError(what);
  return absl::FailedPreconditionError(what);
}

absl::StatusOr<OwnedFd> ListenOnUnixSocket(const std::string& path, mode_t mode, int backlog) {
  ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  ASSIGN_OR_RETURN(OwnedFd fd, NewSocket());
  if (bind(fd.get(), Plain(address), sizeof(address)) != 0) {
    if (errno == EADDRINUSE) return absl::AlreadyExistsError(absl::StrCat(path, " is there already"));
    return absl::ErrnoToStatus(errno, absl::StrCat("making ", path));
  }
  if (chmod(path.c_str(), mode) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("setting the mode of ", path));
  if (listen(fd.get(), backlog) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("listening on ", path));
  return fd;
}

}  // namespace muster
