// bootstrap.py as it is built into the binary, and as the preloading Python finds it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/io/owned_fd.h"

namespace muster {

std::string_view BootstrapText();

namespace host {

// A ZIP archive with one file, not compressed: an interpreter without zlib can import it.
std::string StoredArchive(std::string_view name, std::string_view content);

// A file in memory with the archive from which the interpreter imports the bootstrap, as its `sitecustomize`. No
// file system takes part: it works with a read-only root and as any user. Errors: no memory, no descriptor.
absl::StatusOr<OwnedFd> BootstrapArchive();

}  // namespace host
}  // namespace muster
