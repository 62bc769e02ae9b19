#include "base/proc/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/core/time.h"
#include "base/io/memory_file.h"
#include "base/io/mutex.h"
#include "base/io/owned_fd.h"

extern char** environ;

namespace muster {
namespace {

// Time for a killed program to end. One that hangs in a driver is left behind, and the error says so.
constexpr absl::Duration kReapTimeout = absl::Seconds(2);
// How long EndPrograms() waits for a program that is being started. An exec that hangs in a file system is left
// behind.
constexpr absl::Duration kStartLimit = absl::Seconds(1);

BootTime Now() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::TimeFromTimespec(now);
}

class SpawnSettings {
 public:
  SpawnSettings(int input_fd, int output_fd) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, output_fd, 1);  // first, since output_fd may be 0 or 2
    if (input_fd >= 0) {
      posix_spawn_file_actions_adddup2(&actions_, input_fd, 0);
    } else {
      posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    }
    posix_spawn_file_actions_addopen(&actions_, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
    posix_spawnattr_init(&attributes_);
    // An exec would inherit blocked and ignored signals.
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t* actions() { return &actions_; }
  posix_spawnattr_t* attributes() { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

absl::Status FromErrno(int error, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  const bool absent = error == ENOENT || error == ENOTDIR;
  return absent ? absl::NotFoundError(message) : absl::InternalError(message);
}

// The running programs. Each leads its own process group, which its pid identifies until it is reaped.
class Programs {
 public:
  // Calls start() without the lock: it waits for the exec, which may hang in a file system for ever.
  template <typename Start>
  absl::StatusOr<pid_t> Add(Start start) {
    {
      const MutexLock lock(mutex_);
      if (ended_) return absl::CancelledError("this process is ending");
      ++starting_;
    }
    absl::StatusOr<pid_t> pid = start();
    const MutexLock lock(mutex_);
    --starting_;
    started_.NotifyAll();
    if (pid.ok()) running_.insert(*pid);
    if (pid.ok() && ended_) kill(-*pid, SIGKILL);
    return pid;
  }
  void Remove(pid_t pid) {
    const MutexLock lock(mutex_);
    running_.erase(pid);
  }
  void End() {
    const MutexLock lock(mutex_);
    ended_ = true;
    for (const pid_t pid : running_) kill(-pid, SIGKILL);
    (void)started_.WaitFor(mutex_, absl::ToChronoNanoseconds(kStartLimit),
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return starting_ == 0; });
  }

 private:
  Mutex mutex_;
  Condition started_;
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<pid_t> running_ ABSL_GUARDED_BY(mutex_);
};

Programs& ThePrograms() {
  static Programs* const programs = new Programs;  // never freed: threads may use it until the process ends
  return *programs;
}

// input_fd: -1: /dev/null.
absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& argv, int input_fd, int output_fd) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  SpawnSettings settings(input_fd, output_fd);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, arguments[0], settings.actions(), settings.attributes(), arguments.data(), environ);
  if (error != 0) return FromErrno(error, absl::StrCat("starting ", argv[0]));
  return pid;
}

// Waits until the descriptor is readable or closed; false at the deadline.
bool WaitReadable(int fd, BootTime deadline) {
  while (true) {
    const absl::Duration left = std::max(deadline - Now(), absl::ZeroDuration());
    pollfd waited{fd, POLLIN, 0};
    const int ready =
        poll(&waited, 1, static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// True: the output is complete, since every process that inherited the pipe has closed it.
bool ReadToEnd(int fd, BootTime deadline, std::string* output) {
  char buffer[4096];
  while (WaitReadable(fd, deadline)) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    const size_t room = kMaxProgramOutput - std::min(output->size(), kMaxProgramOutput);
    output->append(buffer, std::min(room, static_cast<size_t>(count)));
  }
  return false;
}

// The exit status, or nullopt if the process has not ended by the deadline.
std::optional<int> Reap(pid_t pid, BootTime deadline) {
  const OwnedFd ended(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (ended.get() >= 0 && !WaitReadable(ended.get(), deadline)) return std::nullopt;
  int status = 0;
  // In a sandbox that forbids pidfds this blocks, but the process has already closed its output.
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return std::nullopt;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

absl::StatusOr<ProgramResult> RunProgram(const std::vector<std::string>& argv, absl::Duration limit,
                                         const std::string& input) {
  OwnedFd given;
  if (!input.empty()) {
    ASSIGN_OR_RETURN(given, MemoryFile("input", input));
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return FromErrno(errno, "a pipe");
  const OwnedFd output(ends[0]);
  OwnedFd end(ends[1]);
  ASSIGN_OR_RETURN(const pid_t pid, ThePrograms().Add([&] { return Spawn(argv, given.get(), end.get()); }));
  const absl::Cleanup forget = [pid] { ThePrograms().Remove(pid); };
  end.Reset();

  const BootTime deadline = Now() + limit;
  ProgramResult result;
  std::optional<int> exit_code;
  if (ReadToEnd(output.get(), deadline, &result.output)) exit_code = Reap(pid, deadline);
  if (exit_code.has_value()) {
    result.exit_code = *exit_code;
    return result;
  }
  kill(-pid, SIGKILL);
  std::string message = absl::StrCat("did not answer within ", absl::FormatDuration(limit));
  if (!Reap(pid, Now() + kReapTimeout).has_value()) {
    absl::StrAppend(&message, " and cannot be killed (pid ", pid, ")");
  }
  return absl::DeadlineExceededError(message);
}

void EndPrograms() { ThePrograms().End(); }

}  // namespace muster
