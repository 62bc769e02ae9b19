// The real MachineProbe: programs, directories and files of this machine.
#pragma once

#include <set>

#include "agent/platform/machine/accelerators.h"

namespace muster::machine {

inline constexpr size_t kMaxCommandOutputBytes = 1 << 20;  // the rest is read and dropped
inline constexpr size_t kMaxProbeFileBytes = 64 << 10;

// Blocking; use it before the event loop runs. Its commands are reaped by pid, which does not affect other
// children.
MachineProbe SystemProbe();

// Reads a regular file; refuses a FIFO or device without waiting. NotFound: no such file; ResourceExhausted: more
// than max_bytes; other errors: from the kernel. Blocking.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t max_bytes);

// The CPUs on which this process may run.
std::set<int> AllowedCpus();

// Sends SIGKILL to the process groups of all running commands and lets no other start: for a process that is about
// to end. From any thread; blocks for at most one second, for a command that is just being started.
void EndCommands();

// Runs argv[0] from PATH, with stdin and stderr at /dev/null, in its own process group, which is killed at
// `limit`. NotFound: no such program; DeadlineExceeded: killed; Internal: the kernel's error; Cancelled: after
// EndCommands().
absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& argv, absl::Duration limit);

}  // namespace muster::machine
