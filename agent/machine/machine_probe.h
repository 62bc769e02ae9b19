// The real MachineProbe: programs, directories and files of this machine.
#pragma once

#include <set>

#include "agent/machine/accelerators.h"

namespace muster::machine {

inline constexpr size_t kMaxCommandOutputBytes = 1 << 20;  // the rest is read and dropped
inline constexpr size_t kMaxProbeFileBytes = 64 << 10;

// Blocking; to be used before the event loop runs. Its commands are reaped by pid, so other children are
// untouched.
MachineProbe SystemProbe();

// The whole of a regular file; a FIFO or device is refused, not waited for. NotFound: there is none;
// ResourceExhausted: it has more than max_bytes; else as the kernel says. Blocking.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t max_bytes);

// The CPUs on which this process may run.
std::set<int> AllowedCpus();

// SIGKILL to the process groups of all commands that run, and no other will be started: for a process that is
// about to end. From any thread; blocks for a second at most, for a command that is just being started.
void EndCommands();

// Runs argv[0], found on PATH, with stdin and stderr at /dev/null, in a process group of its own that is killed at
// `limit`. NotFound: there is no such program; DeadlineExceeded; Internal: the kernel refused, with its words;
// Cancelled: after EndCommands().
absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& argv, absl::Duration limit);

}  // namespace muster::machine
