#include "agent/host/exec_stage.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "proto/base/exit_codes.h"

namespace muster::host {
namespace {

// muster exec-stage PARENT SOFT HARD -- FILE ARGV...
constexpr int kParentIndex = 2;
constexpr int kSoftIndex = 3;
constexpr int kHardIndex = 4;
constexpr int kDashesIndex = 5;
constexpr int kFileIndex = 6;
constexpr int kArgvIndex = 7;

constexpr int kFirstLibrarySignal = 32;  // up to SIGRTMIN

bool ParseNumber(const char* text, uint64_t* number) {
  const char* end = text + std::strlen(text);
  const auto result = std::from_chars(text, end, *number);
  return result.ec == std::errc() && result.ptr == end;
}

// glibc's posix_spawn leaves its own two signals ignored, and its sigaction() will not touch them; the worker is
// to start as from a shell.
void ResetLibrarySignals() {
  struct {  // as the kernel has it
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    unsigned long mask;
  } const action{SIG_DFL, 0, nullptr, 0};
  for (int signal = kFirstLibrarySignal; signal < SIGRTMIN; ++signal) {
    syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof(action.mask));
  }
}

int Fail(ExecStageError::Step step, int error) {
  const ExecStageError report{step, error};
  (void)!write(kExecStageStatusFd, &report, sizeof(report));
  return SpawnExitCode(error);
}

}  // namespace

std::vector<std::string> ExecStageArguments(pid_t parent, const rlimit& nofile, const std::string& file,
                                            const std::vector<std::string>& argv) {
  std::vector<std::string> all = {"muster",
                                  kExecStageCommand,
                                  std::to_string(parent),
                                  std::to_string(nofile.rlim_cur),
                                  std::to_string(nofile.rlim_max),
                                  "--",
                                  file};
  all.insert(all.end(), argv.begin(), argv.end());
  return all;
}

std::string Describe(const ExecStageError& error, const std::string& program) {
  const std::string reason = std::strerror(error.error);
  switch (error.step) {
    case ExecStageError::kExec:
      return "cannot execute " + program + ": " + reason;
    case ExecStageError::kParentDeath:
      return "cannot bind the life of " + program + " to the host's: " + reason;
    case ExecStageError::kLimits:
      return "cannot restore the limit of open files for " + program + ": " + reason;
    default:
      return "cannot start " + program + ": " + reason;
  }
}

int SpawnExitCode(int error) { return error == ENOENT || error == ENOTDIR ? 127 : 126; }

int ExecStageMain(int argc, char** argv) {
  fcntl(kExecStageStatusFd, F_SETFD, FD_CLOEXEC);
  uint64_t parent = 0, soft = 0, hard = 0;
  if (argc <= kArgvIndex || !ParseNumber(argv[kParentIndex], &parent) || !ParseNumber(argv[kSoftIndex], &soft) ||
      !ParseNumber(argv[kHardIndex], &hard) || std::string_view(argv[kDashesIndex]) != "--") {
    std::fputs("muster: exec-stage is for muster itself; see muster --help\n", stderr);
    return kExitUsage;
  }
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return Fail(ExecStageError::kParentDeath, errno);
  // The host may have died before the line above: then no signal will come any more.
  if (getppid() != static_cast<pid_t>(parent)) return Fail(ExecStageError::kParentDeath, ESRCH);
  const rlimit nofile{soft, hard};
  if (setrlimit(RLIMIT_NOFILE, &nofile) != 0) return Fail(ExecStageError::kLimits, errno);
  ResetLibrarySignals();
  execvp(argv[kFileIndex], argv + kArgvIndex);
  return Fail(ExecStageError::kExec, errno);
}

}  // namespace muster::host
