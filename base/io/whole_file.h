// Files that are written or read as a whole, at paths that people give. The folder may be one that others may
// write to (/tmp), and what another user has put there must do no harm:
//
// - A link at the end of the path is followed only if this user or root owns it. The folders before it are what
//   was asked for, and are followed as they are.
// - In a folder with a sticky bit only what this user or root owns is opened. Without that bit everybody who may
//   write to a folder may exchange whatever is in it, so who owns a file there says nothing. Nothing is written
//   there into a file that has further names (hard links).
// - Nothing waits for a pipe.
//
// Any thread. All of it blocks as long as the file system does. Errors name the path; PermissionDenied: something
// belongs to another user.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// Replaces a file atomically: writes beside the target and renames onto it. If the target exists and is not a
// regular file (but a pipe, say), the content is written into it.
absl::Status ReplaceFile(const std::string& path, const std::string& content);

// Overwrites a regular file in place, which keeps its inode (it may be mounted into a container).
absl::Status OverwriteFile(const std::string& path, const std::string& content);

// Writes a file only if it is absent or empty: the first writer wins.
absl::Status FillFile(const std::string& path, const std::string& content);

// The content of a regular file. NotFound: there is none; ResourceExhausted: it has more bytes than that.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes);

// PermissionDenied: the path, which need not exist, ends in a link that another user owns. A path that cannot be
// looked at is no error here: whoever opens it hears why.
absl::Status CheckLink(const std::string& path);

absl::Status WriteAll(int fd, const std::string& path, const std::string& content);  // path: for the error

}  // namespace muster
