// How a node leaves the job: on a signal, on a notice of its machine's end, or before its deadline.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/host/core/host_core.h"
#include "agent/host/core/report.h"
#include "base/duration.h"
#include "base/signal_name.h"

namespace muster::host {

// reason: empty if the signal is the reason.
void HostCore::BeginLeave(BootTime now, int signal, const std::string& reason, absl::Duration grace,
                          Effects* out) {
  leave_.emplace();
  leave_->set_signal(signal);
  leave_->set_cancel(signal == SIGINT);
  leave_->set_reason(reason);
  leave_at_ = now;
  leave_until_ = now + grace;
  Say(reason.empty() ? Severity::kInfo : Severity::kWarning,
      absl::StrCat(reason.empty() ? DescribeSignal(signal) : reason,
                   leave_->cancel() ? ": cancelling the job" : ": leaving the job",
                   Active() ? absl::StrCat("; the workers have ", muster::FormatDuration(grace), " to exit") : ""),
      out, {.event = events::kLeaving});
  if (Active()) BeginStop(now, signal, grace, v1::OUTCOME_STOPPED, "asked to leave", out);
  SendStatus(out);
}

bool HostCore::MeansLeave(int signal) const {
  const bool usual = signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
  return usual || options_.leave_signals.count(signal) > 0;
}

// True: this signal only confirms a leave that has begun. The platform's own SIGTERM follows its notice while the
// workers save, and is no second request. The next signal is one, unless it comes within kOneSignal: timeout(1)
// signals its child and then the group, and a signal to all processes of a container also comes through process 1.
bool HostCore::ConfirmsLeave(BootTime now, int signal, Effects* out) {
  if (!leave_) return false;
  if (signalled_) return now < *signalled_ + kOneSignal;
  signalled_ = now;
  Say(Severity::kInfo, absl::StrCat(DescribeSignal(signal), ": already leaving (", leave_->reason(), ")"), out);
  return true;
}

std::string HostCore::WhyLeft() const {
  if (!leave_->reason().empty()) return absl::StrCat("asked to leave: ", leave_->reason());
  return absl::StrCat(leave_->cancel() ? "cancelled" : "asked to leave", " by ", DescribeSignal(leave_->signal()));
}

// Each node uses its own wall clock for its deadline. A node with a fast clock leaves first; IsTooLateFor keeps
// the other nodes from starting another round because of that.
void HostCore::OnWallClock(BootTime now, absl::Time wall, Effects* out) {
  SetWallAtBoot(now, wall);
  if (!options_.stop_before || leave_ || exit_ || finished_) return;
  const StopBefore& stop = *options_.stop_before;
  stop_at_ = now + (stop.deadline - stop.before - wall);
  if (now < stop_at_) return;
  // A deadline is known in advance, unlike the end after a signal, so the workers get all of the remaining time.
  const absl::Duration left = absl::Trunc(stop.deadline - kDeadlineReserve - wall, absl::Seconds(1));
  BeginLeave(now, SIGTERM, stop.why, std::max(left, kLeastGrace), out);
}

// Other nodes may leave at about the same time, and while their workers save they need leases from the coordinator
// on this node. The coordinator releases this node once they are done or wait for another primary.
bool HostCore::StaysForOthers(BootTime now, Effects* out) {
  if (leave_->cancel() || !serves_others_ || now >= leave_until_) return false;
  if (!std::exchange(said_why_it_stays_, true)) {
    Say(Severity::kInfo,
        absl::StrCat("the other nodes still need the coordinator on this node: it stays for at most ",
                     muster::FormatDuration(absl::Ceil(leave_until_ - now, absl::Seconds(1)))),
        out);
  }
  return true;
}

bool HostCore::IsTooLateFor(BootTime now) const {
  if (!options_.stop_before) return false;
  return now + std::min(options_.stop_before->before, kMaxUselessRound) >= stop_at_;
}

}  // namespace muster::host
