// A file in memory, for what is too long for a message.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/io/owned_fd.h"

namespace muster {

// name: for /proc. The offset is 0; closed on exec. Errors: no memory, no descriptor.
absl::StatusOr<OwnedFd> MemoryFile(const std::string& name, std::string_view content);

}  // namespace muster
