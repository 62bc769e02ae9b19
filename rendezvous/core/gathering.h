// How far the present gathering of nodes has come. Whether a round begins: next_round.h.
#pragma once

#include "base/core/time.h"

namespace muster::rendezvous {

struct Gathering {
  explicit Gathering(BootTime now) : since(now) {}

  bool first_round = true;  // no round has been made or seen
  BootTime since;           // what the timeouts are measured from, also by the agents' reports after a restart
  bool is_ours = false;     // this coordinator has drained a round itself, so it knows `since`
  BootTime min_reached = absl::InfiniteFuture();  // since when MIN nodes are ready
  absl::Duration pause = absl::ZeroDuration();    // restart delay before the next round
  BootTime not_before = absl::InfinitePast();     // end of the pause
  BootTime newcomers_since =
      absl::InfiniteFuture();  // since when enough new nodes to grow a running group are ready
  int largest = 0;             // greatest node count of any round so far

  void BeginAfterDrain(BootTime now, absl::Duration restart_delay);
  // An agent has waited in this gathering for so long. Ignored once this coordinator knows itself.
  void LearnDuration(BootTime now, absl::Duration reported);
};

}  // namespace muster::rendezvous
