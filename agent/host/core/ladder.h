// The stop ladder: a first signal, one grace period for all workers, then SIGKILL. At half of the grace period the
// signal goes to those processes that were left out at first (session_stop.h). A ladder that has begun is never
// cancelled. Its grace period can be shortened; only the node's departure may lengthen it (LocalRound).
#pragma once

#include "base/core/time.h"

namespace muster::host {

// From SIGKILL until a process that is still alive is taken to survive it (HOST_PHASE_STUCK).
inline constexpr absl::Duration kStuckAfterKill = absl::Seconds(10);

class Ladder {
 public:
  // ordered: by the coordinator.
  Ladder(BootTime now, int signal, absl::Duration grace, bool ordered)
      : signal_(signal), ordered_(ordered), since_(now), kill_at_(now + grace) {}

  int signal() const { return signal_; }  // the first
  bool ordered() const { return ordered_; }
  BootTime since() const { return since_; }
  BootTime kill_at() const { return kill_at_; }

  void KillAt(BootTime moment) { kill_at_ = moment; }
  absl::Duration grace() const { return kill_at_ - since_; }
  bool MustSignalRest(BootTime now) const { return !rest_signalled_ && !killed_ && now >= since_ + grace() / 2; }
  void RestSignalled() { rest_signalled_ = true; }
  bool MustKill(BootTime now) const { return !killed_ && now >= kill_at_; }
  void Killed() { killed_ = true; }
  bool killed() const { return killed_; }

 private:
  int signal_;
  bool ordered_;
  BootTime since_;
  BootTime kill_at_;
  bool rest_signalled_ = false;
  bool killed_ = false;
};

}  // namespace muster::host
