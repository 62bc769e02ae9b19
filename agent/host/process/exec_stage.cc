#include "agent/host/process/exec_stage.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/exit_codes.h"

namespace muster::host {
namespace {

// muster exec-stage PARENT SOFT HARD CPUS -- FILE ARGV...
constexpr int kParentIndex = 2;
constexpr int kSoftIndex = 3;
constexpr int kHardIndex = 4;
constexpr int kCpusIndex = 5;  // "0,1,8"; empty: all
constexpr int kDashesIndex = 6;
constexpr int kFileIndex = 7;
constexpr int kArgvIndex = 8;

constexpr int kMaxCpus = 8192;  // the largest NR_CPUS that kernels are built with

constexpr int kFirstLibrarySignal = 32;  // up to SIGRTMIN

bool ParseNumber(const char* text, uint64_t* number) {
  const char* end = text + std::strlen(text);
  const auto result = std::from_chars(text, end, *number);
  return result.ec == std::errc() && result.ptr == end;
}

// Resets glibc's two internal signals, which its posix_spawn leaves ignored and its sigaction() refuses to change,
// so that the worker starts with the same dispositions as from a shell.
void ResetLibrarySignals() {
  struct {  // the kernel's layout of struct sigaction
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    unsigned long mask;
  } const action{SIG_DFL, 0, nullptr, 0};
  for (int signal = kFirstLibrarySignal; signal < SIGRTMIN; ++signal) {
    syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof(action.mask));
  }
}

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

// Called in the worker, so the parent's own affinity is never changed; that may change at any moment (by a cpuset
// of a cluster manager). Returns 0 or errno.
int BindToCpus(std::string_view list) {
  if (list.empty()) return 0;
  const size_t size = CPU_ALLOC_SIZE(kMaxCpus);
  const std::unique_ptr<cpu_set_t, FreeCpuSet> cpus(CPU_ALLOC(kMaxCpus));
  if (cpus == nullptr) return ENOMEM;
  CPU_ZERO_S(size, cpus.get());
  while (!list.empty()) {
    size_t cpu = 0;
    const auto [end, error] = std::from_chars(list.data(), list.data() + list.size(), cpu);
    if (error != std::errc() || cpu >= static_cast<size_t>(kMaxCpus)) return EINVAL;
    CPU_SET_S(cpu, size, cpus.get());
    list.remove_prefix(static_cast<size_t>(end - list.data()));
    if (list.starts_with(',')) list.remove_prefix(1);
  }
  return sched_setaffinity(0, size, cpus.get()) == 0 ? 0 : errno;
}

int Fail(ExecStageError::Step step, int error) {
  const ExecStageError report{step, error};
  (void)!write(kExecStageStatusFd, &report, sizeof(report));
  return SpawnExitCode(error);
}

}  // namespace

std::vector<std::string> ExecStageArguments(pid_t parent, const rlimit& nofile, const std::string& file,
                                            const std::vector<std::string>& argv, const std::set<int>& cpus) {
  std::string list;
  for (const int cpu : cpus) list += (list.empty() ? "" : ",") + std::to_string(cpu);
  std::vector<std::string> all = {"muster",
                                  kExecStageCommand,
                                  std::to_string(parent),
                                  std::to_string(nofile.rlim_cur),
                                  std::to_string(nofile.rlim_max),
                                  list,
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
      return "cannot set the parent-death signal of " + program + ": " + reason;
    case ExecStageError::kLimits:
      return "cannot restore the limit of open files for " + program + ": " + reason;
    case ExecStageError::kCpus:
      return "cannot bind " + program + " to its CPUs (--numa-binding): " + reason;
    case ExecStageError::kPreload:
      return "cannot fork " + program + " from the preloaded modules: " + reason;
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
    std::fputs("muster: exec-stage is an internal command of muster; see muster --help\n", stderr);
    return kExitUsage;
  }
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return Fail(ExecStageError::kParentDeath, errno);
  // If the host died before the line above, no parent-death signal will come.
  if (getppid() != static_cast<pid_t>(parent)) return Fail(ExecStageError::kParentDeath, ESRCH);
  const rlimit nofile{soft, hard};
  if (setrlimit(RLIMIT_NOFILE, &nofile) != 0) return Fail(ExecStageError::kLimits, errno);
  if (const int error = BindToCpus(argv[kCpusIndex]); error != 0) return Fail(ExecStageError::kCpus, error);
  ResetLibrarySignals();
  execvp(argv[kFileIndex], argv + kArgvIndex);
  return Fail(ExecStageError::kExec, errno);
}

}  // namespace muster::host
