// What /proc says about processes. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  uint64_t start = 0;  // clock ticks since boot: with the pid it names one process of this boot
  int threads = 0;
  pid_t thread = 0;  // its first one, or one that has outlived that
  char state = '?';  // of that thread, as in /proc/PID/stat: R S D Z T ...
  std::string name;
  bool kill_pending = false;  // SIGKILL was sent and not yet obeyed; read only in state D
  // It is between two programs: of the next one's environment there is nothing to read yet. Always false where the
  // kernel does not tell, or not us.
  bool in_exec = false;
  bool exiting = false;        // it ends: its memory, and its environment with it, is gone or about to go
  bool kernel_thread = false;  // it has no memory of its own

  bool ended() const { return state == 'Z' || state == 'X' || state == 'x'; }
  // The kernel does not let it go: nothing that we can do ends it, and it executes no more of its own code.
  bool stuck() const { return state == 'D' && kill_pending; }
};

// The text of /proc/PID/stat (proc(5)), which tells of the first thread; nullopt: it is none. `kill_pending`
// stands in another file.
std::optional<ProcessInfo> ParseProcess(pid_t pid, std::string_view stat);

// nullopt: gone, or it could not be read now: who acts on "gone" asks IsThere() too.
std::optional<ProcessInfo> ReadProcess(pid_t pid);

// Whether there is such a process, a zombie too, whatever /proc shows of it.
bool IsThere(pid_t pid);

// Whether the process that was seen with this pid and start still lives. True too where it cannot be read.
bool IsAlive(pid_t pid, uint64_t start);

// Whether a process has ended since it was seen, or is about to. One that ends has no environment any more. What
// it leaves was still its child when it was seen: who has that now shows only in the next look.
bool HasEndedSince(const ProcessInfo& seen);

// Whether the process acts on this signal itself: it catches it, or its first thread blocks it, and not all
// signals (for sigwait or a signalfd). False too for one that cannot be read. Needs no lock of the process's
// memory.
bool HandlesSignal(pid_t pid, int signal);

// Every process that can be seen. An error: not all were, for want of a descriptor, say.
absl::Status ForEachProcess(const std::function<void(pid_t)>& visit);

// Looks at every process, and once more, after all others, at those for which `look` set `unclear`: an exec lasts
// for less than the pass has taken, mostly. The answer: what is unclear still; empty: all was seen.
std::string LookAtEachProcess(const std::function<void(pid_t, std::string* unclear)>& look);

// Children of this process, of all its threads, zombies too. One that could not be read has its pid alone.
absl::StatusOr<std::vector<ProcessInfo>> Children();

// The value of a variable in the environment that a process was started with. NotFound: no such variable or
// process; ResourceExhausted: it could not be read now; Unavailable: the process is in an exec and has none yet;
// others: it is not ours to read.
absl::StatusOr<std::string> StartEnvironment(pid_t pid, const std::string& name);

// Sends a signal to the process that was seen with this pid and start: it is held by a pidfd before it is looked
// at again, so another process that has its pid by now is never hit. NotFound: that process has ended; others: the
// kernel refused.
absl::Status SignalProcess(pid_t pid, uint64_t start, int signal);

// "pid 71 (python, state D in nv_wait)".
std::string Describe(const ProcessInfo& process);

}  // namespace muster
