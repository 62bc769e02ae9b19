// The step between posix_spawn and a worker's own program: `muster exec-stage`, a hidden subcommand of our binary.
// What must be set in the child itself is set here, single-threaded, where any function may be called; between
// fork and exec of a process with threads none may.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace muster::host {

inline constexpr char kExecStageCommand[] = "exec-stage";
inline constexpr int kExecStageStatusFd = 3;  // closed by a successful exec

// What went wrong, sent over the status pipe; nothing but an end of file means that the program executes.
struct ExecStageError {
  enum Step : int { kParentDeath = 2, kLimits = 3, kExec = 4, kCpus = 5 };
  int step = 0;
  int error = 0;  // errno
};

// The argument list by which the stage executes `file` (looked for on PATH if it has no slash), telling it `argv`.
// The environment travels as the stage's own. cpus: it may run on these alone; empty: wherever we may.
std::vector<std::string> ExecStageArguments(pid_t parent, const rlimit& nofile, const std::string& file,
                                            const std::vector<std::string>& argv, const std::set<int>& cpus = {});

// "cannot execute train.py: Permission denied".
std::string Describe(const ExecStageError& error, const std::string& program);

// 127: no such program; 126: there, but it cannot be executed (or the machine refused to start one).
int SpawnExitCode(int error);

// main() calls this before anything else if argv[1] is kExecStageCommand. Returns only on failure, an exit code.
int ExecStageMain(int argc, char** argv);

}  // namespace muster::host
