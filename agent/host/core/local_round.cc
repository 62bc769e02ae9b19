#include "agent/host/core/local_round.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/text/duration.h"
#include "base/text/signal_name.h"
#include "base/wire/ids.h"

namespace muster::host {
namespace {

constexpr int64_t kNeverStarted = 0;  // in place of a pid: see base/wire/failure.h

std::string Workers(int count) { return absl::StrCat(count, count == 1 ? " worker" : " workers"); }

}  // namespace

std::optional<int> LocalRound::failed_local_rank() const {
  if (!failures_.cause() || !active()) return std::nullopt;
  return failures_.cause()->local_rank();
}

// A worker that ended before the stop failed or finished by itself.
bool LocalRound::SparesRest() const { return ladder_ && !ladder_->killed(); }

// ---- start and workers --------------------------------------------------------------------------------------

void LocalRound::Start(BootTime now, const v1::Round& round) {
  round_ = round;
  started_at_ = now;
  phase_ = v1::HOST_PHASE_STARTING;
  outcome_ = v1::OUTCOME_RAN;
  failures_ = RoundFailures(round, now, node_);
  progress_at_.reset();
  judged_ = false;
  kill_is_wanted_ = false;
  workers_.Reset(node_.slots);
}

bool LocalRound::OnExecuting(int local_rank) {
  if (!workers_.OnExecuting(local_rank)) return false;
  if (phase_ != v1::HOST_PHASE_STARTING || workers_.FindNotStarted()) return false;
  phase_ = v1::HOST_PHASE_RUNNING;
  return true;
}

bool LocalRound::OnExit(WorkerEnd end, Effects* out) {
  const std::optional<int64_t> pid = workers_.OnExit(end.at, end.local_rank, end.ending.rest_lives);
  if (!pid) return false;
  end.pid = *pid;
  const auto stopping_since = ladder_ ? std::optional(ladder_->since()) : std::nullopt;
  return failures_.OnEnd(end, stopping_since, out) || FailsByEcho(end.at, out);
}

void LocalRound::SweepIfAllEnded(BootTime now, Effects* out) {
  if (!active() || judged_ || workers_.live() > 0 || failures_.AwaitsCauseUntil()) return;
  judged_ = true;
  if (!ladder_) {
    outcome_ = v1::OUTCOME_SUCCEEDED;
    phase_ = v1::HOST_PHASE_STOPPING;
  }
  failures_.AddHint();
  Sweep(now, out);
}

bool LocalRound::FailsToStart(BootTime now, absl::Time wall_at_boot, Effects* out) {
  if (phase_ != v1::HOST_PHASE_STARTING || now - started_at_ <= kStartLimit) return false;
  const auto worker = workers_.FindNotStarted();
  if (!worker) return false;
  const Ending ending{.number = kExitFault,
                      .error_text = absl::StrCat("its process (pid ", worker->pid,
                                                 ") did not begin to execute the program within a minute")};
  failures_.Fail({now, wall_at_boot, worker->local_rank, kNeverStarted, ending}, out);
  return true;
}

// The cause may be on another node, though all workers of this one have ended.
bool LocalRound::FailsByEcho(BootTime now, Effects* out) {
  const std::optional<BootTime> until = failures_.AwaitsCauseUntil();
  const bool may_come = workers_.live() > 0 || round_.node_count() > 1;
  if (!until || ladder_ || (now < *until && may_come)) return false;
  failures_.TakeEchoes(out);
  return true;
}

// The report may arrive after the end of the round: it counts for that round until the next one starts.
bool LocalRound::OnProgress(BootTime now) { return IsSet(id()) && !std::exchange(progress_at_, now).has_value(); }

// ---- the stop -----------------------------------------------------------------------------------------------

// The moment at which the grace period ends may have passed while this process was frozen.
BootTime LocalRound::KillMoment(BootTime now, const Stop& stop) const {
  const BootTime wanted = now + std::max(stop.grace, absl::ZeroDuration());
  if (!ladder_ || (stop.kind == Stop::Kind::kDeparture && ladder_->ordered())) return wanted;
  return std::min(ladder_->kill_at(), wanted);
}

std::optional<absl::Duration> LocalRound::GraceWith(BootTime now, const Stop& stop) const {
  if (!can_be_stopped() || killed()) return std::nullopt;
  const absl::Duration grace = KillMoment(now, stop) - now;
  return grace > absl::ZeroDuration() ? std::optional(grace) : std::nullopt;  // SIGKILL comes with the next tick
}

bool LocalRound::BeginStop(BootTime now, const Stop& stop, Effects* out) {
  if (!can_be_stopped()) return false;
  const BootTime kill_at = KillMoment(now, stop);
  kill_is_wanted_ |= stop.signal == SIGKILL;
  if (ladder_) {
    ladder_->KillAt(kill_at);
    return false;
  }
  if (failures_.AwaitsCauseUntil()) failures_.TakeEchoes(out);
  ladder_.emplace(now, stop.signal, kill_at - now, stop.kind == Stop::Kind::kOrdered);
  if (outcome_ != v1::OUTCOME_SUCCEEDED) outcome_ = stop.outcome;
  phase_ = v1::HOST_PHASE_STOPPING;
  if (workers_.live() > 0) {
    Say(Severity::kDebug,
        absl::StrCat("stopping workers: ", stop.cause, "; grace period ", absl::FormatDuration(kill_at - now)),
        out);
    out->push_back(StopWorkers{stop.signal});
  }
  return true;
}

bool LocalRound::OnTick(BootTime now, Effects* out) {
  if (!active()) return false;
  SayWhatFinishes(now, out);
  KillIfDue(now, out);
  SignalRestIfDue(now, out);
  return BecomeStuckIfDue(now, out);
}

// Reported only after kSayFinishing, because most processes end at once.
void LocalRound::SayWhatFinishes(BootTime now, Effects* out) {
  if (!ladder_ || ladder_->killed() || ladder_->MustKill(now)) return;
  for (const int local_rank : workers_.TakeFinishing(now)) {
    const absl::Duration left = absl::Ceil(ladder_->kill_at() - now, absl::Seconds(1));
    Say(Severity::kInfo,
        absl::StrCat("the first process of rank ", round_.first_rank() + local_rank,
                     " has ended; processes that it started handle ", DescribeSignal(ladder_->signal()),
                     " and have ", muster::FormatDuration(left), " to finish"),
        out);
  }
}

void LocalRound::SignalRestIfDue(BootTime now, Effects* out) {
  if (!ladder_ || !ladder_->MustSignalRest(now)) return;
  ladder_->RestSignalled();
  if (workers_.live() > 0) out->push_back(SignalRest{});
}

void LocalRound::KillIfDue(BootTime now, Effects* out) {
  if (!ladder_ || !ladder_->MustKill(now)) return;
  ladder_->Killed();
  if (workers_.live() > 0) {
    const std::string names = workers_.NamesOfLive(round_.first_rank());
    const absl::Duration grace = absl::Trunc(ladder_->grace(), absl::Milliseconds(1));
    const bool had_none = kill_is_wanted_ || grace == absl::ZeroDuration();
    Say(Severity::kWarning,
        had_none ? absl::StrCat("sending SIGKILL to ", names)
                 : absl::StrCat(names, " did not exit within the grace period of ", absl::FormatDuration(grace),
                                ": sending SIGKILL"),
        out, {.event = events::kWorkersKilled});
  }
  Sweep(now, out);
}

// The first SIGKILL counts: later sweeps send it again to whatever is left.
void LocalRound::Sweep(BootTime now, Effects* out) {
  kill_since_ = std::min(kill_since_, now);
  if (!std::exchange(sweeping_, true)) out->push_back(host::Sweep{});
}

bool LocalRound::BecomeStuckIfDue(BootTime now, Effects* out) {
  if (phase_ != v1::HOST_PHASE_STOPPING || gathering_output_ || now - kill_since_ <= kStuckAfterKill) return false;
  phase_ = v1::HOST_PHASE_STUCK;
  if (trouble_.empty()) {
    const int count = workers_.live();
    trouble_ = absl::StrCat(Workers(count), count == 1 ? " survives" : " survive", " SIGKILL");
  }
  Say(Severity::kError, absl::StrCat("this node is unusable: ", trouble_), out,
      {.event = events::kNodeUnusable, .node_rank = round_.node_rank()});
  return true;
}

bool LocalRound::OnSwept(const std::string& left) {
  if (!active() || !sweeping_) return false;
  if (left.empty()) workers_.OnSwept();
  if (workers_.live() == 0 && left.empty()) {
    gathering_output_ = true;
    return true;
  }
  if (left.empty()) sweeping_ = false;  // a worker's exit is still to be reported, and starts another sweep
  trouble_ = left;
  return false;
}

bool LocalRound::OnOutput(BootTime now, const std::string& lines) {
  if (!std::exchange(gathering_output_, false)) return false;
  failures_.OnLastOutput(lines);
  End(now);
  return true;
}

void LocalRound::End(BootTime now) {
  phase_ = v1::HOST_PHASE_IDLE;
  sweeping_ = false;
  ladder_.reset();
  workers_.Clear();
  trouble_.clear();
  kill_since_ = absl::InfiniteFuture();
  over_since_ = now;
}

void LocalRound::Describe(v1::HostStatus* status) const {
  status->set_phase(phase_);
  *status->mutable_started() = id();
  status->set_outcome(outcome_);
  failures_.Describe(status);
  workers_.Describe(status);
  status->set_progressed(progress_at_.has_value());
  if (progress_at_) status->set_progress_boot_ns(ToBootNanos(*progress_at_));
}

}  // namespace muster::host
