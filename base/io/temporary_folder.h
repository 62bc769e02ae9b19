// Folders for the host's short-lived files.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/io/owned_fd.h"

namespace muster {

// $TMPDIR, or /tmp; it need not exist. Absolute: workers may run in another folder.
std::string TemporaryFolder();

// Creates <parent>/<name><random>, accessible to this user only. The error names the parent.
absl::StatusOr<std::string> MakeFolderIn(const std::string& parent, const std::string& name);

// A folder in TemporaryFolder(), which is made if it is missing, for short-lived files of this process; in /tmp if
// nothing can be made there. It is locked as long as the process lives:
// an unlocked one was left by a process that was killed. systemd-tmpfiles does not touch a locked folder.
//
// Thread-compatible. Everything but path() blocks for as long as the file system does.
class ScratchFolder {
 public:
  static absl::StatusOr<ScratchFolder> Make();

  const std::string& path() const { return path_; }

  // Removes the folder with everything in it. Without this call it stays until a process calls
  // RemoveAbandonedFolders().
  void Remove() const;

 private:
  ScratchFolder(std::string path, OwnedFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  OwnedFd lock_;
};

// Removes the scratch folders of this user, in TemporaryFolder() and /tmp, whose processes ended without removing
// them. Only folders of this machine's current boot: between machines that share a file system the locks have no
// meaning.
void RemoveAbandonedFolders();

}  // namespace muster
