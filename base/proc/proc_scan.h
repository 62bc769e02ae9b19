// Reads processes from /proc. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  uint64_t start = 0;  // clock ticks since boot; identifies, with the pid, one process of this boot
  int threads = 0;
  pid_t thread = 0;  // the first thread, or another one if the first has ended
  char state = '?';  // of that thread, as in /proc/PID/stat: R S D Z T ...
  std::string name;
  bool kill_pending = false;  // SIGKILL was sent and has not taken effect yet; read only in state D
  // The process is replacing its program and has no environment to read yet. Always false if the kernel does not
  // show this, or not to us.
  bool in_exec = false;
  bool exiting = false;        // it is ending: its memory, with its environment, is gone or about to go
  bool kernel_thread = false;  // it has no memory of its own
  bool forked = false;         // without an exec since; always false on kernels that do not show it

  bool ended() const { return state == 'Z' || state == 'X' || state == 'x'; }
  // The kernel holds it: we have no means to end it, and it executes none of its own code any more.
  bool stuck() const { return state == 'D' && kill_pending; }
};

// Parses the text of /proc/PID/stat (proc(5)), which describes the first thread; nullopt: invalid. Leaves
// `kill_pending` unset, which is in another file.
std::optional<ProcessInfo> ParseProcess(pid_t pid, std::string_view stat);

// nullopt: the process is gone, or could not be read now. A caller that acts on "gone" must call IsThere(), too.
std::optional<ProcessInfo> ReadProcess(pid_t pid);

// Whether the process exists, even as a zombie. Does not depend on what /proc shows.
bool IsThere(pid_t pid);

// Whether the process with this pid and start time still lives. Also true if it cannot be read.
bool IsAlive(pid_t pid, uint64_t start);

// Whether a process has ended since it was read, or is ending; an ending process has no environment any more. In
// that reading its children still had it as their parent; only the next one shows which process has adopted them.
bool HasEndedSince(const ProcessInfo& seen);

// Whether the process handles this signal itself: it catches the signal, or its first thread blocks it but not all
// signals (for sigwait or a signalfd). Also false if it cannot be read. Needs no lock of the process's memory.
bool HandlesSignal(pid_t pid, int signal);
// Whether it catches the signal, and its first thread does not block it. False also if it cannot be read.
bool TakesSignal(pid_t pid, int signal);

// Calls visit() for every visible process. An error: not all could be listed, for example without descriptors.
absl::Status ForEachProcess(const std::function<void(pid_t)>& visit);

// Whether /proc leaves out processes of ours, too (the mount option hidepid, proc(5)).
bool ProcHidesProcesses();
bool ProcHidesProcesses(std::string_view mounts);  // the text of /proc/mounts; to a user who is not root

// Calls look() for every process, and a second time, after all others, for those where it set `unclear`: an exec
// has mostly ended by then. Returns what is still unclear; empty: every process was seen.
std::string LookAtEachProcess(const std::function<void(pid_t, std::string* unclear)>& look);

// Children of all threads of this process, including zombies; session: those of it alone. A child that could not
// be read has only its pid and parent.
absl::StatusOr<std::vector<ProcessInfo>> Children(std::optional<pid_t> session = std::nullopt);

// The value of a variable in the environment with which a process was started. NotFound: no such variable or
// process; ResourceExhausted: it could not be read now; Unavailable: the process is in an exec and has none yet;
// other errors: we may not read it.
absl::StatusOr<std::string> StartEnvironment(pid_t pid, const std::string& name);

// Sends a signal to the process with this pid and start time. A pidfd is opened before the process is checked, so
// that a process which has got the same pid meanwhile is never signalled. NotFound: the process has ended; other
// errors: the kernel refused.
absl::Status SignalProcess(pid_t pid, uint64_t start, int signal);

// The arguments with which the process was started, each ended by a zero byte. The kernel locks the target's
// memory for this: see EnvironReader.
absl::StatusOr<std::string> CommandLine(pid_t pid);

// The name of the file that the process executes, even if the file was removed or replaced since; empty: we may
// not see that.
std::string ProgramOf(pid_t pid);

// Whether one of the process's descriptors leads to such a target: a path, or "socket:[INODE]". False also if we
// may not see them.
bool HasDescriptor(pid_t pid, const std::function<bool(const std::string& target)>& is_such);

// What the process's descriptor 0 leads to: a path, or "pipe:[INODE]"; empty: it has none, or we may not see it.
std::string StandardInputOf(pid_t pid);

// The oldest living child of the process's first thread; nullopt: none, or the kernel does not tell.
std::optional<pid_t> FirstChild(pid_t pid);

// Bytes that the process has written to anything but by sending to sockets (proc(5), io); 0: we are not told.
uint64_t BytesWritten(pid_t pid);

// Processor time that all threads of the process have used so far (proc(5), stat); zero: not known.
absl::Duration ProcessorTime(pid_t pid);
// Processor time of the first thread if it sleeps where a signal wakes it; nullopt: it does not, or is not known.
std::optional<absl::Duration> ProcessorTimeOfSleeper(pid_t pid);
// How long the process's first thread ran so far, and could run but had no processor (sched-stats of
// the kernel's documentation). A wait is counted when it ends. Zero: not known.
struct SchedulerTimes {
  absl::Duration ran, waited;
};
SchedulerTimes ReadSchedulerTimes(pid_t pid);

// The function of the kernel in which the process waits. Empty: it does not wait there, or we are not told.
std::string KernelFunction(pid_t pid);

// "pid 71 (python, state D in nv_wait)".
std::string Describe(const ProcessInfo& process);

}  // namespace muster
