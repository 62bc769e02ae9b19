// Runs a program, for a limited time, and returns what it writes. Any thread; blocking.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

inline constexpr size_t kMaxProgramOutput = 1 << 20;  // bytes; the rest is read and dropped

struct ProgramResult {
  int exit_code = 0;   // 128 + signal if it was killed
  std::string output;  // standard output
};

// Runs argv[0] from PATH, in its own process group, which is killed at `limit`. input: its standard input;
// standard error is /dev/null. It is reaped by pid, which does not affect other children. NotFound: no such
// program; DeadlineExceeded: killed; Internal: the kernel's error; Cancelled: after EndPrograms().
absl::StatusOr<ProgramResult> RunProgram(const std::vector<std::string>& argv, absl::Duration limit,
                                         const std::string& input = "");

// Sends SIGKILL to the process groups of all running programs and lets no other start: for a process that is about
// to end. From any thread; blocks for at most one second, for a program that is just being started.
void EndPrograms();

}  // namespace muster
