#include "agent/host/core/host_core.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/note.h"
#include "base/exit_codes.h"
#include "base/text/signal_name.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "base/wire/takeover.h"

namespace muster::host {
namespace {

// SIGTSTP: a host with a lease must go on running, so only its workers are suspended. False: nothing is.
bool Suspend(bool leased, bool has_workers, bool shell_can_continue, Effects* out) {
  if (!leased && !shell_can_continue) {  // the kernel ignores SIGTSTP for an orphaned process group, too
    Say(Severity::kInfo, "SIGTSTP (Ctrl-Z) is ignored: there is no shell here that could continue muster", out);
    return false;
  }
  if (has_workers) out->push_back(SignalWorkers{SIGSTOP});
  if (!leased) {
    out->push_back(StopSelf{});
    return true;
  }
  Say(Severity::kInfo,
      "workers suspended; muster itself keeps running, because its lease would end; SIGCONT continues them", out);
  return true;
}

}  // namespace

HostCore::HostCore(HostOptions options)
    : options_(std::move(options)),
      agent_(options_.coordinator_timeout(), options_.config.split()),
      round_({options_.config.slots(), options_.config.hostname(), options_.local_rank_option, options_.python}),
      lease_(options_.config.single_node() ? absl::ZeroDuration() : absl::Milliseconds(options_.config.lease_ms()),
             options_.shutdown_grace()),
      fitness_(options_),
      preload_(options_.preload),
      departure_(options_.stop_before),
      exit_(options_.host_id, options_.retryable_exit_code),
      hang_watch_(options_.config.hang_timeout_ms()) {}

void HostCore::Begin(BootTime now, Effects* out) {
  last_tick_ = last_beat_ = now;
  memory_.set_joined_boot_ns(ToBootNanos(now));
  NextAgent(now, out);
  Prepare(now, out);
}

void HostCore::OnTick(BootTime now, Effects* out) {
  if (finished_) return;
  const absl::Duration counted = std::min(now - last_tick_, kMaxCountedSilence);
  last_tick_ = now;
  if (round_.FailsToStart(now, wall_at_boot_, out) || round_.FailsByEcho(now, out)) StopAfterFailure(now, out);
  WatchLease(now, out);
  WatchStop(now, out);
  WatchAgent(now, counted, out);
  if (fitness_.OnTick(now, JobForFitness(), out)) SendStatus(out);
  if (preload_.OnTick(now, out)) SendStatus(out);
  if (IsIdle()) fitness_.WatchOffer(now, out);
  hang_watch_.OnTick(now, out);
  steps_.OnTick(now);
  WatchEnd(now, out);
  if (!finished_ && now - last_beat_ >= LinkBeat(leased() ? lease() : absl::ZeroDuration())) {
    last_beat_ = now;
    SendStatus(out);
  }
}

// Appended even if nothing has changed: a status also shows that the host is alive.
void HostCore::SendStatus(Effects* out) {
  if (!agent_.attached() || finished_) return;
  v1::HostStatus status;
  status.set_host_id(options_.host_id);
  if (agent_.Stamp(&status)) *status.mutable_config() = options_.config;
  status.set_host_pid(options_.host_pid);
  *status.mutable_memory() = memory_;
  round_.Describe(&status);
  if (lease_.deadline() != absl::InfinitePast()) {
    status.set_lease_deadline_boot_ns(ToBootNanos(lease_.deadline()));
  }
  status.set_offer_port(preload_.holds() ? 0 : fitness_.offer_port());
  if (departure_.begun()) *status.mutable_leave() = *departure_.leave();
  const bool unfit = !round_.active() && !departure_.begun() && !fitness_.why_unfit().empty();
  status.set_unfit(unfit);
  status.set_trouble(unfit ? fitness_.why_unfit() : round_.trouble());
  if (!unfit && !round_.active()) status.set_preparing(Preparing());
  status.set_flushed(exit_.flushed());
  hang_watch_.Describe(&status);
  signal_orders_.Describe(&status);
  for (const int64_t rate : steps_.ByLines()) status.add_step_rates(rate);
  for (const int64_t rate : steps_.ByTouches()) status.add_touch_rates(rate);
  for (const int64_t step : steps_.Newest()) status.add_steps(step);
  status.set_memory_used(memory_use_.used);
  status.set_memory_limit(memory_use_.limit);
  out->push_back(host::SendStatus{std::move(status)});
}

// ---- the agent ----------------------------------------------------------------------------------------------

void HostCore::NextAgent(BootTime now, Effects* out) {
  if (agent_.comes()) return;
  const auto gives_up = agent_.Start(now, exit_.decided(), out);
  if (gives_up) return GiveUp(now, kExitFault, *gives_up, out);
  SendStatus(out);
}

void HostCore::OnAgentCame(BootTime, Effects* out) {
  if (finished_ || exit_.flushed()) return;
  Dismiss(out);
  agent_.Take(out);
  SendStatus(out);
}

// Tells an agent that this host did not start that it is replaced. Otherwise it would take the closed link for the
// end of the host.
void HostCore::Dismiss(Effects* out) {
  if (!agent_.comes() || !agent_.attached()) return;
  v1::HostStatus last;
  last.set_host_id(options_.host_id);
  last.set_agent_number(agent_.number());
  last.set_dismissed(true);
  out->push_back(host::SendStatus{std::move(last)});
}

void HostCore::OnMemoryUse(BootTime, const MemoryUse& use, Effects*) { memory_use_ = use; }

// The job cannot go on here, for a reason that is not the training's.
void HostCore::GiveUp(BootTime now, int exit_code, const std::string& reason, Effects* out) {
  exit_.Decide(MusterExit(exit_code, reason));
  agent_.Abandon();
  BeginStop(now, {.grace = options_.shutdown_grace(), .cause = reason}, out);
}

void HostCore::OnAgentFailed(BootTime now, uint64_t agent_number, const std::string& why, Effects* out) {
  if (finished_ || !agent_.Is(agent_number)) return;
  const auto gives_up = agent_.OnFailed(now, why, exit_.decided(), out);
  if (!gives_up) return;
  GiveUp(now, kExitFault, *gives_up, out);
  WatchEnd(now, out);
}

void HostCore::OnAgentClosed(BootTime now, uint64_t agent_number, Effects* out) {
  if (finished_ || !agent_.Is(agent_number)) return;
  agent_.OnClosed(now);
  const bool nothing_to_report = departure_.begun() && !round_.active();
  if (exit_.decided() || nothing_to_report) return WatchEnd(now, out);
  Say(Severity::kWarning,
      absl::StrCat("agent ", agent_number, " ended; ",
                   agent_.comes() ? "waiting for the next one from the sidecar" : "starting another"),
      out, {.event = events::kAgentLost});
  NextAgent(now, out);
}

void HostCore::WatchAgent(BootTime now, absl::Duration counted, Effects* out) {
  if (!exit_.decided() && agent_.TakeRetry(now)) NextAgent(now, out);
  const bool waits_for_it = !round_.active() && !exit_.decided();
  const AgentSupervisor::Need need{.lease = lease(), .waits_for_it = waits_for_it};
  if (agent_.OnTick(counted, need)) ReplaceSilentAgent(now, need, out);
  const auto stays_away = agent_.StaysAway();
  if (stays_away && !exit_.decided()) GiveUp(now, kExitUnavailable, *stays_away, out);
}

void HostCore::ReplaceSilentAgent(BootTime now, const AgentSupervisor::Need& need, Effects* out) {
  agent_.SaySilent(need, out);
  const absl::Duration grace = std::min(options_.shutdown_grace(), lease() / 3);
  BeginStop(now, {.grace = grace, .cause = "the agent was silent"}, out);
  Dismiss(out);
  const auto gives_up = agent_.KillSilent(now, need, exit_.decided(), out);
  if (gives_up) return GiveUp(now, kExitFault, *gives_up, out);
  if (!exit_.decided()) NextAgent(now, out);
}

void HostCore::OnDirective(BootTime now, const v1::HostDirective& directive, Effects* out) {
  if (finished_ || !agent_.Admit(directive)) return;
  const bool newly_applied = Compare(memory_.applied(), directive.memory().applied()) != 0;
  memory_ = directive.memory();  // stored before anything is done
  lease_.Extend(directive);
  lease_.UpdateKernelTimer(round_.can_be_stopped(), out);
  serves_others_ = directive.serves_others();
  if (!departure_.begun() && !directive.leave().empty()) {
    BeginLeave(now, {.reason = directive.leave(), .grace = options_.termination_grace}, out);
  }
  Obey(now, directive, out);
  hang_watch_.OnDirective(now, directive, round_.stopping(), out);
  signal_orders_.OnDirective(directive, started(), round_.live_workers() > 0, out);
  Prepare(now, out);
  if (newly_applied && !finished_) SendStatus(out);
}

void HostCore::Obey(BootTime now, const v1::HostDirective& directive, Effects* out) {
  switch (directive.order_case()) {
    case v1::HostDirective::kStart:
      MaybeStart(now, directive.start(), out);
      break;
    case v1::HostDirective::kStop: {
      const absl::Duration grace = absl::Milliseconds(directive.stop().grace_ms());
      const Stop stop{.kind = Stop::Kind::kOrdered, .grace = grace, .cause = directive.stop().cause()};
      history_.OnOrderedStop(now, directive.stop().cause());
      BeginStop(now, stop, out);
      if (!round_.active() && memory_.has_verdict()) fitness_.End(now, out);
      break;
    }
    case v1::HostDirective::kExit: {
      DecideExit(directive.exit(), out);
      BeginStop(
          now,
          {.kind = Stop::Kind::kOrdered, .grace = options_.shutdown_grace(), .cause = directive.exit().reason()},
          out);
      WatchEnd(now, out);
      break;
    }
    case v1::HostDirective::kHold:
    case v1::HostDirective::ORDER_NOT_SET:
      break;
  }
}

// ---- a round ------------------------------------------------------------------------------------------------

void HostCore::MaybeStart(BootTime now, const v1::Round& round, Effects* out) {
  const bool again = Compare(round.id(), started()) <= 0;
  if (again || !IsIdle()) return;
  if (!fitness_.fit() || preload_.holds()) {  // the coordinator made the round before it received that status
    Say(Severity::kWarning,
        absl::StrCat("round ", ToString(round.id()), " not started: this node is not ready for a round"), out);
    return;
  }
  if (lease_.IsEnding(now)) {
    if (Compare(round.id(), not_started_) != 0) {
      Say(Severity::kWarning, absl::StrCat("round ", ToString(round.id()), " not started: the lease has ended"),
          out);
    }
    not_started_ = round.id();
    return;
  }
  const auto leaves = departure_.InsteadOfRound(now, !IsSet(started()));
  if (leaves) return BeginLeave(now, *leaves, out);
  round_.Start(now, round);
  lease_.UpdateKernelTimer(round_.can_be_stopped(), out);
  hang_watch_.BeginRound(now, round, options_.config.slots());
  if (options_.config.hang_timeout_ms() != 0) steps_.BeginRound(options_.config.slots());  // else nobody looks
  history_.OnStart(now, round.id().number());
  out->push_back(SpawnWorkers{.round = round,
                              .forks = preload_.ready(),
                              .learns = preload_.ready() && preload_.learns(),
                              .head_start = round.world_size() > 1 ? kRankZeroHeadStart : absl::ZeroDuration()});
  SendStatus(out);
}

void HostCore::OnSpawned(BootTime, const std::vector<v1::Worker>& workers, Effects*) { round_.OnSpawned(workers); }

void HostCore::OnExecuting(BootTime, int local_rank, Effects* out) {
  if (round_.OnExecuting(local_rank)) SendStatus(out);
}

void HostCore::OnPreload(BootTime now, const PreloadNews& news, Effects* out) {
  if (!finished_ && preload_.OnNews(now, news, out)) SendStatus(out);
}

void HostCore::OnSpawnFailed(BootTime now, int local_rank, int exit_code, const std::string& why, Effects* out) {
  OnExit(now, local_rank, Ending{.number = exit_code, .error_text = why}, out);
}

void HostCore::SetWallAtBoot(BootTime now, absl::Time wall) { wall_at_boot_ = wall - (now - absl::UnixEpoch()); }

void HostCore::OnExit(BootTime now, int local_rank, const Ending& ending, Effects* out) {
  if (finished_) return;
  if (ending.wall) SetWallAtBoot(now, *ending.wall);
  steps_.OnEnded(local_rank);
  const WorkerEnd end{.at = std::min(ending.at.value_or(now), now),
                      .wall_at_boot = wall_at_boot_,
                      .local_rank = local_rank,
                      .ending = hang_watch_.OnEnded(local_rank, ending)};
  if (round_.OnExit(end, out)) StopAfterFailure(now, out);
  round_.SweepIfAllEnded(now, out);
}

void HostCore::StopAfterFailure(BootTime now, Effects* out) {
  const Stop stop{.grace = options_.shutdown_grace(), .outcome = v1::OUTCOME_FAILED, .cause = "a worker failed"};
  BeginStop(now, stop, out);
}

bool HostCore::SparesRest() const { return round_.SparesRest(); }

void HostCore::OnRestEnded(BootTime now, int local_rank, Effects* out) {
  if (finished_) return;
  round_.OnRestEnded(local_rank);
  round_.SweepIfAllEnded(now, out);
}

void HostCore::OnProgress(BootTime now, Effects* out) {
  if (round_.OnProgress(now)) SendStatus(out);
}

// What a departure has promised to the workers holds for every other stop, too.
void HostCore::BeginStop(BootTime now, Stop stop, Effects* out) {
  if (stop.kind != Stop::Kind::kLimit) stop.grace = departure_.GraceOr(now, stop.grace);
  if (!round_.BeginStop(now, stop, out)) return;
  round_.SweepIfAllEnded(now, out);
  history_.OnOwnStop(now, stop.cause);
  SendStatus(out);
}

void HostCore::WatchStop(BootTime now, Effects* out) {
  if (!round_.OnTick(now, out)) return;
  lease_.UpdateKernelTimer(round_.can_be_stopped(), out);
  SendStatus(out);
}

// Workers that are being stopped keep their grace period until the last moment: the lease may yet be renewed.
void HostCore::WatchLease(BootTime now, Effects* out) {
  if (!round_.can_be_stopped() || round_.killed() || !lease_.IsEnding(now)) return;
  if (round_.stopping() && now < lease_.KillMoment()) return;
  const bool cuts_a_grace = round_.live_workers() > 0 && round_.outcome() != v1::OUTCOME_LEASE_ENDED;
  if (!round_.stopping() || cuts_a_grace) {
    const bool awaits_members = memory_.served() && agent_.attached();
    Say(Severity::kWarning, lease_.WhyItEnds(now, awaits_members), out, {.event = events::kLeaseEnded});
  }
  BeginStop(now,
            {.kind = Stop::Kind::kLimit,
             .grace = lease_.KillMoment() - now,
             .outcome = v1::OUTCOME_LEASE_ENDED,
             .cause = "the lease ended"},
            out);
}

void HostCore::OnSwept(BootTime now, const std::string& left, Effects* out) {
  if (finished_) return;
  if (round_.active()) {
    if (!round_.OnSwept(left)) return;
    lease_.UpdateKernelTimer(round_.can_be_stopped(), out);  // at once: a hanging file may delay the output
    out->push_back(GatherRoundOutput{round_.failed_local_rank()});
    return;
  }
  if (fitness_.OnSwept(now, left, JobForFitness().wants_node, out)) SendStatus(out);
}

void HostCore::OnRoundOutput(BootTime now, const std::string& lines, Effects* out) {
  if (!finished_ && round_.OnOutput(now, lines)) RoundIsOver(now, out);
}

void HostCore::RoundIsOver(BootTime now, Effects* out) {
  hang_watch_.EndRound();
  steps_.EndRound();
  fitness_.OnRoundOver();
  preload_.OnRoundOver(round_.outcome() == v1::OUTCOME_SUCCEEDED, out);
  Prepare(now, out);
  SendStatus(out);
  WatchEnd(now, out);
}

// ---- between rounds -----------------------------------------------------------------------------------------

Fitness::Job HostCore::JobForFitness() const {
  return {.wants_node = IsIdle() && !memory_.has_verdict(),
          .round_closed = RoundIsClosed(memory_, started(), round_.outcome())};
}

void HostCore::Prepare(BootTime now, Effects* out) {
  if (fitness_.Prepare(now, JobForFitness(), out)) SendStatus(out);
}

std::string HostCore::Preparing() const {
  const std::string checks = fitness_.Preparing();
  return checks.empty() ? preload_.Holds() : checks;
}

void HostCore::OnCheckEnded(BootTime now, const Ending& ending, Effects* out) {
  if (!finished_) fitness_.OnCheckEnded(now, ending, out);
}

void HostCore::OnCheckOutput(BootTime now, const std::string& last_line, Effects* out) {
  if (finished_) return;
  const bool wants_node = JobForFitness().wants_node;
  if (fitness_.OnCheckOutput(now, last_line, wants_node, out)) SendStatus(out);
  if (!wants_node) WatchEnd(now, out);
}

void HostCore::OnGpuUsers(BootTime now, const GpuUsers& users, Effects* out) {
  if (!finished_ && fitness_.OnGpuUsers(now, users, out)) SendStatus(out);
}

// A node makes its first offer once it is fit: its setup may have installed what is imported.
void HostCore::OnOffer(BootTime now, uint32_t port, Effects* out) {
  fitness_.OnOffer(port);
  preload_.Begin(now, out);
  SendStatus(out);
}

// ---- signals and the end ------------------------------------------------------------------------------------

void HostCore::OnWallClock(BootTime now, absl::Time wall, Effects* out) {
  SetWallAtBoot(now, wall);
  if (exit_.decided()) return;
  const auto leaves = departure_.OnWallClock(now, wall);
  if (leaves) BeginLeave(now, *leaves, out);
}

void HostCore::OnSuspend(BootTime now, bool shell_can_continue, Effects* out) {
  if (options_.leave_signals.count(SIGTSTP) > 0) return OnSignal(now, SIGTSTP, out);
  if (finished_) return;
  if (Suspend(leased(), round_.live_workers() > 0, shell_can_continue, out)) hang_watch_.OnSuspended(true);
}

bool HostCore::MeansLeave(int signal) const {
  const bool usual = signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
  return usual || options_.leave_signals.count(signal) > 0;
}

void HostCore::OnSignal(BootTime now, int signal, Effects* out) {
  if (finished_) {
    if (MeansLeave(signal)) out->push_back(HurryFinish{.cancel = signal == SIGINT});
    return;
  }
  const bool has_workers = round_.live_workers() > 0;
  switch (options_.leave_signals.count(signal) > 0 ? SIGTERM : signal) {
    case SIGUSR1:
    case SIGUSR2:
      if (has_workers) {
        out->push_back(ForwardSignal{signal});
      } else {
        Say(Severity::kInfo, absl::StrCat(DescribeSignal(signal), ": no worker runs on this node"), out);
      }
      return;
    case SIGCONT:
      if (has_workers) out->push_back(SignalWorkers{SIGCONT});
      hang_watch_.OnSuspended(false);
      return;
    default:
      break;
  }
  switch (departure_.OnSignal(now, signal, out)) {
    case Departure::Meaning::kConfirmation:
      return;
    case Departure::Meaning::kStopNow:
      return StopNow(now, signal, out);
    case Departure::Meaning::kLeave:
      BeginLeave(now, {.signal = signal, .reason = "", .grace = options_.termination_grace}, out);
      WatchEnd(now, out);
  }
}

void HostCore::OnForwarded(BootTime, int signal, int processes, Effects* out) {
  if (finished_) return;
  if (processes > 0) {
    return Say(
        Severity::kInfo,
        absl::StrCat(DescribeSignal(signal), " was forwarded to ", processes,
                     processes == 1 ? " worker process that handles it" : " worker processes that handle it",
                     signal == SIGUSR2 ? "; no stacks are taken (py-spy dump --pid PID shows one)" : ""),
        out);
  }
  if (signal != SIGUSR2) {
    return Say(Severity::kWarning,
               absl::StrCat(DescribeSignal(signal), " was not forwarded: no worker process handles it"), out);
  }
  hang_watch_.AskedBySignal(out);
}

void HostCore::OnRanksSignalled(BootTime, const SignalRanks& order, int processes, Effects* out) {
  if (finished_) return;
  Say(Severity::kInfo,
      absl::StrCat(DescribeSignal(order.signal), " was sent to ", processes,
                   order.only_handlers ? " process" : " worker",
                   processes == 1        ? ""
                   : order.only_handlers ? "es"
                                         : "s",
                   " (", OneLine(order.why), ")"),
      out, {.event = events::kOrdered});
  signal_orders_.OnSignalled(processes);
  // A worker that stands still while others of this node go on is silent like one that hangs.
  if (order.signal == SIGSTOP && processes > 0 && processes == round_.live_workers())
    hang_watch_.OnSuspended(true);
  if (order.signal == SIGCONT && processes > 0) hang_watch_.OnSuspended(false);
  SendStatus(out);
}

void HostCore::OnSnapshot(BootTime, const std::vector<RankSnapshot>& ranks, Effects* out) {
  if (!finished_ && hang_watch_.OnSnapshot(ranks, out)) SendStatus(out);
}

void HostCore::OnSigns(BootTime, const std::set<int>& local_ranks, Effects*) { hang_watch_.OnSigns(local_ranks); }

void HostCore::OnSteps(BootTime now, const std::vector<StepSeen>& seen, Effects*) { steps_.OnSeen(now, seen); }

void HostCore::BeginLeave(BootTime now, const LeaveRequest& request, Effects* out) {
  const Stop stop{
      .kind = Stop::Kind::kDeparture, .signal = request.signal, .grace = request.grace, .cause = "asked to leave"};
  departure_.Begin(now, request, round_.GraceWith(now, stop), out);
  BeginStop(now, stop, out);
  SendStatus(out);
}

void HostCore::StopNow(BootTime now, int signal, Effects* out) {
  Say(Severity::kWarning,
      absl::StrCat("second request to stop (", DescribeSignal(signal), "): stopping immediately"), out);
  DecideExit(departure_.ExitNow(signal), out);
  BeginStop(now, {.kind = Stop::Kind::kLimit, .signal = SIGKILL, .cause = "second signal"}, out);
  WatchStop(now, out);
  WatchEnd(now, out);
}

void HostCore::DecideExit(const v1::Exit& exit, Effects* out) {
  if (exit_.Decide(departure_.ExitInsteadOf(exit))) SendStatus(out);
}

// The host ends when nothing of any round is alive and its agent has closed the link or exceeded its time limit.
void HostCore::WatchEnd(BootTime now, Effects* out) {
  const bool ends = exit_.decided() || departure_.begun();
  if (finished_ || !ends || round_.is_awaited()) return;  // what survives SIGKILL is not waited for
  if (!fitness_.End(now, out)) return;
  if (exit_.decided()) {
    if (exit_.Flush(now)) SendStatus(out);
    if (exit_.Lingers(now, agent_.gone_at())) return;
  } else {
    const Departure::Others others{serves_others_, memory_.served(), options_.shutdown_grace()};
    if (agent_.attached() && departure_.AwaitsAgent(now, round_.over_since(), others, out)) return;
    exit_.Decide(departure_.Exit());
  }
  finished_ = true;
  preload_.End(out);
  if (agent_.attached()) out->push_back(KillAgent{});
  Finish finish = exit_.MakeFinish(departure_.leave(), memory_.last());
  finish.restarts = history_.restarts();
  if (!finish.verdict) finish.own_failure = round_.cause();
  out->push_back(std::move(finish));
}

}  // namespace muster::host
