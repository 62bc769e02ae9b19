#include "base/io/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/core/status_macros.h"
#include "base/io/owned_fd.h"
#include "base/io/read_to_end.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

namespace muster {
namespace {

constexpr size_t kMaxNameShown = 128;  // bytes

std::string Shown(mode_t mode) { return absl::StrFormat("mode %04o", mode & 07777); }

absl::Status CannotRead(int error) { return absl::ErrnoToStatus(error, "the file cannot be read"); }

// The owner of a link decides what is read: perhaps another file of root's, whose content everybody knows.
absl::Status CheckLinks(const Place& place) {
  if (!place.is_foreign_link) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "'", OneLine(ToUtf8(place.name, kMaxNameShown)),
      "' in its path is a link that another user owns: name the file itself, in a folder that only its "
      "owner can write"));
}

}  // namespace

absl::Status CheckFile(const FileFacts& facts, uid_t reader, size_t max_bytes, const std::string& path) {
  if (!facts.regular) return absl::FailedPreconditionError("it is not a regular file: name a file");
  if (facts.owner != reader && facts.owner != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it belongs to user ", facts.owner, ", and muster runs as user ", reader, ": chown ", reader, " ", path));
  }
  if ((facts.mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("users other than its owner can write it (", Shown(facts.mode), "): chmod 600 ", path));
  }
  if (facts.bytes > max_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("expected at most ", max_bytes, " bytes, not ", facts.bytes, ": name another file"));
  }
  return absl::OkStatus();
}

// Kubernetes mounts secrets read-only since 1.9.6 ("will be mounted as read-only volumes", its CHANGELOG-1.9), and
// readable by everyone unless told otherwise (defaultMode 0644, its documentation of volumes). A person who mounts
// a file so has decided who sees it, and nobody could follow the advice there.
std::string WarningAbout(const FileFacts& facts, FileKind kind, const std::string& path) {
  if (kind == FileKind::kPublic || facts.read_only || (facts.mode & S_IROTH) == 0) return "";
  return absl::StrCat("every user of this machine can read it (", Shown(facts.mode), "): chmod 600 ", path);
}

absl::StatusOr<SecretFile> ReadSecretFile(const std::string& path, FileKind kind, size_t max_bytes) {
  Place place;
  if (const int error = FindPlace(path, Links::kEverywhere, &place); error != 0) return CannotRead(error);
  RETURN_IF_ERROR(CheckLinks(place));
  return ReadSecretAt(place, path, kind, max_bytes);
}

// Facts are those of the descriptor (fstat(2)), so what was checked is what is read.
absl::StatusOr<SecretFile> ReadSecretAt(const Place& place, const std::string& path, FileKind kind,
                                        size_t max_bytes) {
  const OwnedFd fd = OpenPlace(place, O_RDONLY);
  if (!fd.valid()) return CannotRead(errno);
  struct stat about {};
  if (fstat(fd.get(), &about) != 0) return CannotRead(errno);
  struct statvfs mount {};
  const bool read_only = fstatvfs(fd.get(), &mount) == 0 && (mount.f_flag & ST_RDONLY) != 0;  // of this mount
  const FileFacts facts{.regular = S_ISREG(about.st_mode),
                        .owner = about.st_uid,
                        .mode = about.st_mode & static_cast<mode_t>(07777),
                        .bytes = static_cast<uint64_t>(about.st_size),
                        .read_only = read_only};
  RETURN_IF_ERROR(CheckFile(facts, geteuid(), max_bytes, path));
  std::error_code unknown;  // then the path stays as it is
  SecretFile file{.text = {},
                  .path = std::filesystem::absolute(path, unknown).string(),
                  .warning = WarningAbout(facts, kind, path)};
  if (const int error = ReadToEnd(fd.get(), max_bytes, &file.text); error != 0) {
    return CannotRead(error);
  }
  if (file.text.size() > max_bytes) {  // it has grown
    return absl::FailedPreconditionError(absl::StrCat("expected at most ", max_bytes, " bytes"));
  }
  return file;
}

}  // namespace muster
