#include "rendezvous/core/own_pauses.h"

#include <algorithm>

#include "rendezvous/core/options.h"

namespace muster::rendezvous {

absl::Duration OwnPauses::Notice(BootTime now) {
  const absl::Duration late = now - last_event_ - kTick;
  last_event_ = now;
  if (late >= lease_ / 2 && now - woke_at_ >= kLeasesBetweenPauses * lease_) woke_at_ = now;
  if (late < kLateness || total_ >= lease_) return absl::ZeroDuration();
  const absl::Duration shift = std::min(late, lease_ - total_);
  total_ += shift;
  return shift;
}

}  // namespace muster::rendezvous
