// The step between posix_spawn and a worker's own program: `muster exec-stage`, a hidden subcommand of this
// binary. It makes the settings that only the child itself can make. It is single-threaded, so any function may be
// called; between fork and exec of a multi-threaded process only async-signal-safe ones may.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace muster::host {

inline constexpr char kExecStageCommand[] = "exec-stage";
inline constexpr int kExecStageStatusFd = 3;  // closed by a successful exec

// Sent over the status pipe on failure; an end of file without a record means that the program is executing.
// The Python of agent/host/preload sends the same for a worker that was forked, over a socket.
struct ExecStageError {
  enum Step : int { kParentDeath = 2, kLimits = 3, kExec = 4, kCpus = 5, kPreload = 6 };
  int step = 0;
  int error = 0;  // errno
};

// The command line of a stage that executes `file` (searched on PATH if it has no slash) with `argv`. The worker
// inherits the stage's environment. cpus: CPUs to bind the worker to; empty: no binding.
std::vector<std::string> ExecStageArguments(pid_t parent, const rlimit& nofile, const std::string& file,
                                            const std::vector<std::string>& argv, const std::set<int>& cpus = {});

// "cannot execute train.py: Permission denied".
std::string Describe(const ExecStageError& error, const std::string& program);

// 127: no such program; 126: it exists but cannot be executed, or no process could be created.
int SpawnExitCode(int error);

// main() calls this before anything else if argv[1] is kExecStageCommand. Returns an exit code, only on failure.
int ExecStageMain(int argc, char** argv);

}  // namespace muster::host
