// How a host's workers are stopped: the ladder, the lease's end, signals from outside, and the host's own end.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/host/core/host_core.h"
#include "base/check.h"
#include "base/duration.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "base/signal_name.h"

namespace muster::host {
namespace {

absl::Duration FromMs(int64_t ms) { return absl::Milliseconds(ms); }

std::string Workers(int count) { return absl::StrCat(count, count == 1 ? " worker" : " workers"); }

}  // namespace

void HostCore::BeginStop(BootTime now, int signal, absl::Duration grace, v1::Outcome outcome,
                         const std::string& cause, Effects* out) {
  if (phase_ == v1::HOST_PHASE_STUCK) return;  // SIGKILL is pending for every process that is left
  if (ladder_) {
    ladder_->Hasten(now + grace);
    return;
  }
  ladder_.emplace(now, grace);
  stop_signal_ = signal;
  stopped_at_ = now;
  if (outcome_ != v1::OUTCOME_SUCCEEDED) outcome_ = outcome;
  phase_ = v1::HOST_PHASE_STOPPING;
  if (LiveWorkers() > 0) {
    Say(Severity::kDebug,
        absl::StrCat("stopping workers: ", cause, "; grace period ", absl::FormatDuration(grace)), out);
    out->push_back(StopWorkers{signal});
  }
  SendStatus(out);
}

// Only if the stop signal itself ended the first process: one that handled the signal had its grace period, and
// one that ended before the stop failed or finished by itself.
bool HostCore::SparesRest(const Ending& ending) const {
  return Active() && ladder_ && !ladder_->killed() && ending.by_signal && ending.number == stop_signal_;
}

// Reported only after kSayFinishing, because most processes end at once.
void HostCore::SayWhatFinishes(BootTime now, Effects* out) {
  if (!ladder_ || ladder_->killed()) return;
  for (auto& [rank, worker] : workers_) {
    if (worker.state != WorkerState::kFinishing || worker.said_that_it_finishes) continue;
    if (now - worker.ended_at < kSayFinishing) continue;
    worker.said_that_it_finishes = true;
    const absl::Duration left = absl::Ceil(ladder_->kill_at() - now, absl::Seconds(1));
    Say(Severity::kInfo,
        absl::StrCat(DescribeSignal(stop_signal_), " ended the first process of rank ", round_.first_rank() + rank,
                     "; its child processes handle the signal and have ", muster::FormatDuration(left),
                     " to finish"),
        out);
  }
}

void HostCore::OnRestEnded(BootTime now, int local_rank, Effects* out) {
  const auto it = workers_.find(local_rank);
  if (finished_ || it == workers_.end() || it->second.state != WorkerState::kFinishing) return;
  it->second.state = WorkerState::kEnded;
  if (LiveWorkers() == 0) AllEnded(now, out);
}

void HostCore::WatchStop(BootTime now, Effects* out) {
  if (!Active()) return;
  SayWhatFinishes(now, out);
  if (ladder_ && ladder_->MustKill(now)) {
    ladder_->Killed();
    if (LiveWorkers() > 0) {
      Say(Severity::kWarning,
          absl::StrCat(Workers(LiveWorkers()), " did not exit within the grace period: sending SIGKILL"), out,
          {.event = events::kWorkersKilled});
    }
    kill_since_ = std::min(kill_since_, now);
    if (!sweeping_) {
      sweeping_ = true;
      out->push_back(Sweep{});
    }
  }
  if (phase_ == v1::HOST_PHASE_STOPPING && !gathering_output_ && now - kill_since_ > kStuckAfterKill) {
    phase_ = v1::HOST_PHASE_STUCK;
    if (trouble_.empty())
      trouble_ = absl::StrCat(Workers(LiveWorkers()), LiveWorkers() == 1 ? " survives" : " survive", " SIGKILL");
    Say(Severity::kError, absl::StrCat("this node is unusable: ", trouble_), out,
        {.event = events::kNodeUnusable, .node_rank = round_.node_rank()});
    UpdateKernelTimer(out);
    SendStatus(out);
  }
}

void HostCore::WatchStart(BootTime now, Effects* out) {
  if (phase_ != v1::HOST_PHASE_STARTING || now - started_at_ <= kStartLimit) return;
  for (const auto& [rank, worker] : workers_) {
    if (worker.state != WorkerState::kSpawned) continue;
    Fail(now, rank, Ending{.number = kExitFault, .error_text = "did not start within a minute"}, worker.pid, out);
    return;
  }
}

// ---- the lease ----------------------------------------------------------------------------------------------

void HostCore::ExtendLease(BootTime, const v1::HostDirective& directive, Effects* out) {
  if (!leased()) return;
  if (directive.lease_ms() > 0) lease_ = FromMs(directive.lease_ms());
  const BootTime granted = FromBootNanos(directive.lease_deadline_boot_ns());
  if (directive.lease_deadline_boot_ns() == 0 || granted <= lease_deadline_) return;
  lease_deadline_ = granted;
  UpdateKernelTimer(out);
}

// SIGTERM is sent early enough for the whole grace period before SIGKILL, but not before two thirds of the lease.
BootTime HostCore::LeaseTermMoment() const {
  const absl::Duration grace = FromMs(options_.config.shutdown_grace_ms());
  return std::max(LeaseKillMoment() - grace, lease_deadline_ - lease_ / 3);
}

BootTime HostCore::LeaseKillMoment() const { return lease_deadline_ - lease_ / 10; }

// On the primary's own node the lease depends on the answers of the other members: the primary cannot tell whether
// they are stalled or it is cut off itself, and another primary that they reach waits for one lease only. So the
// primary's workers get no more time to stop than those of any other node that is cut off.
std::string HostCore::WhyLeaseEnds(BootTime now) const {
  const auto shown = [](absl::Duration time) {
    return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(100)));
  };
  const std::string silence = shown(now - (lease_deadline_ - lease_));
  const bool serves = memory_.served() && agent_attached_;
  return absl::StrCat(
      serves ? absl::StrCat("no other node answered for ", silence, " (all are stalled, or this node is cut off)")
             : absl::StrCat("the coordinator did not answer for ", silence),
      "; stopping workers, which have ", shown(LeaseKillMoment() - now),
      " to exit, because other nodes may replace them once the lease ends (--lease ", shown(lease_), ")");
}

void HostCore::WatchLease(BootTime now, Effects* out) {
  if (!leased() || !Active() || phase_ == v1::HOST_PHASE_STUCK || now < LeaseTermMoment()) return;
  if (!ladder_) {
    Say(Severity::kWarning, WhyLeaseEnds(now), out, {.event = events::kLeaseEnded});
    BeginStop(now, SIGTERM, LeaseKillMoment() - now, v1::OUTCOME_LEASE_ENDED, "the lease ended", out);
  } else {
    ladder_->Hasten(LeaseKillMoment());
  }
}

// Disarmed in HOST_PHASE_STUCK: SIGKILL is pending already, so killing the host would end nothing more, and its
// report of the job's end would be lost.
void HostCore::UpdateKernelTimer(Effects* out) {
  if (!leased()) return;
  std::optional<BootTime> wanted;
  if (Active() && phase_ != v1::HOST_PHASE_STUCK) wanted = lease_deadline_;
  if (wanted == kernel_timer_) return;
  kernel_timer_ = wanted;
  out->push_back(SetKernelTimer{wanted});
}

// ---- signals and the end ------------------------------------------------------------------------------------

void HostCore::OnSuspend(BootTime now, bool shell_can_continue, Effects* out) {
  if (options_.leave_signals.count(SIGTSTP) > 0) return OnSignal(now, SIGTSTP, out);
  if (finished_) return;
  if (!leased() && !shell_can_continue) {  // the kernel ignores SIGTSTP for an orphaned process group, too
    Say(Severity::kInfo, "SIGTSTP (Ctrl-Z) is ignored: there is no shell here that could continue muster", out);
    return;
  }
  if (LiveWorkers() > 0) out->push_back(SignalWorkers{SIGSTOP});
  if (leased()) {
    Say(Severity::kInfo,
        "workers suspended; muster itself keeps running, because its lease would end; SIGCONT continues them",
        out);
  } else {
    out->push_back(StopSelf{});
  }
}

void HostCore::OnSignal(BootTime now, int signal, Effects* out) {
  if (finished_) {
    if (MeansLeave(signal)) out->push_back(HurryFinish{});
    return;
  }
  switch (options_.leave_signals.count(signal) > 0 ? SIGTERM : signal) {
    case SIGUSR1:
    case SIGUSR2:
      if (LiveWorkers() > 0) out->push_back(ForwardSignal{signal});
      return;
    case SIGCONT:
      if (LiveWorkers() > 0) out->push_back(SignalWorkers{SIGCONT});
      return;
    default:
      break;
  }
  if (ConfirmsLeave(now, signal, out)) return;
  if (leave_) {  // a second signal: stop immediately
    Say(Severity::kWarning,
        absl::StrCat("second request to stop (", DescribeSignal(signal), "): stopping immediately"), out);
    v1::Exit exit;
    exit.set_exit_code(leave_->cancel() ? kExitCancelled : kExitLeft);
    exit.set_origin("muster");
    exit.set_reason(absl::StrCat("stopped immediately by a second ", DescribeSignal(signal)));
    FinishWith(exit, out);
    exit_at_ = now;
    if (Active()) BeginStop(now, SIGKILL, absl::ZeroDuration(), v1::OUTCOME_STOPPED, "second signal", out);
    WatchStop(now, out);
    WatchEnd(now, out);
    return;
  }
  signalled_ = now;
  BeginLeave(now, signal, "", options_.termination_grace, out);
  WatchEnd(now, out);
}

// For a node that was asked to leave, or that lost its peers or coordinator: another run may succeed. Never for a
// failure of a worker.
void HostCore::AskForRetry() {
  const int code = exit_->exit_code();
  const bool no_fault = exit_->origin() == "muster" && (code == kExitLeft || code == kExitUnavailable);
  if (!no_fault || options_.retryable_exit_code == 0) return;
  exit_->set_exit_code(options_.retryable_exit_code);
  exit_->set_reason(absl::StrCat(exit_->reason(), " (", code, ", reported as ", options_.retryable_exit_code,
                                 " so that the platform retries the job)"));
}

void HostCore::FinishWith(const v1::Exit& exit, Effects* out) {
  if (exit_) return;
  exit_ = exit;
  // A node that was asked to leave reports that, whatever the job's result.
  if (leave_ && !leave_->cancel() && exit.exit_code() != 0 && exit.exit_code() != kExitLeft) {
    exit_->set_exit_code(kExitLeft);
    exit_->set_origin("muster");
    exit_->set_reason(absl::StrCat(WhyLeft(), "; result of the job: ", exit.reason()));
  }
  SendStatus(out);
}

// The host ends when nothing of any round is alive and its agent has closed the link or exceeded its time limit.
void HostCore::WatchEnd(BootTime now, Effects* out) {
  if (finished_) return;
  if (Active()) {
    const bool stuck = phase_ == v1::HOST_PHASE_STUCK;
    if (!(stuck && (exit_ || leave_))) return;  // processes that survive SIGKILL are not waited for
  }
  if ((exit_ || leave_) && !EndPreparing(now, out)) return;
  if (exit_ && !flushed_) {
    flushed_ = true;
    exit_at_ = now;
    SendStatus(out);
  }
  const bool agent_closed = !agent_attached_;
  if (exit_) {
    const BootTime from =
        agent_closed && agent_gone_at_ != absl::InfinitePast() ? agent_gone_at_ : exit_at_ + kLeaveReportLimit;
    if (now < from + FromMs(exit_->linger_ms())) return;
  } else if (leave_) {
    // Ctrl-C on the primary: its agent makes the verdict once the workers of the other nodes have ended, too.
    const bool decides = leave_->cancel() && memory_.served();
    const absl::Duration limit =
        decides ? FromMs(options_.config.shutdown_grace_ms()) + kStuckAfterKill : kLeaveReportLimit;
    if (agent_attached_ && (now < std::max(leave_at_, idle_since_) + limit || StaysForOthers(now, out))) return;
    v1::Exit exit;
    exit.set_exit_code(leave_->cancel() ? kExitCancelled : kExitLeft);
    exit.set_origin("muster");
    exit.set_reason(WhyLeft());
    exit_ = exit;
  } else {
    return;
  }
  finished_ = true;
  if (agent_attached_) out->push_back(KillAgent{});
  AskForRetry();
  // A shell ends a loop only if the program that got Ctrl-C ends by SIGINT itself.
  const bool by_sigint = leave_ && leave_->cancel() && exit_->exit_code() == kExitCancelled;
  Finish finish{.exit_code = exit_->exit_code(),
                .signal = by_sigint ? SIGINT : 0,
                .origin = exit_->origin(),
                .reason = exit_->reason(),
                .verdict = {},
                .last = memory_.last(),
                .asked_to_leave = leave_.has_value()};
  if (exit_->has_verdict()) finish.verdict = exit_->verdict();
  out->push_back(std::move(finish));
}

}  // namespace muster::host
