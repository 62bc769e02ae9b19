// For how long the workers of a round have shown no sign of life. Whether that is a hang, the coordinator decides,
// by the clocks of all nodes (rendezvous/core/stall.h).
//
// Time is counted from tick to tick of the host, and of a longer gap only a little: a machine that sleeps or a
// host that was stopped accuses nobody. A Ctrl-Z does not count either. Signs come from other threads, which a
// file system may hold up; that is no reason for the clock to stand still. Pure.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "base/core/time.h"

namespace muster::host {

inline constexpr absl::Duration kMaxCountedGap = absl::Seconds(2);  // between two ticks

class IdleClock {
 public:
  // window: of warmth (base/stacks/warm_up.h).
  explicit IdleClock(absl::Duration window) : window_(window) {}

  void BeginRound(BootTime now, int workers);  // they have just shown a sign
  void EndRound() { workers_.clear(); }

  void OnTick(BootTime now);
  void OnSigns(const std::set<int>& local_ranks);
  // No sign is expected of it any more. The others begin anew: it may have been the one that showed signs for all.
  void OnEnded(int local_rank);
  // All of them. A sign ends it, too, unless it was given just before.
  void OnSuspended(bool suspended);

  // How long all workers have been silent; nullopt: none lives.
  std::optional<absl::Duration> Silence() const;
  absl::Duration Of(int local_rank) const;     // of one; zero: not known
  bool IsSilentSoFar(int local_rank) const;    // it has shown none in this round
  int signs() const { return windows_.seen; }  // windows of this round with a sign of any worker
  // Live workers that used to show signs steadily and have shown none for longer than `limit`, while other live
  // ones of this node have shown some within half of that.
  std::vector<int> Stragglers(absl::Duration limit) const;
  // The given worker if it lives, else the first one that does; nullopt: none lives.
  std::optional<int> LiveOne(int local_rank) const;

 private:
  struct Windows {
    int seen = 0;
    absl::Duration next = absl::ZeroDuration();  // by counted_
  };
  struct Worker {
    absl::Duration idle = absl::ZeroDuration();
    Windows windows;
    bool lives = true;
  };
  void Count(Windows* windows) const;

  const absl::Duration window_;
  std::vector<Worker> workers_;                    // by local rank; empty: no round
  absl::Duration silence_ = absl::ZeroDuration();  // of all
  absl::Duration counted_ = absl::ZeroDuration();  // since the round began
  Windows windows_;                                // of all
  BootTime ticked_at_ = absl::InfinitePast();
  std::optional<absl::Duration> suspended_for_;  // nullopt: they are not
};

}  // namespace muster::host
