#include "base/io/local_door.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"

namespace muster {
namespace {

constexpr int kBacklog = 64;
constexpr uint32_t kListens = 0x10000;   // __SO_ACCEPTCON, in the table's column of flags
constexpr size_t kFlags = 3, kName = 7;  // columns

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
  const sockaddr* plain() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// An abstract name begins with a zero byte and is not terminated.
Address AddressOf(const std::string& name) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof(address.name.sun_path) - 1);
  std::memcpy(address.name.sun_path + 1, name.data(), bytes);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return address;
}

absl::StatusOr<OwnedFd> NewSocket() {
  OwnedFd made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.valid()) return absl::ErrnoToStatus(errno, "making a socket");
  return made;
}

std::optional<ucred> CredentialsOf(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

}  // namespace

absl::StatusOr<OwnedFd> ListenAtDoor(const std::string& name) {
  ASSIGN_OR_RETURN(OwnedFd listener, NewSocket());
  const Address address = AddressOf(name);
  if (bind(listener.get(), address.plain(), address.size) != 0) {
    if (errno == EADDRINUSE) return absl::AlreadyExistsError(absl::StrCat(name, " is another process's"));
    return absl::ErrnoToStatus(errno, absl::StrCat("bind to ", name));
  }
  if (listen(listener.get(), kBacklog) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("listen at ", name));
  return listener;
}

absl::StatusOr<OwnedFd> KnockAtDoor(const std::string& name) {
  ASSIGN_OR_RETURN(OwnedFd fd, NewSocket());
  const Address address = AddressOf(name);
  if (connect(fd.get(), address.plain(), address.size) != 0) {
    if (errno == EAGAIN) return absl::ResourceExhaustedError("too many others wait for it");
    return absl::UnavailableError("nobody listens there");
  }
  if (geteuid() != 0 && !IsOursOrRoots(fd.get()))
    return absl::PermissionDeniedError("another user's process listens there");
  return fd;
}

bool IsOursOrRoots(int socket) {
  const std::optional<ucred> peer = CredentialsOf(socket);
  return peer && (peer->uid == geteuid() || peer->uid == 0);
}

pid_t PeerOf(int socket) {
  const std::optional<ucred> peer = CredentialsOf(socket);
  return peer ? peer->pid : 0;
}

// A row of the table: "0000000000000000: 00000002 00000000 00010000 0001 01 12345 @muster/door/...".
std::vector<std::string> DoorsIn(std::string_view table, std::string_view prefix) {
  std::vector<std::string> names;
  for (const absl::string_view row : absl::StrSplit(AsAbsl(table), '\n')) {
    const std::vector<absl::string_view> columns = absl::StrSplit(row, ' ', absl::SkipEmpty());
    uint32_t flags = 0;
    if (columns.size() <= kName || !absl::SimpleHexAtoi(columns[kFlags], &flags) || (flags & kListens) == 0)
      continue;
    const std::string_view path = AsStd(columns[kName]);
    if (path.starts_with('@') && path.substr(1).starts_with(prefix)) names.emplace_back(path.substr(1));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> DoorsHere(std::string_view prefix) {
  std::ifstream file("/proc/net/unix");
  return DoorsIn(std::string(std::istreambuf_iterator<char>(file), {}), prefix);
}

}  // namespace muster
