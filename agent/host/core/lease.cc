#include "agent/host/core/lease.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::host {
namespace {

constexpr absl::Duration kLeastShown =
    absl::Milliseconds(100);  // durations in messages are cut to a multiple of it

}  // namespace

void Lease::Extend(const v1::HostDirective& directive) {
  if (!exists()) return;
  if (directive.lease_ms() > 0) length_ = absl::Milliseconds(directive.lease_ms());
  if (directive.lease_deadline_boot_ns() == 0) return;
  deadline_ = std::max(deadline_, FromBootNanos(directive.lease_deadline_boot_ns()));
}

BootTime Lease::TermMoment() const { return std::max(KillMoment() - grace_, deadline_ - length_ / 3); }

// On the primary's own node the lease depends on the answers of the other members: the primary cannot tell whether
// they are stalled or it is cut off itself, and another primary that they reach waits for one lease only. So the
// primary's workers get no more time to stop than those of any other node that is cut off.
std::string Lease::WhyItEnds(BootTime now, bool awaits_members) const {
  const auto shown = [](absl::Duration time) { return absl::FormatDuration(absl::Trunc(time, kLeastShown)); };
  const std::string silence = shown(now - (deadline_ - length_));
  // No grace is left if this process was frozen until after the moment of SIGKILL.
  const bool grace_is_left = KillMoment() - now >= kLeastShown;
  return absl::StrCat(
      awaits_members
          ? absl::StrCat("no other node answered for ", silence, " (all are stalled, or this node is cut off)")
          : absl::StrCat("the coordinator did not answer for ", silence),
      grace_is_left ? absl::StrCat("; stopping workers, which have ", shown(KillMoment() - now), " to exit")
                    : "; sending SIGKILL to the workers",
      ", because other nodes may replace them once the lease ends (--lease ", shown(length_), ")");
}

void Lease::UpdateKernelTimer(bool guards, Effects* out) {
  if (!exists()) return;
  std::optional<BootTime> wanted;
  if (guards) wanted = deadline_;
  if (wanted == kernel_timer_) return;
  kernel_timer_ = wanted;
  out->push_back(SetKernelTimer{wanted});
}

}  // namespace muster::host
