#include "base/io/whole_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io/owned_fd.h"
#include "base/io/read_to_end.h"
#include "base/status_macros.h"

namespace muster {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel allows
constexpr mode_t kFileMode = 0644;

// What a path leads to: a name in a folder. The name is no link.
struct Place {
  OwnedFd folder;
  std::string name;
  bool there = false;
  mode_t mode = 0;               // of what is there
  uid_t owner = 0;               // of what is there
  bool is_open_file = false;     // or it is a link of /proc, which leads to an open file and not to a name
  bool is_foreign_link = false;  // or it is a link that another user owns
};

absl::Status Fault(const std::string& doing, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(doing, " ", path));
}

bool IsTrusted(uid_t owner) { return owner == geteuid() || owner == 0; }

absl::Status OfAnother(const std::string& path, uid_t owner) {
  return absl::PermissionDeniedError(absl::StrCat(path, " belongs to another user (uid ", owner, ")"));
}

bool IsInProc(int folder) {
  struct statfs about {};
  return fstatfs(folder, &about) == 0 && about.f_type == PROC_SUPER_MAGIC;
}

bool IsSticky(int folder) {
  struct stat info {};
  return fstat(folder, &info) == 0 && (info.st_mode & S_ISVTX) != 0;
}

// Goes from the folder `from` one step along the path; the result's name may be a link.
absl::StatusOr<Place> Step(int from, const std::string& rest, const std::string& path) {
  const size_t slash = rest.rfind('/');
  const bool here = slash == std::string::npos;
  Place place;
  place.name = here ? rest : rest.substr(slash + 1);
  place.folder.Reset(
      openat(from, here ? "." : rest.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place.folder.valid()) return Fault("opening the folder of", path);
  struct stat info {};
  place.there = fstatat(place.folder.get(), place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (!place.there && errno != ENOENT) return Fault("looking at", path);
  place.mode = info.st_mode;
  place.owner = info.st_uid;
  return place;
}

// Follows links up to the first one that another user owns.
absl::StatusOr<Place> Walk(const std::string& path) {
  std::string rest = path;
  OwnedFd from;
  for (int i = 0; i < kMaxLinks; ++i) {
    ASSIGN_OR_RETURN(Place place, Step(from.valid() ? from.get() : AT_FDCWD, rest, path));
    if (!place.there || !S_ISLNK(place.mode)) return place;
    place.is_foreign_link = !IsTrusted(place.owner);
    place.is_open_file = IsInProc(place.folder.get());
    if (place.is_foreign_link || place.is_open_file) return place;
    std::string target(PATH_MAX, '\0');
    const ssize_t size = readlinkat(place.folder.get(), place.name.c_str(), target.data(), target.size());
    if (size < 0) return Fault("reading the link", path);
    rest = target.substr(0, static_cast<size_t>(size));
    from = std::move(place.folder);
  }
  errno = ELOOP;
  return Fault("following", path);
}

absl::Status RefuseForeignLink(const Place& place, const std::string& path) {
  if (!place.is_foreign_link) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(path, " is a link that another user (uid ", place.owner, ") owns"));
}

absl::StatusOr<Place> Find(const std::string& path) {
  ASSIGN_OR_RETURN(Place place, Walk(path));
  RETURN_IF_ERROR(RefuseForeignLink(place, path));
  return place;
}

// What is opened may have been put there since Find().
absl::StatusOr<OwnedFd> Open(const Place& place, int flags, const std::string& path, struct stat* info) {
  const bool sticky = !place.is_open_file && IsSticky(place.folder.get());
  if (place.there && sticky && !IsTrusted(place.owner)) return OfAnother(path, place.owner);
  const int links = place.is_open_file ? 0 : O_NOFOLLOW;
  OwnedFd fd(openat(place.folder.get(), place.name.c_str(), flags | links | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                    kFileMode));
  if (!fd.valid() || fstat(fd.get(), info) != 0) return Fault("opening", path);
  if (sticky && !IsTrusted(info->st_uid)) return OfAnother(path, info->st_uid);
  // Another user may have given a file of ours a second name there, where the kernel allows it
  // (fs.protected_hardlinks=0, proc(5)).
  if (sticky && (flags & O_ACCMODE) != O_RDONLY && S_ISREG(info->st_mode) && info->st_nlink > 1) {
    return absl::PermissionDeniedError(absl::StrCat(path, " is also the name of another file (a hard link)"));
  }
  return fd;
}

absl::Status WriteInto(const Place& place, const std::string& path, const std::string& content) {
  struct stat info {};
  ASSIGN_OR_RETURN(const OwnedFd fd, Open(place, O_WRONLY, path, &info));
  if (S_ISREG(info.st_mode) && ftruncate(fd.get(), 0) != 0) return Fault("emptying", path);
  return WriteAll(fd.get(), path, content);
}

absl::Status WriteNew(const Place& place, const std::string& name, const std::string& path,
                      const std::string& content) {
  const int folder = place.folder.get();
  const int fd = openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kFileMode);
  if (fd < 0) return Fault("making a file beside", path);
  absl::Status status = WriteAll(fd, path, content);
  if (close(fd) != 0) status.Update(Fault("writing", path));
  if (!status.ok()) unlinkat(folder, name.c_str(), 0);
  return status;
}

}  // namespace

absl::Status WriteAll(int fd, const std::string& path, const std::string& content) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t put = write(fd, content.data() + done, content.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Fault("writing", path);
    done += static_cast<size_t>(put);
  }
  return absl::OkStatus();
}

absl::Status ReplaceFile(const std::string& path, const std::string& content) {
  ASSIGN_OR_RETURN(const Place place, Find(path));
  if (place.there && !S_ISREG(place.mode)) return WriteInto(place, path, content);
  const int folder = place.folder.get();
  if (place.there && !IsTrusted(place.owner) && IsSticky(folder)) return OfAnother(path, place.owner);
  // A random name, because nodes in containers may share the folder and have the same pid.
  const std::string beside = absl::StrCat(place.name, ".", absl::Hex(std::random_device{}()), ".tmp");
  RETURN_IF_ERROR(WriteNew(place, beside, path, content));
  if (renameat(folder, beside.c_str(), folder, place.name.c_str()) == 0) return absl::OkStatus();
  absl::Status why = Fault("replacing", path);
  unlinkat(folder, beside.c_str(), 0);
  return why;
}

absl::Status OverwriteFile(const std::string& path, const std::string& content) {
  ASSIGN_OR_RETURN(const Place place, Find(path));
  if (place.there && !place.is_open_file && !S_ISREG(place.mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a regular file"));
  }
  return WriteInto(place, path, content);
}

absl::Status FillFile(const std::string& path, const std::string& content) {
  ASSIGN_OR_RETURN(const Place place, Find(path));
  struct stat info {};
  ASSIGN_OR_RETURN(const OwnedFd fd, Open(place, O_WRONLY | O_CREAT, path, &info));
  return info.st_size > 0 ? absl::OkStatus() : WriteAll(fd.get(), path, content);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes) {
  ASSIGN_OR_RETURN(const Place place, Find(path));
  struct stat info {};
  ASSIGN_OR_RETURN(const OwnedFd fd, Open(place, O_RDONLY, path, &info));
  if (!S_ISREG(info.st_mode)) return absl::FailedPreconditionError(absl::StrCat(path, " is not a regular file"));
  std::string content;
  if (ReadToEnd(fd.get(), max_bytes, &content) != 0) return Fault("reading", path);
  if (content.size() <= max_bytes) return content;
  return absl::ResourceExhaustedError(absl::StrCat(path, " has more than ", max_bytes, " bytes"));
}

absl::Status CheckLink(const std::string& path) {
  const std::string itself = path.substr(0, path.find_last_not_of('/') + 1);
  const absl::StatusOr<Place> found = Walk(itself);
  return found.ok() ? RefuseForeignLink(*found, itself) : absl::OkStatus();
}

}  // namespace muster
