// Starts workers and agents and reports how they ended. This class alone reaps the processes that it started;
// until then no other process can get the pid, or a worker's process group.
//
// Lives on the loop thread, spawning included: a worker's parent-death signal fires when the *thread* that spawned
// it ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/core/host_core.h"
#include "agent/host/core/worker_environment.h"
#include "agent/host/process/session_drain.h"
#include "base/io/event_loop.h"
#include "base/proc/proc_scan.h"
#include "base/proc/process_setup.h"

namespace muster::host {

inline constexpr int kFirstMoreFd = 4;  // in the new process
// Lower ones could be overwritten while those of the new process are set.
inline constexpr int kLowestMoreFd = 16;
// After a worker's end, for its readers (leftovers.h) to pass on what it wrote last. Less than kEchoPatience of
// core/round_failures.h, so that the consequences of this end are not taken for the cause.
inline constexpr absl::Duration kReadersLimit = absl::Seconds(1);
inline constexpr absl::Duration kReadersPoll = absl::Milliseconds(5);

struct WorkerCommand {
  std::vector<std::string> argv;
  std::string file = "";  // the file to execute, searched on the worker's PATH if it has no slash; empty: argv[0]
  EnvironmentMap environment;
  bool helper = false;      // one of muster's own tools: neither signals to the workers nor sweeps reach it
  std::set<int> cpus = {};  // CPUs to bind it to; empty: no binding
  int stdin_fd = 0;
  int stdout_fd = 1;
  int stderr_fd = 2;
  std::vector<int> more_fds = {};  // its descriptors 4, 5, ...; each at least kLowestMoreFd
};

// One line for /bin/sh.
WorkerCommand ShellCommand(const std::string& line, const EnvironmentMap& environment);

class Spawner {
 public:
  // Called on the loop, never from inside a call of this class other than Collect. Either `failed` is called once,
  // or `executing` and then `exited` once each. At `failed` and `exited` the process has been reaped and its group
  // killed or spared; its readers were given kReadersLimit before (see leftovers).
  struct WorkerEvents {
    std::function<void()> executing;
    std::function<void(int exit_code, const std::string& why)> failed;
    std::function<void(const Ending& ending)> exited;
    // If set, called before the process is reaped and the rest of its group is killed.
    std::function<void(pid_t pid, const Ending& ending)> ends = {};
    // If set, called before `exited`. True: the processes of the worker's session that still handle the signal of
    // StopWorkers are not killed. If there are any, Ending::rest_lives is set in `exited`, and rest_ended follows.
    std::function<bool()> spares_rest = {};
    std::function<void()> rest_ended = {};
  };
  using AgentExited = std::function<void(const Ending& ending)>;

  Spawner(EventLoop* loop, const Inherited& inherited, absl::Duration readers_limit = kReadersLimit);
  ~Spawner();  // kills nothing
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  // Starts a session leader with descriptors 0, 1 and 2 and more_fds only, which the kernel kills when the host
  // ends. Errors: no process could be created; errors of exec are reported by `failed`.
  absl::StatusOr<pid_t> SpawnWorker(const WorkerCommand& command, WorkerEvents events);

  // The same for a worker that another process has forked for this one, of which it will be a child within a
  // moment. Call it before that, so that nobody else reaps it. status_fd: the reading end of its status pipe,
  // which does not block; this object closes it, also on errors: the process was not watchable, and has been
  // killed.
  absl::Status AdoptWorker(pid_t pid, int status_fd, const std::string& program, WorkerEvents events);

  // Starts `muster ARGUMENTS` from this very binary with `link_fd` as descriptor 3 and more_fds as for a worker,
  // in its own session. It outlives the host.
  absl::StatusOr<pid_t> SpawnAgent(const std::vector<std::string>& arguments, const EnvironmentMap& environment,
                                   int link_fd, const std::vector<int>& more_fds, AgentExited exited);

  // Signals the process group of every live worker and of every spared session.
  void SignalWorkers(int signal);
  // The first signal of a stop: see core/session_stop. SignalRest: half of the grace period is over.
  void StopWorkers(int signal);
  void SignalRest() { drain_.SignalRest(); }
  // Signals the topmost processes of the workers' sessions that handle the signal. Returns their number.
  int ForwardSignal(int signal);
  // The same for the sessions of these workers alone. SignalGroups: for their process groups, of which it returns
  // the number that got the signal.
  int ForwardSignal(int signal, const std::set<pid_t>& workers);
  int SignalGroups(int signal, const std::set<pid_t>& workers);
  // Sends SIGKILL to all workers and stops waiting for spared processes: rest_ended is not called. For a sweep.
  void KillWorkers();
  // Processes other than workers that had the grace period, since the previous call.
  std::set<pid_t> TakeSpared() { return drain_.TakeSpared(); }
  // Signals one process that this class started; no effect once it was reaped.
  void Kill(pid_t pid, int signal);
  // The same for the process group that it leads, while it lives.
  void KillGroup(pid_t leader);

  bool Knows(pid_t pid) const { return processes_.count(pid) > 0; }
  std::vector<pid_t> LiveWorkers() const;  // those not reaped
  // Reaps and reports this process now, if it has ended and has no readers. Both SIGCHLD and the pidfd lead here.
  void Collect(pid_t pid);
  // The same for every worker. Call it before obeying an order, so that an end before the order is not attributed
  // to it.
  void CollectWorkers();

 private:
  struct Process {
    pid_t pid = 0;
    bool worker = false;
    bool agent = false;
    int pidfd = -1;
    int status_fd = -1;  // of the exec stage, until it has reported
    std::string program;
    std::optional<std::pair<int, std::string>> failure;  // exit code and reason
    WorkerEvents events;
    AgentExited agent_exited;
    std::optional<Ending> ended;   // not reaped yet: its readers are awaited
    EventLoop::TimerId timer = 0;  // 0: none
  };
  struct Launch;  // arguments of posix_spawn

  static std::unique_ptr<Process> Record(pid_t pid, bool worker, int status_fd, const std::string& program,
                                         WorkerEvents events);
  absl::Status Adopt(std::unique_ptr<Process> process);
  void ReadStatus(Process* process);
  void AwaitReaders(pid_t pid);
  void Report(pid_t pid, const Ending& ending);
  void LoseAdopted(pid_t pid);
  std::unique_ptr<Process> Forget(pid_t pid);
  std::set<pid_t> Sessions() const;
  std::set<pid_t> LiveOf(const std::set<pid_t>& workers) const;

  EventLoop* const loop_;
  const Inherited inherited_;
  const absl::Duration readers_limit_;
  std::map<pid_t, std::unique_ptr<Process>> processes_;
  SessionDrain drain_;
};

}  // namespace muster::host
