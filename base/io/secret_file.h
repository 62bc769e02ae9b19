// Files that decide who may join the job: tokens, keys and certificates. A user who can write one of them is in
// the job, so muster reads none that other users can write.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/place.h"

namespace muster {

// What the kernel says of an open file.
struct FileFacts {
  bool regular = true;
  uid_t owner = 0;
  mode_t mode = 0;  // permission bits
  uint64_t bytes = 0;
  bool read_only = false;  // its file system is mounted read-only here
};

enum class FileKind {
  kSecret,  // a token or key: nobody else should read it
  kPublic,  // a certificate
};

// Whether this file can be trusted by a process of user `reader`. FailedPrecondition: it is not a regular file,
// has more than max_bytes, or belongs to or can be written by another user; says what to do. Pure.
absl::Status CheckFile(const FileFacts& facts, uid_t reader, size_t max_bytes, const std::string& path);

// A sentence about a secret that every user can read; empty: only its owner can. Pure.
std::string WarningAbout(const FileFacts& facts, FileKind kind, const std::string& path);

struct SecretFile {
  std::string text;
  std::string path;     // absolute; links in it are not followed, since they may lead elsewhere later
  std::string warning;  // empty: none
};

// Follows links that this user or root owns, and links of folders also if their folder's owner has made them.
// FailedPrecondition: see CheckFile, or another user's link; other errors are those of the kernel. A
// message begins with no file's name; it has those of foreign links, and of the file in the command that it
// recommends. May block for ever on a dead network file system.
absl::StatusOr<SecretFile> ReadSecretFile(const std::string& path, FileKind kind, size_t max_bytes);

// The second half of it, of a place that was found by Links::kEverywhere and is no foreign link. What has become a
// link since is not followed.
absl::StatusOr<SecretFile> ReadSecretAt(const Place& place, const std::string& path, FileKind kind,
                                        size_t max_bytes);

}  // namespace muster
