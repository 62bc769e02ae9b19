// The stop ladder: a first signal, one grace period for all workers, then SIGKILL. At half of the grace period the
// signal goes to those processes that were left out at first (session_stop.h). A ladder that has begun is
// never cancelled; its grace period can only be shortened.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace muster::host {

// From SIGKILL until a process that is still alive is taken to survive it (HOST_PHASE_STUCK).
inline constexpr absl::Duration kStuckAfterKill = absl::Seconds(10);

class Ladder {
 public:
  Ladder(BootTime now, int signal, absl::Duration grace) : signal_(signal), since_(now), kill_at_(now + grace) {}

  int signal() const { return signal_; }  // the first
  BootTime since() const { return since_; }
  BootTime kill_at() const { return kill_at_; }

  void Hasten(BootTime kill_at) { kill_at_ = std::min(kill_at_, kill_at); }
  absl::Duration grace() const { return kill_at_ - since_; }
  bool MustSignalRest(BootTime now) const { return !rest_signalled_ && !killed_ && now >= since_ + grace() / 2; }
  void RestSignalled() { rest_signalled_ = true; }
  bool MustKill(BootTime now) const { return !killed_ && now >= kill_at_; }
  void Killed() { killed_ = true; }
  bool killed() const { return killed_; }

 private:
  int signal_;
  BootTime since_;
  BootTime kill_at_;
  bool rest_signalled_ = false;
  bool killed_ = false;
};

}  // namespace muster::host
