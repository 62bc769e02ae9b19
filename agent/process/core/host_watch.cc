#include "agent/process/core/host_watch.h"

#include <utility>

namespace muster::agent {

void HostWatch::Runs(BootTime now, BootTime lease_deadline) {
  const bool stood_still = now - ran_at_ > kSuspension;
  if (stood_still && ran_at_ < lease_deadline && lease_deadline <= now) suspended_at_ = lease_deadline;
  ran_at_ = now;
}

void HostWatch::LinkClosed(BootTime now) {
  if (!link_closed_at_) link_closed_at_ = now;
}

void HostWatch::BeginEnding(BootTime now, std::string how) {
  ended_at_ = now;
  how_ended_ = std::move(how);
}

void HostWatch::AllEnded(BootTime now, absl::Duration limit) {
  gone_ = true;
  tell_until_ = now + limit;
}

bool HostWatch::HasDroppedUs(BootTime now) const {
  return link_closed_at_ && now > *link_closed_at_ + kHostEndWait;
}

}  // namespace muster::agent
