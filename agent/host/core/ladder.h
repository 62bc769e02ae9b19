// The stop ladder: a first signal, one grace period for all workers, then SIGKILL. A ladder that has begun is
// never cancelled; its grace period can only be shortened.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace muster::host {

class Ladder {
 public:
  Ladder(BootTime now, absl::Duration grace) : kill_at_(now + grace) {}

  void Hasten(BootTime kill_at) { kill_at_ = std::min(kill_at_, kill_at); }
  bool MustKill(BootTime now) const { return !killed_ && now >= kill_at_; }
  void Killed() { killed_ = true; }
  bool killed() const { return killed_; }
  BootTime kill_at() const { return kill_at_; }

 private:
  BootTime kill_at_;
  bool killed_ = false;
};

}  // namespace muster::host
