#include "agent/core/host_watch.h"

namespace muster::agent {

void HostWatch::LinkClosed(BootTime now) {
  if (!link_closed_at_) link_closed_at_ = now;
}

void HostWatch::BeginEnding(BootTime now) { ended_at_ = now; }

void HostWatch::AllEnded(BootTime now) {
  gone_ = true;
  tell_until_ = now + kGoneLimit;
}

bool HostWatch::HasDroppedUs(BootTime now) const {
  return link_closed_at_ && now > *link_closed_at_ + kHostEndWait;
}

}  // namespace muster::agent
