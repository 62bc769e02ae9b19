// A node that leaves: by a signal, by a notice of its machine's end, or because its time is nearly over.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/host/core/host_core.h"
#include "agent/host/core/report.h"
#include "base/duration.h"

namespace muster::host {

std::string NameOf(int signal) {
  const std::string name = SignalName(signal);
  return name.empty() ? absl::StrCat("signal ", signal) : name;
}

// reason: empty where the signal is it.
void HostCore::BeginLeave(BootTime now, int signal, const std::string& reason, absl::Duration grace,
                          Effects* out) {
  leave_.emplace();
  leave_->set_signal(signal);
  leave_->set_cancel(signal == SIGINT);
  leave_->set_reason(reason);
  leave_at_ = now;
  leave_until_ = now + grace;
  Say(reason.empty() ? Severity::kInfo : Severity::kWarning,
      absl::StrCat(reason.empty() ? NameOf(signal) : reason,
                   leave_->cancel() ? ": cancelling the job" : ": leaving the job",
                   Active() ? absl::StrCat("; the workers have ", muster::FormatDuration(grace), " to exit") : ""),
      out, {.event = events::kLeaving});
  if (Active()) BeginStop(now, signal, grace, v1::OUTCOME_STOPPED, "asked to leave", out);
  SendStatus(out);
}

// The platform's own SIGTERM follows its notice while the workers save: it says nothing new. The one after it
// does, unless it is the same told twice: timeout(1) signals its child and then the group, and what signals every
// process of a container reaches us also by way of process 1.
bool HostCore::ConfirmsLeave(BootTime now, int signal, Effects* out) {
  if (!leave_) return false;
  if (signalled_) return now < *signalled_ + kOneSignal;
  signalled_ = now;
  Say(Severity::kInfo, absl::StrCat(NameOf(signal), ": already leaving (", leave_->reason(), ")"), out);
  return true;
}

std::string HostCore::WhyLeft() const {
  if (!leave_->reason().empty()) return absl::StrCat("asked to leave: ", leave_->reason());
  return absl::StrCat(leave_->cancel() ? "cancelled" : "asked to leave", " by ", NameOf(leave_->signal()));
}

// The nodes do not agree on it: each goes by its own clock, and what a clock that is ahead begins is no round for
// the others any more (IsTooLateFor).
void HostCore::OnWallClock(BootTime now, absl::Time wall, Effects* out) {
  SetWallAtBoot(wall - (now - absl::UnixEpoch()));
  if (!options_.stop_before || leave_ || exit_ || finished_) return;
  const StopBefore& stop = *options_.stop_before;
  stop_at_ = now + (stop.deadline - stop.before - wall);
  if (now < stop_at_) return;
  // The time that is set aside is theirs: when whatever ends this node will come is known here, as it is of no
  // signal.
  const absl::Duration left = absl::Trunc(stop.deadline - kDeadlineReserve - wall, absl::Seconds(1));
  BeginLeave(now, SIGTERM, stop.why, std::max(left, kLeastGrace), out);
}

// The others may leave at about the same time, and while they save they need the lease that the coordinator here
// gives. Once they are done, or go on to wait for another primary, it releases this node.
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
