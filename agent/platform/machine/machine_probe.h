// The real MachineProbe: programs, directories and files of this machine.
#pragma once

#include <set>

#include "agent/platform/machine/accelerators.h"

namespace muster::machine {

inline constexpr size_t kMaxProbeFileBytes = 64 << 10;

// Blocking; use it before the event loop runs.
MachineProbe SystemProbe();

// Reads a regular file; refuses a FIFO or device without waiting. NotFound: no such file; ResourceExhausted: more
// than max_bytes; other errors: from the kernel. Blocking.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t max_bytes);

// The CPUs on which this process may run.
std::set<int> AllowedCpus();

}  // namespace muster::machine
