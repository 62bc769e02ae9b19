#include "agent/host/preload/bootstrap.h"

#include "base/io/memory_file.h"

namespace muster::host {

absl::StatusOr<OwnedFd> BootstrapArchive() {
  return MemoryFile("muster-bootstrap", StoredArchive(BootstrapFiles()));
}

}  // namespace muster::host
