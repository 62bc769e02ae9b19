// Kills everything that the workers of a round left behind: children of `bash train.sh`, DataLoaders, double
// forks, processes with their own session. The host is a subreaper, so every orphan becomes its child; killing all
// unknown children, again and again until there are none, ends every descendant.
//
// Lives on the loop thread; blocks while it reads /proc and while comes_from_worker runs.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "agent/host/process/spawner.h"
#include "base/io/event_loop.h"
#include "base/proc/proc_scan.h"

namespace muster::host {

inline constexpr absl::Duration kSweepRetry = absl::Milliseconds(20);
inline constexpr absl::Duration kSweepRetryMax = absl::Milliseconds(200);
inline constexpr absl::Duration kSweepReport = absl::Seconds(1);  // between reports of an unfinished sweep

class Sweeper {
 public:
  // left: empty when everything has ended, which ends the sweep; else the processes still alive.
  using Swept = std::function<void(const std::string& left)>;
  // Kills the descendants of these processes. They are not children of the host while their parent, which SIGKILL
  // has not ended yet, is held by the kernel.
  using EndHidden = std::function<void(const std::set<pid_t>& held)>;
  // Whether an orphan that became the host's child descends from one of its workers; nullopt: not known now.
  using ComesFromWorker = std::function<std::optional<bool>(const ProcessInfo& child)>;

  // Makes this process a subreaper. Children that exist already were started by the shell that executed muster.
  // They, and the orphans that they ever leave, are spared: if there were such children, comes_from_worker decides
  // for each orphan.
  // swept is called on the loop, also from inside Sweep(); end_hidden every kSweepReport of an unfinished sweep.
  Sweeper(EventLoop* loop, Spawner* spawner, Swept swept, EndHidden end_hidden = {},
          ComesFromWorker comes_from_worker = {});
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  // Not OK: this process cannot become a subreaper, or could not list its earlier children. Sweep() must not be
  // called then.
  const absl::Status& status() const { return status_; }

  void Sweep();
  // Processes, other than the spawner's, that the latest sweep killed and this process reaped.
  const std::set<pid_t>& ended() const { return ended_; }

  // Call it on SIGCHLD, which may stand for several children: reaps every child that has ended.
  void OnChildSignal();

 private:
  void CollectEnded();
  bool Collect(pid_t pid);
  void Passes();
  std::string KillOnce();  // returns what is left
  enum class Owner { kWorker, kStranger, kUnknown };
  Owner OwnerOf(const ProcessInfo& child);
  void Finish();
  void RetryLater();

  EventLoop* const loop_;
  Spawner* const spawner_;
  const Swept swept_;
  const EndHidden end_hidden_;
  const ComesFromWorker comes_from_worker_;
  absl::Status status_;
  std::set<pid_t> strangers_;  // children from before the start, and the orphans that they have left
  bool had_strangers_ = false;
  std::set<pid_t> held_;  // children that the last pass found alive
  std::set<pid_t> ended_;
  bool sweeping_ = false;
  bool in_pass_ = false;
  bool again_ = false;
  BootTime next_report_;
  absl::Duration retry_;
  EventLoop::TimerId timer_ = 0;  // 0: none
};

}  // namespace muster::host
