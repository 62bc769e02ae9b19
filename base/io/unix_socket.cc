#include "base/io/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/wire/sidecar.h"

namespace muster {
namespace {

absl::StatusOr<OwnedFd> NewSocket() {
  OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "making a socket");
  return fd;
}

constexpr mode_t kOwnMode = 0600;
constexpr mode_t kGroupMode = 0660;

absl::StatusOr<struct stat> FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("looking at ", folder));
  return info;
}

static_assert(sizeof(sockaddr_un::sun_path) == kMaxSocketPath + 1);

// The umask may have taken rights away. By now another process may have put something else there, in a folder
// where it may do that.
absl::Status SetMode(const std::string& path, mode_t mode) {
  const OwnedFd made(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!made.valid() || fstat(made.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("setting the mode of ", path));
  }
  if (!S_ISSOCK(info.st_mode) || info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(absl::StrCat("another process has just replaced ", path));
  }
  if ((info.st_mode & ALLPERMS) == mode) return absl::OkStatus();
  if (chmod(absl::StrCat("/proc/self/fd/", made.get()).c_str(), mode) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("setting the mode of ", path));
}

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

absl::Status CheckListener(int fd, const std::string& path) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("asking who listens at ", path));
  }
  const absl::StatusOr<struct stat> folder = FolderOf(path);
  const bool sticky = folder.ok() && (folder->st_mode & S_ISVTX) != 0;
  if (!sticky || peer.uid == geteuid() || peer.uid == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("another user (uid ", peer.uid, ") listens at ", path,
                                                  ", in a folder for everybody: use a folder of your own"));
}

mode_t SocketModeAt(const std::string& path) {
  const absl::StatusOr<struct stat> folder = FolderOf(path);
  if (!folder.ok() || (folder->st_mode & S_ISVTX) != 0) return kOwnMode;
  const gid_t group = (folder->st_mode & S_ISGID) != 0 ? folder->st_gid : getegid();  // of a new file there
  const bool group_writes = (folder->st_mode & S_IWGRP) != 0 && folder->st_gid == group;
  return group_writes || (folder->st_mode & S_IWOTH) != 0 ? kGroupMode : kOwnMode;
}

absl::StatusOr<OwnedFd> ListenOnUnixSocket(const std::string& path, mode_t mode, int backlog) {
  ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  ASSIGN_OR_RETURN(OwnedFd fd, NewSocket());
  fchmod(fd.get(), mode);  // so that it never has more rights than these
  if (bind(fd.get(), Plain(address), sizeof(address)) != 0) {
    if (errno == EADDRINUSE) return absl::AlreadyExistsError(absl::StrCat(path, " is there already"));
    return absl::ErrnoToStatus(errno, absl::StrCat("making ", path));
  }
  RETURN_IF_ERROR(SetMode(path, mode));
  if (listen(fd.get(), backlog) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("listening on ", path));
  return fd;
}

}  // namespace muster
