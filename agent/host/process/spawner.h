// Starts workers and agents and tells how they ended. Every process that this class started is reaped by it and by
// nobody else; until then its pid, and a worker's process group, cannot be taken by another process.
//
// Lives on the loop thread, all of it: a worker's parent-death signal fires when the *thread* that spawned it
// ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/core/host_core.h"
#include "agent/host/core/worker_environment.h"
#include "agent/host/process/session_drain.h"
#include "base/io/event_loop.h"
#include "base/proc/process_setup.h"

namespace muster::host {

struct WorkerCommand {
  std::vector<std::string> argv;
  std::string file = "";  // what is executed, looked for on the worker's PATH if it has no slash; empty: argv[0]
  EnvironmentMap environment;
  bool helper = false;      // a tool of ours: no signal to the workers and no sweep reaches it
  std::set<int> cpus = {};  // it may run on these alone; empty: wherever we may
  int stdin_fd = 0;
  int stdout_fd = 1;
  int stderr_fd = 2;
};

class Spawner {
 public:
  // On the loop, never from inside a call of this class but Collect. Either `failed`, once; or `executing` and
  // then `exited`, once each. In `failed` and `exited` the process is reaped and its group was killed or spared.
  struct WorkerEvents {
    std::function<void()> executing;
    std::function<void(int exit_code, const std::string& why)> failed;
    std::function<void(const Ending& ending)> exited;
    // Where it is set: asked before `exited`. True: those of the worker's session that handle the signal of
    // StopWorkers are not killed. If there are any, `exited` says so, and rest_ended follows.
    std::function<bool(const Ending& ending)> spares_rest = {};
    std::function<void()> rest_ended = {};
  };
  using AgentExited = std::function<void(const Ending& ending)>;

  Spawner(EventLoop* loop, const Inherited& inherited);
  ~Spawner();  // ends nobody
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  // A session leader with descriptors 0, 1 and 2 only, bound to our life. Errors: the machine refused a process;
  // exec's own errors come as `failed`.
  absl::StatusOr<pid_t> SpawnWorker(const WorkerCommand& command, WorkerEvents events);

  // `muster ARGUMENTS` of this very binary, with `link_fd` as its descriptor 3: a session of its own that outlives
  // us.
  absl::StatusOr<pid_t> SpawnAgent(const std::vector<std::string>& arguments, const EnvironmentMap& environment,
                                   int link_fd, AgentExited exited);

  // To the process group of every worker alive, and of what was spared of others.
  void SignalWorkers(int signal);
  // The same, once; remembers who handles this signal.
  void StopWorkers(int signal);
  // To each process of the workers' sessions that handles it. The answer: how many.
  int ForwardSignal(int signal);
  // Sends SIGKILL to all workers and stops waiting for what was spared: rest_ended does not follow. For a sweep.
  void KillWorkers();
  // Processes that got their own time after their worker's first process had ended, since this was asked last.
  std::set<pid_t> TakeSpared() { return drain_.TakeSpared(); }
  // To one process of ours; nothing if it was reaped.
  void Kill(pid_t pid, int signal);

  bool Knows(pid_t pid) const { return processes_.count(pid) > 0; }
  std::vector<pid_t> LiveWorkers() const;  // those not reaped
  // If this process of ours has ended: says so and reaps it, now. SIGCHLD and the pidfd both lead here.
  void Collect(pid_t pid);
  // The same of every worker: before an order is obeyed to which its end would be put down.
  void CollectWorkers();

 private:
  struct Process {
    pid_t pid = 0;
    bool worker = false;
    bool agent = false;
    int pidfd = -1;
    int status_fd = -1;  // of the exec stage, until it has spoken
    std::string program;
    std::optional<std::pair<int, std::string>> failure;  // exit code and reason
    WorkerEvents events;
    AgentExited agent_exited;
  };
  struct Launch;  // what posix_spawn takes

  absl::Status Adopt(std::unique_ptr<Process> process);
  void ReadStatus(Process* process);
  std::set<pid_t> Sessions() const;

  EventLoop* const loop_;
  const Inherited inherited_;
  std::map<pid_t, std::unique_ptr<Process>> processes_;
  SessionDrain drain_;
};

}  // namespace muster::host
