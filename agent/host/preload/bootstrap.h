// The files of python/ as they are built into the binary, and as the preloading Python finds them.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/io/owned_fd.h"
#include "base/io/stored_archive.h"

namespace muster::host {

std::vector<ArchivedFile> BootstrapFiles();

// A file in memory with the archive from which the interpreter imports the bootstrap, as its `sitecustomize`. No
// file system takes part: it works with a read-only root and as any user. Errors: no memory, no descriptor.
absl::StatusOr<OwnedFd> BootstrapArchive();

}  // namespace muster::host
