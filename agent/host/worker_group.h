// The workers of this node's current round, and all that belongs to them: their commands and environment, their
// output and error files, the file timer, the progress file, and what is known about why they failed. Carries out
// the core's effects on workers, and reports what happens to them through the driver.
//
// Lives on the loop thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/core/host_core.h"
#include "agent/host/launch_plan.h"
#include "agent/host/output/worker_output.h"
#include "agent/host/preload/preloader.h"
#include "agent/host/process/spawner.h"
#include "agent/host/report/error_file.h"
#include "agent/host/report/failure_details.h"
#include "agent/host/watch/activity_watch.h"
#include "agent/host/watch/file_timer_pipe.h"
#include "agent/host/watch/flight_recorder.h"
#include "agent/host/watch/oom_watch.h"
#include "agent/host/watch/progress_watch.h"
#include "agent/host/watch/snapshot_taker.h"
#include "base/console/writer.h"
#include "base/io/event_loop.h"
#include "base/io/owned_fd.h"
#include "base/proc/keyboard.h"
#include "base/proc/marker.h"
#include "base/proc/proc_scan.h"

namespace muster::host {

// Between two looks whether other threads have read all that ended processes wrote; see kLastOutputLimit.
inline constexpr absl::Duration kLastOutputPoll = absl::Milliseconds(2);

// For what a failed worker wrote last to be read before its end is reported: it may show that a peer had gone.
inline constexpr absl::Duration kLastWordsLimit = absl::Milliseconds(100);

// For the preloader to fork the workers of a round, and the part of the lease that it may take at most.
inline constexpr absl::Duration kForkLimit = absl::Seconds(5);
inline constexpr int kForkLeaseFraction = 3;

inline constexpr absl::Duration kSignalExplains = absl::Seconds(5);  // how its worker ended

class WorkerGroup {
 public:
  // Everything that is passed as a pointer must outlive this object. The core is only queried.
  WorkerGroup(EventLoop* loop, Spawner* spawner, Preloader* preloader, const HostCore* core, HostDriver* driver,
              const LaunchPlan* plan, const Marker& marker, Writer* writer);

  // Opens what all rounds use. Call it before the core gets its first event. Errors: the machine lacks a resource.
  absl::Status Start();

  // Carry out the effects of these names.
  void Spawn(const SpawnWorkers& effect);
  void Signal(int signal);
  void Stop(int signal);
  void Forward(int signal);
  void SignalRanks(const host::SignalRanks& effect);
  void EndHung(int local_rank, const std::string& why);
  void KeepSnapshot(const std::string& text);
  void GatherOutput(std::optional<int> local_rank);

  void BeforeSweep();  // workers that have ended by now were not killed by the sweep; all others will be
  // Whether a child of this process that it did not start descends from a worker. nullopt: not known now.
  std::optional<bool> IsAncestorOf(const ProcessInfo& child) const;
  std::set<pid_t> Pids() const;  // of all workers of the round, ended ones included
  // Those that this snapshot is to show, ended ones included.
  std::vector<SnapshotTaker::Subject> Subjects(const TakeSnapshot& snapshot) const;
  const std::string& imports_file() const { return imports_file_; }  // of the round that learns; empty: none
  WorkerOutput* output() { return &output_; }

 private:
  // Spawning.
  void WarnOfMissingReader(const v1::Round& round) const;
  std::optional<Undebuggable> PrepareDebugging(const v1::Round& round);
  void KeepErrorFiles(absl::Duration limit);
  absl::Duration CapByLease(absl::Duration most, int part) const;
  bool NeedsPrivateFiles() const;
  struct Prepared {
    int local_rank = 0;
    Preloader::Worker start;
    std::string error_file, done_file, heartbeat_file;
    bool keeps_files = false;
    std::shared_ptr<const OwnedFd> stacks = nullptr;  // of a forked one
  };
  // The newest signal that somebody wanted a worker to have.
  struct OrderedSignal {
    int signal = 0;  // 0: none
    std::string why;
    BootTime at = absl::InfinitePast();
    // A worker that has handled it may end by the same signal later, for another reason.
    bool Explains(int end) const { return end == signal && EventLoop::Now() < at + kSignalExplains; }
  };
  struct Running {
    pid_t pid = 0;
    std::string heartbeat_file;
    std::shared_ptr<const OwnedFd> stacks;  // which it writes when it is asked to; nullptr: it cannot
    OrderedSignal ordered = {};
  };
  absl::StatusOr<Prepared> PrepareWorker(const v1::Round& round, int local_rank);
  void Learn(Prepared* worker);
  std::vector<absl::StatusOr<pid_t>> StartAll(const SpawnWorkers& effect, std::vector<Prepared>* prepared);
  std::optional<std::vector<pid_t>> Fork(const SpawnWorkers& effect, std::vector<Prepared>* prepared);
  void Started(const Prepared& prepared, const absl::StatusOr<pid_t>& pid);

  // What happens to workers.
  Spawner::WorkerEvents EventsOf(int local_rank, int rank);
  void SayWhatItLeaves(int rank, pid_t pid, const Ending& ending) const;
  void OnSpawnFailed(int local_rank, int exit_code, const std::string& why);
  void OnExit(int local_rank, Ending ending);
  void ReportExit(int local_rank, Ending ending, BootTime until);
  void OnTimerExpired(int local_rank, const std::string& what);
  void KillWorker(int local_rank);

  void WatchActivity();
  void OpenTimerPipe();
  void AwaitOutput(std::optional<int> local_rank, BootTime until);
  bool IsInWorkersSession(const ProcessInfo& child) const;

  EventLoop* const loop_;
  Spawner* const spawner_;
  Preloader* const preloader_;
  const HostCore* const core_;
  HostDriver* const driver_;
  const LaunchPlan* const plan_;
  const Marker marker_;
  const int slots_;
  OwnedFd null_;
  const TerminalModes terminal_;
  WorkerOutput output_;
  OomWatch oom_watch_;
  ErrorFiles error_files_;
  FailureDetails failure_details_;
  FileTimerPipe timer_pipe_;
  ProgressWatch progress_;
  ActivityWatch activity_;
  FlightRecorders recorders_;
  std::set<int> without_input_;       // of the current round, local ranks: they read /dev/null
  std::optional<int> debugged_here_;  // local rank of the worker of --debug, if it runs here
  std::string imports_file_;          // of the last round that learns
  uint16_t listens_on_ = 0;           // port of rank 0 in the current round; 0: that runs elsewhere
  std::map<int, Running> workers_;    // of the current round, by local rank, ended ones included
};

}  // namespace muster::host
