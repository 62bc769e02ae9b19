// For how long each worker of a round has shown no sign of life. Whether that is a hang, the coordinator decides,
// by the clocks of all nodes (rendezvous/core/stall.h).
//
// Looks for signs come about once a second (agent/host/watch/activity_watch.h). Only the time between two of them
// counts, and not much of that: a machine that sleeps, a file system that keeps the looks waiting, or a Ctrl-Z
// accuses nobody. Pure.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "base/time.h"

namespace muster::host {

inline constexpr absl::Duration kMaxCountedGap = absl::Seconds(2);  // between two looks

class IdleClock {
 public:
  void BeginRound(BootTime now, int workers);  // all of them have just shown a sign
  void EndRound() { workers_.clear(); }

  // signs: local ranks that have shown one since the last look.
  void OnLook(BootTime now, const std::set<int>& signs);
  void OnEnded(int local_rank);  // no sign is expected of it any more
  void OnSuspended(bool suspended) { suspended_ = suspended; }

  // Of the worker that showed one last, among those that live; nullopt: none lives.
  std::optional<absl::Duration> Shortest() const;
  int signs() const { return signs_; }      // looks of this round that found one
  absl::Duration Of(int local_rank) const;  // zero: not known
  // The given worker if it lives, else the first one that does; nullopt: none lives.
  std::optional<int> LiveOne(int local_rank) const;

 private:
  struct Worker {
    absl::Duration idle = absl::ZeroDuration();
    bool lives = true;
  };

  std::vector<Worker> workers_;  // by local rank; empty: no round
  int signs_ = 0;
  BootTime looked_at_ = absl::InfinitePast();
  bool suspended_ = false;
};

}  // namespace muster::host
