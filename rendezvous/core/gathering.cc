#include "rendezvous/core/gathering.h"

#include <algorithm>

namespace muster::rendezvous {

void Gathering::BeginAfterDrain(BootTime now, absl::Duration restart_delay) {
  pause = restart_delay;
  not_before = now + pause;
  since = now;
  is_ours = true;
  min_reached = absl::InfiniteFuture();
}

void Gathering::LearnDuration(BootTime now, absl::Duration reported) {
  if (reported > absl::ZeroDuration() && !is_ours) since = std::min(since, now - reported);
}

}  // namespace muster::rendezvous
