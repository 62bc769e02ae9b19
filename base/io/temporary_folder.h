// Where the host's own short-lived files go.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/io/owned_fd.h"

namespace muster {

// $TMPDIR, or /tmp; it need not be there. Absolute: workers may run in another folder.
std::string TemporaryFolder();

// <parent>/<name><random>, for this user alone. The error names the parent.
absl::StatusOr<std::string> MakeFolderIn(const std::string& parent, const std::string& name);

// A folder in the temporary one for short-lived files of this process. It is locked as long as the process lives,
// so one that is not locked was left by a process that was killed; and systemd-tmpfiles leaves a locked folder
// alone.
//
// Thread-compatible. Everything but path() blocks as the file system does.
class ScratchFolder {
 public:
  static absl::StatusOr<ScratchFolder> Make();

  const std::string& path() const { return path_; }

  void Remove() const;  // with the files in it; without this it stays until somebody calls RemoveAbandonedFolders

 private:
  ScratchFolder(std::string path, OwnedFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  OwnedFd lock_;
};

// Removes the scratch folders of this user whose processes have ended without doing so. Only those of this machine
// since its last start: a lock means nothing between machines that share the folder.
void RemoveAbandonedFolders();

}  // namespace muster
