// Events: which of them need a decision, and what is sent after it.
#include "rendezvous/core/coordinator.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/wire/ids.h"
#include "rendezvous/core/admission.h"
#include "rendezvous/core/explain.h"

namespace muster::rendezvous {

Coordinator::Coordinator(CoordinatorOptions options, BootTime now, uint64_t entropy)
    : random_(entropy), job_(std::move(options), now, random_.Next()) {}

std::string Coordinator::Waiting() const { return rendezvous::Waiting(job_); }

bool Coordinator::finished() const {
  return job_.state == State::kReleasing &&
         (job_.hosts.empty() || job_.pauses.last_event() > job_.state_since + kReleaseLimit);
}

// A verdict, or a cancellation that leads to one, reaches the nodes first: finished() is bounded, too.
bool Coordinator::MayEnd(BootTime now) const {
  if (!job_.asked_to_end_at || job_.IsOver() || !job_.cancelled_on.empty()) return false;
  return std::none_of(job_.hosts.begin(), job_.hosts.end(),
                      [&](const auto& entry) { return job_.NeedsCoordinator(now, entry.second); });
}

// ---- events -------------------------------------------------------------------------------------------------

void Coordinator::OnStatus(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out) {
  if (job_.hosts.IsVoidHint(status)) {
    const Host* const known = job_.hosts.Find(status.host_id());
    if (known != nullptr && known->status.has_place()) job_.hosts.VoidHint(status.host_id());
    v1::AgentStatus without_place = status;
    without_place.clear_place();
    OnStatus(now, stream, without_place, out);
    if (Host* const host = job_.hosts.Find(status.host_id())) host->hint_is_void = true;
    return;
  }
  NoticeLateness(now);
  if (!Admit(now, stream, status, out)) return;
  const bool news = IsNews(stream, status);
  undecided_ |= news;
  Learn(now, stream, status, out);
  const uint64_t sent_before = job_.hosts.Get(status.host_id()).exchange.last_sent;
  if (undecided_ && !MayWait(now, status)) {
    DecideAndPush(now, out);
  } else if (status.phase() == v1::PHASE_HOST_GONE) {
    // Without a decision over all hosts, because thousands may arrive within moments.
    Lose(now, status.host_id(), StartedLast(), true, out);
  }
  Host* const host = job_.hosts.Find(status.host_id());
  if (host != nullptr && host->stream == stream && host->exchange.last_sent == sent_before) Send(now, *host, out);
}

// A heartbeat without news triggers no decision, which would look at all hosts: in a large job most statuses are
// such heartbeats. Changes that only time brings about are found by the next tick.
bool Coordinator::IsNews(StreamId stream, const v1::AgentStatus& status) const {
  const Host* const host = job_.hosts.Find(status.host_id());
  if (host == nullptr || host->stream != stream) return true;
  const uint64_t known = host->status.applied().seq(), now_applied = status.applied().seq();
  const auto reaches = [&](uint64_t seq) { return seq != 0 && (known >= seq) != (now_applied >= seq); };
  const Exchange& exchange = host->exchange;
  return host->status.news() != status.news() || reaches(exchange.counts_from) || reaches(exchange.run_seq) ||
         reaches(exchange.stop_seq);
}

// Every decision looks at all hosts. With very many hosts, a decision for each READY, STARTING and RUNNING of a
// round would take longer than a lease. So one decision serves for all statuses that arrived since the last one,
// unless a status is urgent.
bool Coordinator::MayWait(BootTime now, const v1::AgentStatus& status) const {
  const v1::Phase phase = status.phase();
  const bool gone = phase == v1::PHASE_HOST_GONE;
  const bool ends = phase == v1::PHASE_FAILED || phase == v1::PHASE_LEAVING || phase == v1::PHASE_UNUSABLE || gone;
  const Host* const host = job_.hosts.Find(status.host_id());
  const bool costs_the_round = host != nullptr && job_.CostsTheRound(*host);
  if (ends && job_.state == State::kRunning && (costs_the_round || status.at_primary())) return false;
  if (gone && status.at_primary()) return false;  // this coordinator ends with it, and sends its farewell first
  return DecidedJustNow(now);
}

bool Coordinator::DecidedJustNow(BootTime now) const {
  const auto hosts = static_cast<int64_t>(job_.hosts.size());
  return job_.hosts.size() > job_.options.many_hosts && now < decided_at_ + job_.options.decision_spacing * hosts;
}

void Coordinator::DecideAndPush(BootTime now, Effects* out) {
  decided_at_ = now;
  undecided_ = false;
  Decide(now, out);
  PushChanges(now, out);
  EndFarewell(now, out);
}

void Coordinator::OnClosed(BootTime now, StreamId stream, Effects* out) {
  NoticeLateness(now);
  job_.refusals.ForgetStream(stream);
  const std::string id = job_.hosts.IdOf(stream);
  if (id.empty()) return;
  job_.hosts.Forget(stream);
  if (Host* const host = job_.hosts.Find(id); host != nullptr && host->stream == stream) {
    job_.hosts.Detach(host);
    host->closed_at = now;
    // A host that has applied its RELEASE, or left with nothing alive, will not come back. If only its agent died
    // before that, the next agent reconnects and receives the order.
    const bool left = host->IsLeaving() && host->IsIdle();
    if (left || host->IsGone() || host->HasAppliedRelease(job_.epoch())) {
      if (host->part.in_round && !host->part.succeeded) {  // whatever it said before, it has a part now
        job_.greatest.NoteLoss(std::min(now, host->part.lost_at),
                               absl::StrCat(host->Name(), left ? " left the job" : " ended"), false,
                               host->part.round.node_rank(), host->part.node);
      }
      ForgetEnded(id, out);
    }
  }
  undecided_ = true;  // a network failure closes thousands of streams at once: one decision for all of them
  if (!DecidedJustNow(now)) DecideAndPush(now, out);
}

void Coordinator::OnTick(BootTime now, Effects* out) {
  NoticeLateness(now);
  announcements_.OnLeaseCheck(job_, out);
  DealRanksAnew(out);
  DecideAndPush(now, out);
  announcements_.OnTick(now, job_, out);
}

// The usual batch line expands $SLURM_NODEID before srun starts the nodes, so that all of them claim rank 0.
void Coordinator::DealRanksAnew(Effects* out) {
  struct Claim {
    std::string first;
    int count = 0;
  };
  std::map<std::string, Claim> claims;
  for (const Hosts::Rivalry& rivalry : job_.hosts.Rivalries()) {
    if (!rivalry.other->status.place_is_hint()) continue;
    Claim& claim = claims[rivalry.holder->status.host_id()];
    if (claim.count++ == 0) claim.first = DescribeRivalry(job_, rivalry);
    job_.hosts.VoidHint(rivalry.other->status.host_id());
  }
  for (const auto& [holder, claim] : claims) {
    const std::string more = claim.count == 1 ? "" : absl::StrCat(", and so do ", claim.count - 1, " more");
    Say(Severity::kWarning,
        absl::StrCat(claim.first, more,
                     "; with this --rdzv-backend --node-rank is a hint, and all but the first one get other "
                     "ranks"),
        out);
  }
}

void Coordinator::OnTurnedAway(BootTime now, const std::string& address, const std::string& reason, Effects* out) {
  job_.refusals.NoteTurnedAway(now, absl::StrCat("a node at ", address.empty() ? "an unknown address" : address),
                               reason, out);
}

void Coordinator::OnAskedToEnd(BootTime now, Effects* out) {
  NoticeLateness(now);
  if (!job_.asked_to_end_at) job_.asked_to_end_at = now;
  DecideAndPush(now, out);
}

void Coordinator::NoticeLateness(BootTime now) {
  const absl::Duration shift = job_.pauses.Notice(now);
  if (shift == absl::ZeroDuration()) return;
  for (auto& [id, host] : job_.hosts) host.PostponeDeadlines(shift);
  job_.hang.kill_ordered_at += shift;
}

// Refuses strangers, ignores statuses that are out of order, and follows epochs. False: the status is ignored.
bool Coordinator::Admit(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out) {
  if (const std::optional<Refusal> refusal = WhyRefused(now, job_, stream, status)) {
    Refuse(now, stream, status, *refusal, out);
    return false;
  }
  if (status.host_id().empty()) return false;
  if (const Host* const host = job_.hosts.Find(status.host_id())) {
    const v1::StatusId& known = host->status.id();
    if (status.id().agent_number() < known.agent_number()) {
      out->push_back(CloseStream{stream, "superseded by a newer agent of this host"});
      return false;
    }
    if (Compare(status.id(), known) <= 0) return false;
  }
  if (job_.succession.Hear(status.epoch())) {
    BeginEpoch(now, status.epoch().number(), out);
  }
  return true;
}

// The directive says nothing else: a stranger learns nothing of the job.
void Coordinator::Refuse(BootTime now, StreamId stream, const v1::AgentStatus& status, const Refusal& refusal,
                         Effects* out) {
  job_.refusals.NoteRefused(now, stream, Foreign(status.hostname()), refusal.reason, out);
  v1::Directive directive;
  directive.set_protocol(kProtocol);
  directive.mutable_refused()->set_exit_code(refusal.exit_code);
  directive.mutable_refused()->set_reason(refusal.told);
  directive.mutable_refused()->set_later(refusal.later);
  out->push_back(SendDirective{stream, std::move(directive)});
}

// ---- sending ------------------------------------------------------------------------------------------------

void Coordinator::Send(BootTime now, Host& host, Effects* out) {
  out->push_back(SendDirective{host.stream, directives_.For(now, job_, &host)});
}

void Coordinator::PushChanges(BootTime now, Effects* out) {
  job_.verdict_kept = true;
  for (const auto& [id, host] : std::as_const(job_.hosts)) {
    if (host.status.at_primary() && host.IsAttached() && !host.status.has_verdict()) job_.verdict_kept = false;
  }
  for (auto& [id, host] : job_.hosts) {
    if (!host.IsAttached()) continue;
    // The RUN of a new round differs from the last order, too: a member of the last one has got a STOP since.
    if (host.exchange.order_sent != OrderFor(now, job_, host)) Send(now, host, out);
  }
}

// Called when `own` reports HOST_GONE. True if it is the primary's host and a farewell is due, or under way,
// before its agent may exit.
bool Coordinator::BeginFarewell(BootTime now, const Host& own) {
  if (job_.farewell) {  // the agent has repeated its status
    if (job_.farewell->stream != own.stream) return false;
    job_.farewell->echo = own.status.id();
    return true;
  }
  job_.farewell = FarewellFor(now, job_, own, directives_.last_seq());
  if (!job_.farewell) return false;
  for (auto& [id, host] : job_.hosts) {
    // Nodes that attach later are left out: otherwise one could be counted in place of a node of this audience.
    host.in_farewell_audience = host.IsTrainer();
    host.exchange.order_sent = -1;  // send at once
  }
  return true;
}

// Releases the agent of this process when the whole audience has the farewell, or after kFarewellLimit.
void Coordinator::EndFarewell(BootTime now, Effects* out) {
  std::optional<Farewell>& farewell = job_.farewell;
  if (!farewell || farewell->stream == 0) return;
  if (!AudienceHasFarewell(job_) && now < farewell->since + kFarewellLimit) return;
  v1::Directive directive = directives_.Next(job_, farewell->echo);
  directive.mutable_release()->set_exit_code(kExitLeft);
  out->push_back(SendDirective{farewell->stream, std::move(directive)});
  farewell->stream = 0;
}

}  // namespace muster::rendezvous
