#include "agent/host/core/departure.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/host/core/host_exit.h"
#include "agent/host/core/ladder.h"
#include "base/exit_codes.h"
#include "base/text/duration.h"
#include "base/text/signal_name.h"

namespace muster::host {
namespace {

// For people: from a second on, to the nearest second. The time to a deadline has nanoseconds.
std::string Readable(absl::Duration d) {
  if (d < absl::Milliseconds(1)) return "0s";
  if (d < absl::Seconds(1)) return muster::FormatDuration(absl::Trunc(d, absl::Milliseconds(1)));
  return muster::FormatDuration(absl::Floor(d + absl::Milliseconds(500), absl::Seconds(1)));
}

}  // namespace

void Departure::Begin(BootTime now, const LeaveRequest& request, std::optional<absl::Duration> workers_have,
                      Effects* out) {
  leave_.emplace();
  leave_->set_signal(request.signal);
  leave_->set_cancel(request.signal == SIGINT);
  leave_->set_reason(request.reason);
  begun_at_ = now;
  grace_ends_ = now + request.grace;
  const bool by_signal = request.reason.empty();
  Say(by_signal ? Severity::kInfo : Severity::kWarning,
      absl::StrCat(by_signal ? DescribeSignal(request.signal) : request.reason,
                   leave_->cancel() ? ": cancelling the job" : ": leaving the job",
                   workers_have ? absl::StrCat("; the workers have ", Readable(*workers_have), " to exit",
                                               leave_->cancel() ? " (again: at once)" : "")
                                : ""),
      out, {.event = events::kLeaving});
}

absl::Duration Departure::GraceOr(BootTime now, absl::Duration otherwise) const {
  return leave_ ? grace_ends_ - now : otherwise;
}

// The platform's own SIGTERM follows its notice while the workers save, and only confirms it. The next signal is a
// second request, unless it comes within kOneSignal: timeout(1) signals its child and then the group, and a signal
// to all processes of a container also comes through process 1.
Departure::Meaning Departure::OnSignal(BootTime now, int signal, Effects* out) {
  if (signalled_) return now < *signalled_ + kOneSignal ? Meaning::kConfirmation : Meaning::kStopNow;
  signalled_ = now;
  if (!leave_) return Meaning::kLeave;
  Say(Severity::kInfo, absl::StrCat(DescribeSignal(signal), ": already leaving (", leave_->reason(), ")"), out);
  return Meaning::kConfirmation;
}

// Each node uses its own wall clock for its deadline. A node with a fast clock leaves first; InsteadOfRound keeps
// the other nodes from starting another round because of that.
std::optional<LeaveRequest> Departure::OnWallClock(BootTime now, absl::Time wall) {
  if (!stop_before_ || leave_) return std::nullopt;
  stop_at_ = now + (stop_before_->deadline - stop_before_->before - wall);
  if (now < stop_at_) return std::nullopt;
  // A deadline is known in advance, unlike the end after a signal, so the workers get all of the remaining time.
  const absl::Duration left = stop_before_->deadline - kDeadlineReserve - wall;
  return LeaveRequest{.reason = stop_before_->why, .grace = std::max(left, kLeastGrace)};
}

std::optional<LeaveRequest> Departure::InsteadOfRound(BootTime now, bool first_round) const {
  if (!stop_before_) return std::nullopt;
  if (now + std::min(stop_before_->before, kMaxUselessRound) < stop_at_) return std::nullopt;
  const std::string round = first_round ? "a round" : "another round";
  return LeaveRequest{.reason = absl::StrCat(stop_before_->why, ": too little time is left for ", round),
                      .grace = absl::ZeroDuration()};
}

bool Departure::AwaitsAgent(BootTime now, BootTime idle_since, const Others& others, Effects* out) {
  // Ctrl-C on the primary: its agent makes the verdict once the workers of the other nodes have ended, too.
  const bool decides = leave_->cancel() && others.makes_verdict;
  const absl::Duration limit = decides ? others.shutdown_grace + kStuckAfterKill : kLeaveReportLimit;
  return now < std::max(begun_at_, idle_since) + limit || StaysForOthers(now, others.serves, out);
}

// Other nodes may leave at about the same time, and while their workers save they need leases from the coordinator
// on this node. The coordinator releases this node once they are done or wait for another primary.
bool Departure::StaysForOthers(BootTime now, bool serves_others, Effects* out) {
  if (leave_->cancel() || !serves_others || now >= grace_ends_) return false;
  if (!std::exchange(said_why_it_stays_, true)) {
    Say(Severity::kInfo,
        absl::StrCat("the other nodes still need the coordinator on this node: it stays for at most ",
                     muster::FormatDuration(absl::Ceil(grace_ends_ - now, absl::Seconds(1)))),
        out);
  }
  return true;
}

int Departure::exit_code() const { return leave_->cancel() ? kExitCancelled : kExitLeft; }

v1::Exit Departure::Exit() const { return MusterExit(exit_code(), Why()); }

// A node that was asked to leave reports that, whatever the job's result.
v1::Exit Departure::ExitInsteadOf(const v1::Exit& job) const {
  if (!leave_ || leave_->cancel() || job.exit_code() == 0 || job.exit_code() == kExitLeft) return job;
  v1::Exit exit = job;
  exit.set_exit_code(kExitLeft);
  exit.set_origin("muster");
  exit.set_reason(absl::StrCat(Why(), "; result of the job: ", job.reason()));
  return exit;
}

v1::Exit Departure::ExitNow(int signal) const {
  return MusterExit(exit_code(), absl::StrCat("stopped immediately by a second ", DescribeSignal(signal)));
}

std::string Departure::Why() const {
  if (!leave_->reason().empty()) return absl::StrCat("asked to leave: ", leave_->reason());
  return absl::StrCat(leave_->cancel() ? "cancelled" : "asked to leave", " by ", DescribeSignal(leave_->signal()));
}

}  // namespace muster::host
