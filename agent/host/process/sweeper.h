// Ends everything that the workers of a round left behind: children of `bash train.sh`, DataLoaders, double forks,
// processes with a session of their own. The host is a subreaper, so whatever lost its parent becomes the host's
// child; killing all children that nobody knows, again and again until there are none, ends every descendant.
//
// Lives on the loop thread; blocks for as long as reading /proc takes, and as comes_from_worker does.
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
inline constexpr absl::Duration kSweepReport =
    absl::Seconds(1);  // how often an unfinished sweep says what is left

class Sweeper {
 public:
  // left: empty when all is gone, which ends the sweep; else what is not (yet).
  using Swept = std::function<void(const std::string& left)>;
  // Ends the descendants of these, which are no children of ours: those of a worker that the kernel holds.
  using EndHidden = std::function<void(const std::set<pid_t>& held)>;
  // Whether a process that lost its parent to us comes from a worker of ours; nullopt: not known now.
  using ComesFromWorker = std::function<std::optional<bool>(const ProcessInfo& child)>;

  // Makes this process a subreaper. Children that exist already were started by the shell that executed us. They
  // are left alone, and so is all that they ever leave to us: where there were such children, comes_from_worker
  // says of each orphan whose it is.
  // swept is called on the loop, also from inside Sweep(); end_hidden each kSweepReport of an unfinished sweep.
  Sweeper(EventLoop* loop, Spawner* spawner, Swept swept, EndHidden end_hidden = {},
          ComesFromWorker comes_from_worker = {});
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  // Not OK: this process cannot be a subreaper, or it could not find out which children were there before. No
  // sweep may be asked for then.
  const absl::Status& status() const { return status_; }

  void Sweep();
  bool sweeping() const { return sweeping_; }
  // Strangers that the newest sweep has ended, but for those that others than we have reaped.
  const std::set<pid_t>& ended() const { return ended_; }

  // SIGCHLD came, which may stand for many: collects every child that has ended, the spawner's and strangers'.
  void OnChildSignal();

 private:
  void CollectEnded();
  void Passes();
  std::string KillOnce();  // what is left
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
  std::set<pid_t> strangers_;  // children that were here before us, and what these have left to us
  bool had_strangers_ = false;
  std::set<pid_t> held_;  // children of ours that the last pass found
  std::set<pid_t> ended_;
  bool sweeping_ = false;
  bool in_pass_ = false;
  bool again_ = false;
  BootTime next_report_;
  absl::Duration retry_;
  EventLoop::TimerId timer_ = 0;  // 0: none
};

}  // namespace muster::host
