#include "base/io/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/io/owned_fd.h"
#include "base/io/place.h"
#include "base/io/read_to_end.h"

namespace muster {
namespace {

constexpr mode_t kFileMode = 0644;

absl::Status Fault(const std::string& doing, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(doing, " ", path));
}

absl::Status OfAnother(const std::string& path, uid_t owner) {
  return absl::PermissionDeniedError(absl::StrCat(path, " belongs to another user (uid ", owner, ")"));
}

bool IsSticky(int folder) {
  struct stat info {};
  return fstat(folder, &info) == 0 && (info.st_mode & S_ISVTX) != 0;
}

absl::Status RefuseForeignLink(const Place& place, const std::string& path) {
  if (!place.is_foreign_link) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(path, " is a link that another user (uid ", place.owner, ") owns"));
}

absl::StatusOr<Place> Find(const std::string& path) {
  Place place;
  if (const int error = FindPlace(path, Links::kAtTheEnd, &place); error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat(place.doing, " ", path));
  }
  RETURN_IF_ERROR(RefuseForeignLink(place, path));
  return place;
}

// What is opened may have been put there since Find().
absl::StatusOr<OwnedFd> Open(const Place& place, int flags, const std::string& path, struct stat* info) {
  const bool sticky = !place.is_open_file && IsSticky(place.folder.get());
  if (place.there && sticky && !IsTrusted(place.owner)) return OfAnother(path, place.owner);
  OwnedFd fd = OpenPlace(place, flags, kFileMode);
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
  Place found;
  const bool looked = FindPlace(itself, Links::kAtTheEnd, &found) == 0;
  return looked ? RefuseForeignLink(found, itself) : absl::OkStatus();
}

}  // namespace muster
