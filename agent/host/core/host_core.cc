#include "agent/host/core/host_core.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "base/signal_name.h"
#include "base/text.h"

namespace muster::host {
namespace {

constexpr int kWorkerUsage = 2;  // argparse's exit code

absl::Duration FromMs(int64_t ms) { return absl::Milliseconds(ms); }

std::string Describe(const Ending& ending) {
  if (ending.oom_killed) return "was killed because memory ran out";
  return ending.by_signal ? absl::StrCat("was killed (", DescribeSignal(ending.number), ")")
                          : absl::StrCat("exited with code ", ending.number);
}

}  // namespace

HostCore::HostCore(HostOptions options) : options_(std::move(options)) {
  if (!options_.config.single_node()) lease_ = FromMs(options_.config.lease_ms());
}

void HostCore::Begin(BootTime now, Effects* out) {
  last_tick_ = last_beat_ = idle_since_ = now;
  memory_.set_joined_boot_ns(ToBootNanos(now));
  NextAgent(now, out);
  Prepare(now, out);
}

void HostCore::OnTick(BootTime now, Effects* out) {
  if (finished_) return;
  const absl::Duration counted = std::min(now - last_tick_, kMaxCountedSilence);
  last_tick_ = now;
  WatchStart(now, out);
  WatchLease(now, out);
  WatchStop(now, out);
  WatchAgent(now, counted, out);
  WatchPreparing(now, out);
  WatchOffer(now, out);
  WatchEnd(now, out);
  const absl::Duration beat = leased() ? std::min(kBeat, lease_ / 8) : kBeat;
  if (!finished_ && now - last_beat_ >= beat) {
    last_beat_ = now;
    SendStatus(out);
  }
}

// ---- the agent ----------------------------------------------------------------------------------------------

void HostCore::NextAgent(BootTime now, Effects* out) {
  agent_starts_.push_back(now);
  while (!agent_starts_.empty() && now - agent_starts_.front() > kAgentRestartWindow) agent_starts_.pop_front();
  if (static_cast<int>(agent_starts_.size()) > kMaxAgentRestarts && !exit_) {
    GiveUp(now,
           absl::StrCat("the agent process died ", kMaxAgentRestarts, " times within ",
                        absl::FormatDuration(kAgentRestartWindow)),
           out);
    return;
  }
  ++agent_number_;
  agent_attached_ = true;
  config_sent_ = false;
  applied_seq_ = 0;
  silence_ = absl::ZeroDuration();
  agent_has_spoken_ = false;
  out->push_back(StartAgent{agent_number_});
  if (agent_number_ > 1) Say(Severity::kInfo, absl::StrCat("agent ", agent_number_, " takes over"), out);
  SendStatus(out);
}

void HostCore::GiveUp(BootTime now, const std::string& reason, Effects* out) {
  exit_.emplace();
  exit_->set_exit_code(kExitFault);
  exit_->set_origin("muster");
  exit_->set_reason(reason);
  exit_at_ = now;
  agent_attached_ = false;
  if (!Active()) return;
  BeginStop(now, SIGTERM, FromMs(options_.config.shutdown_grace_ms()), v1::OUTCOME_STOPPED, reason, out);
}

// Retries after a pause, because the machine is short of a resource. The workers go on until their lease ends.
void HostCore::OnAgentFailed(BootTime now, uint64_t agent_number, const std::string& why, Effects* out) {
  if (finished_ || agent_number != agent_number_ || !agent_attached_) return;
  agent_attached_ = false;
  agent_gone_at_ = now;
  Say(Severity::kError, absl::StrCat("cannot start an agent: ", why), out);
  if (exit_) return;
  const absl::Duration limit = FromMs(options_.config.coordinator_timeout_ms());
  if (!agents_fail_since_) agents_fail_since_ = now;
  if (now - *agents_fail_since_ < limit) {
    agent_retry_at_ = now + kAgentRetry;
    return;
  }
  GiveUp(now, absl::StrCat("no agent could be started for ", absl::FormatDuration(limit), ": ", why), out);
}

void HostCore::OnAgentClosed(BootTime now, uint64_t agent_number, Effects* out) {
  if (finished_ || agent_number != agent_number_ || !agent_attached_) return;
  agent_attached_ = false;
  agent_gone_at_ = now;
  if (exit_) {
    WatchEnd(now, out);
    return;
  }
  if (leave_ && !Active()) {  // nothing left to report
    WatchEnd(now, out);
    return;
  }
  Say(Severity::kWarning, absl::StrCat("agent ", agent_number, " ended; starting another"), out,
      {.event = events::kAgentLost});
  NextAgent(now, out);
}

void HostCore::WatchAgent(BootTime now, absl::Duration counted, Effects* out) {
  if (now >= agent_retry_at_ && !exit_) {
    agent_retry_at_ = absl::InfiniteFuture();
    NextAgent(now, out);
  }
  if (!agent_attached_) return;
  if (!leased()) return WatchAgentOfLoneNode(now, counted, out);
  silence_ += counted;
  if (silence_ >= SilenceLimit()) ReplaceSilentAgent(now, out);
}

// Nothing depends on an agent before its first message: until then the lease, which the host watches itself, ends
// the workers in time.
absl::Duration HostCore::SilenceLimit() const {
  const bool starting = !agent_has_spoken_;
  return starting ? std::max(lease_ / 2, kFirstWordLimit) : lease_ / 2;
}

void HostCore::ReplaceSilentAgent(BootTime now, Effects* out) {
  Say(Severity::kWarning,
      absl::StrCat("agent ", agent_number_, " has been silent for ", absl::FormatDuration(SilenceLimit()),
                   ": stopping the workers and killing the agent"),
      out, {.event = events::kAgentLost});
  if (Active()) {
    BeginStop(now, SIGTERM, std::min(FromMs(options_.config.shutdown_grace_ms()), lease_ / 3), v1::OUTCOME_STOPPED,
              "the agent was silent", out);
  }
  agent_attached_ = false;
  out->push_back(KillAgent{});
  if (exit_) {
    agent_gone_at_ = now;
    return;
  }
  if (!agent_has_spoken_ && !agents_fail_since_) agents_fail_since_ = now;
  const absl::Duration limit = FromMs(options_.config.coordinator_timeout_ms());
  if (agents_fail_since_ && now - *agents_fail_since_ >= limit) {
    GiveUp(now, absl::StrCat("no agent has responded for ", absl::FormatDuration(limit)), out);
    return;
  }
  NextAgent(now, out);
}

// Without a lease running workers need no agent; only their start and the end of the job do.
void HostCore::WatchAgentOfLoneNode(BootTime now, absl::Duration counted, Effects* out) {
  silence_ = Active() || exit_ ? absl::ZeroDuration() : silence_ + counted;
  if (silence_ < kLoneAgentSilence) return;
  Say(Severity::kWarning,
      absl::StrCat("agent ", agent_number_, " has been silent for ", absl::FormatDuration(kLoneAgentSilence),
                   ": starting another"),
      out);
  out->push_back(KillAgent{});
  NextAgent(now, out);
}

void HostCore::OnDirective(BootTime now, const v1::HostDirective& directive, Effects* out) {
  if (finished_ || directive.agent_number() != agent_number_ || !agent_attached_) return;
  silence_ = absl::ZeroDuration();
  agent_has_spoken_ = true;
  agents_fail_since_.reset();
  if (directive.seq() <= applied_seq_) return;
  applied_seq_ = directive.seq();
  const bool newly_applied = Compare(memory_.applied(), directive.memory().applied()) != 0;
  memory_ = directive.memory();  // stored before anything is done
  ExtendLease(now, directive, out);
  serves_others_ = directive.serves_others();
  if (!leave_ && !directive.leave().empty()) {
    BeginLeave(now, SIGTERM, directive.leave(), options_.termination_grace, out);
  }
  switch (directive.order_case()) {
    case v1::HostDirective::kStart:
      MaybeStart(now, directive.start(), out);
      break;
    case v1::HostDirective::kStop:
      if (Active()) {
        const absl::Duration grace = leave_ ? leave_until_ - now : FromMs(directive.stop().grace_ms());
        BeginStop(now, SIGTERM, grace, v1::OUTCOME_STOPPED, directive.stop().cause(), out);
      } else if (memory_.has_verdict()) {
        EndPreparing(now, out);
      }
      break;
    case v1::HostDirective::kExit:
      FinishWith(directive.exit(), out);
      if (exit_at_ == absl::InfinitePast()) exit_at_ = now;
      if (Active()) {
        const absl::Duration grace = leave_ ? leave_until_ - now : FromMs(options_.config.shutdown_grace_ms());
        BeginStop(now, SIGTERM, grace, v1::OUTCOME_STOPPED, directive.exit().reason(), out);
      }
      WatchEnd(now, out);
      break;
    case v1::HostDirective::kHold:
    case v1::HostDirective::ORDER_NOT_SET:
      break;
  }
  Prepare(now, out);
  if (newly_applied && !finished_) SendStatus(out);
}

// ---- a round ------------------------------------------------------------------------------------------------

void HostCore::MaybeStart(BootTime now, const v1::Round& round, Effects* out) {
  const bool again = Compare(round.id(), started_) <= 0;
  if (again || Active() || leave_ || exit_) return;
  if (fitness_ != Fitness::kFit) {  // the coordinator made the round before it received that status
    Say(Severity::kWarning,
        absl::StrCat("round ", ToString(round.id()), " not started: this node is not ready for a round"), out);
    return;
  }
  if (leased() && now >= LeaseTermMoment()) {
    Say(Severity::kWarning, absl::StrCat("round ", ToString(round.id()), " not started: the lease has ended"),
        out);
    return;
  }
  if (IsTooLateFor(now)) {
    const std::string reason = absl::StrCat(options_.stop_before->why, ": too little time is left for ",
                                            IsSet(started_) ? "another round" : "a round");
    BeginLeave(now, SIGTERM, reason, absl::ZeroDuration(), out);
    return;
  }
  started_ = round.id();
  round_ = round;
  started_at_ = now;
  phase_ = v1::HOST_PHASE_STARTING;
  outcome_ = v1::OUTCOME_RAN;
  failure_.reset();
  progressed_ = false;
  ladder_.reset();
  sweeping_ = false;
  kill_since_ = absl::InfiniteFuture();
  trouble_.clear();
  workers_.clear();
  all_zero_ = all_usage_ = true;
  for (int i = 0; i < options_.config.slots(); ++i) workers_[i] = WorkerEntry{};
  UpdateKernelTimer(out);
  out->push_back(SpawnWorkers{round});
  SendStatus(out);
}

void HostCore::OnSpawned(BootTime, const std::vector<v1::Worker>& workers, Effects*) {
  for (const v1::Worker& worker : workers) {
    const auto it = workers_.find(worker.local_rank());
    if (it == workers_.end()) continue;
    it->second.pid = worker.pid();
    it->second.start_ticks = worker.start_ticks();
  }
}

void HostCore::OnExecuting(BootTime, int local_rank, Effects* out) {
  const auto it = workers_.find(local_rank);
  if (it == workers_.end() || it->second.state != WorkerState::kSpawned) return;
  it->second.state = WorkerState::kExecuting;
  if (phase_ != v1::HOST_PHASE_STARTING) return;
  for (const auto& [rank, worker] : workers_) {
    if (worker.state == WorkerState::kSpawned) return;
  }
  phase_ = v1::HOST_PHASE_RUNNING;
  SendStatus(out);
}

void HostCore::SetWallAtBoot(BootTime now, absl::Time wall) { wall_at_boot_ = wall - (now - absl::UnixEpoch()); }

void HostCore::OnSpawnFailed(BootTime now, int local_rank, int exit_code, const std::string& why, Effects* out) {
  OnExit(now, local_rank, Ending{.number = exit_code, .error_text = why}, out);
}

void HostCore::OnExit(BootTime now, int local_rank, const Ending& ending, Effects* out) {
  const auto it = workers_.find(local_rank);
  if (finished_ || it == workers_.end() || HasEnded(it->second)) return;
  if (ending.wall) SetWallAtBoot(now, *ending.wall);
  it->second.state = ending.rest_lives ? WorkerState::kFinishing : WorkerState::kEnded;
  it->second.ended_at = now;
  all_zero_ &= ending.ok();
  all_usage_ &= ending.by_signal ? ladder_.has_value() : ending.number == kWorkerUsage;
  if (!ending.ok()) {
    if (!ladder_) {
      Fail(now, local_rank, ending, it->second.pid, out);
    } else if (failure_) {
      FailToo(now, local_rank, ending, it->second.pid);
    } else {
      FailLate(now, local_rank, ending, it->second.pid, out);
    }
  }
  if (LiveWorkers() == 0) AllEnded(now, out);
}

// When the worker failed. Its own timestamp may precede its end, but it is truncated to a second, so the latest
// moment that it can mean counts: the end of that second, or the error file's modification time if that is
// earlier. A modification time before that second comes from another clock (a file server's) and is ignored. The
// result is never before the round.
BootTime HostCore::FailedAt(BootTime now, const Ending& ending) const {
  if (!ending.failed_at_s) return now;
  const absl::Time second = absl::FromUnixSeconds(*ending.failed_at_s);
  absl::Time latest = second + absl::Seconds(1);
  if (ending.reported_at && *ending.reported_at >= second) latest = std::min(latest, *ending.reported_at);
  return std::clamp(absl::UnixEpoch() + (latest - wall_at_boot_), started_at_, now);
}

v1::Failure HostCore::MakeFailure(int local_rank, const Ending& ending, int64_t pid, BootTime at) const {
  v1::Failure failure;
  *failure.mutable_round() = started_;
  failure.set_local_rank(local_rank);
  failure.set_rank(round_.first_rank() + local_rank);
  failure.set_node_rank(round_.node_rank());
  failure.set_host(options_.config.hostname());
  failure.set_pid(pid);
  if (ending.by_signal) {
    failure.set_signal(ending.number);
  } else {
    failure.set_exit_code(ending.number);
  }
  failure.set_core_dumped(ending.core_dumped);
  failure.set_oom_killed(ending.oom_killed);
  failure.set_error_text(CutUtf8(ending.error_text, kMaxErrorText));
  failure.set_callstack(CutUtf8(ending.callstack, kMaxErrorText));
  failure.set_error_file(ending.error_file);
  failure.set_wall_time_s(
      ending.failed_at_s.value_or(absl::ToUnixSeconds(wall_at_boot_ + (at - absl::UnixEpoch()))));
  return failure;
}

void HostCore::Fail(BootTime now, int local_rank, const Ending& ending, int64_t pid, Effects* out) {
  failure_at_ = FailedAt(now, ending);
  failure_ = MakeFailure(local_rank, ending, pid, failure_at_);
  std::string text = absl::StrCat("worker rank ", failure_->rank(), " (pid ", pid, ") ", Describe(ending));
  if (!ending.error_text.empty()) absl::StrAppend(&text, ": ", ending.error_text);
  Say(Severity::kWarning, text, out, FailedWorker());
  BeginStop(now, SIGTERM, FromMs(options_.config.shutdown_grace_ms()), v1::OUTCOME_FAILED, "a worker failed", out);
}

// A further failure after the first one has stopped the node. A worker that reported an earlier failure and took
// longer to end becomes the cause after all, if it exited by itself.
void HostCore::FailToo(BootTime now, int local_rank, const Ending& ending, int64_t pid) {
  const BootTime at = FailedAt(now, ending);
  v1::Failure other = MakeFailure(local_rank, ending, pid, at);
  if (ending.failed_at_s && !ending.by_signal && at < failure_at_) {
    std::swap(*failure_, other);
    failure_->mutable_others()->Swap(other.mutable_others());
    failure_->set_more_others(other.more_others());
    other.clear_more_others();
    failure_at_ = at;
  } else {
    other.set_after_our_signal(true);
  }
  if (failure_->others_size() >= kMaxOtherFailures) {
    failure_->set_more_others(failure_->more_others() + 1);
    return;
  }
  other.set_error_text(CutUtf8(other.error_text(), kMaxBriefText));
  other.clear_callstack();
  *failure_->add_others() = std::move(other);
}

// A worker that reported a failure from before the stop, and took longer to end than its peers took to fail
// because of it: their failures may all be echoes of this one. The node was stopped by then anyway.
void HostCore::FailLate(BootTime now, int local_rank, const Ending& ending, int64_t pid, Effects* out) {
  if (!ending.failed_at_s || ending.by_signal) return;
  const BootTime at = FailedAt(now, ending);
  if (at >= stopped_at_) return;
  failure_at_ = at;
  failure_ = MakeFailure(local_rank, ending, pid, at);
  Say(Severity::kWarning,
      absl::StrCat("worker rank ", failure_->rank(), " (pid ", pid, ") ", Describe(ending), "; it had failed ",
                   absl::FormatDuration(absl::Trunc(stopped_at_ - at, absl::Milliseconds(1))),
                   " before this node began to stop its workers"),
      out, FailedWorker());
}

NoteSubject HostCore::FailedWorker() const {
  return {.event = events::kWorkerFailed, .rank = failure_->rank(), .node_rank = round_.node_rank()};
}

// The report may arrive after the end of the round: it counts for that round until the next one starts.
void HostCore::OnProgress(BootTime, Effects* out) {
  if (progressed_ || !IsSet(started_)) return;
  progressed_ = true;
  SendStatus(out);
}

std::optional<int> HostCore::FailedLocalRank() const {
  if (!failure_) return std::nullopt;
  return failure_->local_rank();
}

void HostCore::AddHint() {
  const bool early = failure_at_ - started_at_ <= kUsageErrorWithin;
  if (!all_usage_ || !early || failure_->exit_code() != kWorkerUsage) return;
  const std::string& given = options_.local_rank_option;
  if (!given.empty() && given != "local-rank") return;  // the user has chosen the option's name already
  failure_->set_hint(absl::StrCat(
      "exit code 2 soon after the start usually means that argparse rejected the arguments; if the script "
      "expects ",
      given.empty() ? "--local-rank, add --pass-local-rank (for --local_rank: --pass-local-rank=local_rank)"
                    : "--local_rank, with an underscore, use --pass-local-rank=local_rank"));
}

void HostCore::AllEnded(BootTime now, Effects* out) {
  if (!ladder_) {
    outcome_ = v1::OUTCOME_SUCCEEDED;
    phase_ = v1::HOST_PHASE_STOPPING;
  }
  if (failure_) AddHint();
  if (sweeping_) return;
  sweeping_ = true;
  if (kill_since_ == absl::InfiniteFuture()) kill_since_ = now;
  out->push_back(Sweep{});
}

void HostCore::OnSwept(BootTime now, const std::string& left, Effects* out) {
  if (!Active()) OnPreflightSwept(now, left, out);
  if (finished_ || !sweeping_ || !Active()) return;
  for (auto& [rank, worker] : workers_) {
    if (left.empty() && worker.state == WorkerState::kFinishing) worker.state = WorkerState::kEnded;
  }
  if (LiveWorkers() == 0 && left.empty()) {
    gathering_output_ = true;
    out->push_back(GatherRoundOutput{FailedLocalRank()});
    return;
  }
  if (left.empty()) sweeping_ = false;  // a worker's exit is still to be reported, and starts another sweep
  trouble_ = left;
}

void HostCore::OnRoundOutput(BootTime now, const std::string& lines, Effects* out) {
  if (finished_ || !std::exchange(gathering_output_, false)) return;
  if (failure_) failure_->set_last_output(CutUtf8(lines, kMaxErrorText));
  RoundIsOver(now, out);
}

void HostCore::RoundIsOver(BootTime now, Effects* out) {
  phase_ = v1::HOST_PHASE_IDLE;
  sweeping_ = false;
  ladder_.reset();
  workers_.clear();
  trouble_.clear();
  kill_since_ = absl::InfiniteFuture();
  idle_since_ = now;
  offer_port_ = 0;
  UpdateKernelTimer(out);
  fitness_ = Fitness::kUnknown;
  gpus_may_be_held_ = options_.gpu_release_timeout > absl::ZeroDuration();
  Prepare(now, out);
  SendStatus(out);
  WatchEnd(now, out);
}

void HostCore::OnOffer(BootTime, uint32_t port, Effects* out) {
  offer_port_ = port;
  if (agent_number_ > 0) SendStatus(out);
}

// Without an offer this node is in no round, and the other nodes may wait for it.
void HostCore::WatchOffer(BootTime now, Effects* out) {
  if (finished_ || fitness_ != Fitness::kFit || Active() || exit_ || leave_ || offer_port_ != 0 ||
      now - offer_asked_at_ < kOfferRetry)
    return;
  offer_asked_at_ = now;
  out->push_back(RenewOffer{});
}

int HostCore::LiveWorkers() const {
  int count = 0;
  for (const auto& [rank, worker] : workers_) count += worker.state == WorkerState::kEnded ? 0 : 1;
  return count;
}

// ---- status and notes ---------------------------------------------------------------------------------------

void HostCore::SendStatus(Effects* out) {
  if (agent_attached_ && !finished_) out->push_back(host::SendStatus{MakeStatus()});
}

v1::HostStatus HostCore::MakeStatus() {
  v1::HostStatus status;
  status.set_host_id(options_.host_id);
  status.set_agent_number(agent_number_);
  status.set_seq(++status_seq_);
  if (!config_sent_) {
    config_sent_ = true;
    *status.mutable_config() = options_.config;
  }
  status.set_host_pid(options_.host_pid);
  *status.mutable_memory() = memory_;
  status.set_applied_seq(applied_seq_);
  status.set_phase(phase_);
  *status.mutable_started() = started_;
  status.set_outcome(outcome_);
  if (failure_) {
    *status.mutable_failure() = *failure_;
    status.set_failure_boot_ns(ToBootNanos(failure_at_));
  }
  for (const auto& [rank, worker] : workers_) {
    if (worker.state == WorkerState::kEnded) continue;
    v1::Worker* entry = status.add_workers();
    entry->set_local_rank(rank);
    entry->set_pid(worker.pid);
    entry->set_start_ticks(worker.start_ticks);
  }
  if (lease_deadline_ != absl::InfinitePast()) status.set_lease_deadline_boot_ns(ToBootNanos(lease_deadline_));
  status.set_offer_port(offer_port_);
  if (leave_) *status.mutable_leave() = *leave_;
  const bool unfit = !Active() && !leave_ && !unfit_why_.empty();
  status.set_unfit(unfit);
  status.set_trouble(unfit ? unfit_why_ : trouble_);
  if (!unfit && !Active()) status.set_preparing(Preparing());
  status.set_progressed(progressed_);
  status.set_flushed(flushed_);
  return status;
}

void HostCore::Say(Severity severity, std::string text, Effects* out, const NoteSubject& subject) const {
  out->push_back(Note{severity, std::move(text), subject});
}

}  // namespace muster::host
