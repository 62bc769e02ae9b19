#include "base/io/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"

namespace muster {

absl::StatusOr<OwnedFd> MemoryFile(const std::string& name, std::string_view content) {
  OwnedFd file(memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!file.valid()) return absl::ErrnoToStatus(errno, "making a file in memory");
  off_t at = 0;
  while (!content.empty()) {
    const ssize_t written = pwrite(file.get(), content.data(), content.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return absl::ErrnoToStatus(errno, "writing a file in memory");
    at += written;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return file;
}

}  // namespace muster
