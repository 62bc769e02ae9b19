// The files of python/ as they are built into the binary, and as the preloading Python finds them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io/owned_fd.h"

namespace muster::host {

struct ArchivedFile {
  std::string_view name, content;
};

std::vector<ArchivedFile> BootstrapFiles();

// A ZIP archive of these files, not compressed: an interpreter without zlib can import it.
std::string StoredArchive(const std::vector<ArchivedFile>& files);

// A file in memory with the archive from which the interpreter imports the bootstrap, as its `sitecustomize`. No
// file system takes part: it works with a read-only root and as any user. Errors: no memory, no descriptor.
absl::StatusOr<OwnedFd> BootstrapArchive();

}  // namespace muster::host
