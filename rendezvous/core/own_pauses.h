// Pauses of the coordinator's own process: after one, hosts must not be taken for silent.
#pragma once

#include "base/core/time.h"

namespace muster::rendezvous {

class OwnPauses {
 public:
  OwnPauses(BootTime now, absl::Duration lease) : lease_(lease), last_event_(now) {}

  // To be called at every event of the coordinator: ticks come every kTick, so a longer gap was a pause. Returns
  // by how much all deadlines of hosts must move later, in total at most one lease.
  absl::Duration Notice(BootTime now);

  BootTime last_event() const { return last_event_; }
  // End of the last long pause: statuses that arrived during it may still be unread.
  BootTime woke_at() const { return woke_at_; }

 private:
  absl::Duration lease_;
  absl::Duration total_;  // of all shifts
  BootTime last_event_;
  BootTime woke_at_ = absl::InfinitePast();
};

}  // namespace muster::rendezvous
