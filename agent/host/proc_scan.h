// What /proc says about processes. Any thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::host {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';  // as in /proc/PID/stat: R S D Z T ...
  std::string name;
  bool kill_pending = false;  // SIGKILL was sent and not yet obeyed; read only in state D

  bool ended() const { return state == 'Z' || state == 'X' || state == 'x'; }
  // The kernel does not let it go: nothing that we can do ends it, and it executes no more of its own code.
  bool stuck() const { return state == 'D' && kill_pending; }
};

std::optional<ProcessInfo> ReadProcess(pid_t pid);  // nullopt: gone

// Every process that can be seen.
void ForEachProcess(const std::function<void(pid_t)>& visit);

// Children of this process, of all its threads, zombies too.
std::vector<ProcessInfo> Children();

// The value of a variable in the environment that a process was started with; nullopt: not there or not readable.
std::optional<std::string> StartEnvironment(pid_t pid, const std::string& name);

// "pid 71 (python, state D in nv_wait)".
std::string Describe(const ProcessInfo& process);

}  // namespace muster::host
