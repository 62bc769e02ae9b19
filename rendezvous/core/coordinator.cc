// Events: which of them need a decision, and what is sent after it.
#include "rendezvous/core/coordinator.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "rendezvous/core/admission.h"
#include "rendezvous/core/enter.h"
#include "rendezvous/core/event_record.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/learning.h"
#include "rendezvous/core/losses.h"
#include "rendezvous/core/orders.h"
#include "rendezvous/core/progress.h"
#include "rendezvous/core/stack_view.h"
#include "rendezvous/core/steps.h"

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
  if (!job_.asked_to_end_at || job_.IsOver() || job_.asked_to_stop) return false;
  return std::none_of(job_.hosts.begin(), job_.hosts.end(),
                      [&](const auto& entry) { return job_.NeedsCoordinator(now, entry.second); });
}

// ---- events -------------------------------------------------------------------------------------------------

void Coordinator::OnStatus(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out) {
  const Recording recording(now, &job_, out);
  if (!job_.hosts.IsVoidHint(status)) return TakeIn(now, stream, status, out);
  const Host* const known = job_.hosts.Find(status.host_id());
  if (known != nullptr && known->status.has_place()) job_.hosts.VoidHint(status.host_id());
  v1::AgentStatus without_place = status;
  without_place.clear_place();
  TakeIn(now, stream, without_place, out);
  if (Host* const host = job_.hosts.Find(status.host_id())) host->hint_is_void = true;
}

void Coordinator::TakeIn(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out) {
  NoticeLateness(now);
  const Host* const sender = job_.hosts.Find(status.host_id());
  if (!Admit(now, stream, status, sender, out)) return;
  undecided_ |= IsNews(stream, status, sender);
  const Host& host = Learn(now, stream, status, &job_, &lines_, out);
  const uint64_t sent_before = host.exchange.last_sent;
  if (undecided_ && !MayWait(now, host)) {
    DecideAndPush(now, out);
  } else if (status.phase() == v1::PHASE_HOST_GONE) {
    // Without a decision over all hosts, because thousands may arrive within moments.
    LoseEnded(now, status.host_id(), &job_, &outbox_, out);
  }
  Host* const left = job_.hosts.Find(status.host_id());  // a decision may have removed it
  if (left != nullptr && left->stream == stream && left->exchange.last_sent == sent_before)
    outbox_.Send(now, job_, left, out);
}

// Refuses strangers, ignores statuses that are out of order, and follows epochs. sender: nullptr: not known yet.
// False: the status is ignored.
bool Coordinator::Admit(BootTime now, StreamId stream, const v1::AgentStatus& status, const Host* sender,
                        Effects* out) {
  if (const std::optional<Refusal> refusal = WhyRefused(now, job_, stream, status)) {
    Outbox::Refuse(now, stream, status, *refusal, &job_, out);
    return false;
  }
  if (status.host_id().empty()) return false;
  if (sender != nullptr) {
    const v1::StatusId& known = sender->status.id();
    if (status.id().agent_number() < known.agent_number()) {
      out->push_back(CloseStream{stream, "superseded by a newer agent of this host"});
      return false;
    }
    if (Compare(status.id(), known) <= 0) return false;
  }
  if (job_.succession.Hear(status.epoch())) BeginEpoch(now, status.epoch().number(), &random_, &job_, out);
  return true;
}

// A heartbeat without news triggers no decision, which would look at all hosts: in a large job most statuses are
// such heartbeats. Changes that only time brings about are found by the next tick.
bool Coordinator::IsNews(StreamId stream, const v1::AgentStatus& status, const Host* sender) {
  if (sender == nullptr || sender->stream != stream) return true;
  const uint64_t known = sender->status.applied().seq(), now_applied = status.applied().seq();
  const auto reaches = [&](uint64_t seq) { return seq != 0 && (known >= seq) != (now_applied >= seq); };
  const Exchange& exchange = sender->exchange;
  return sender->status.news() != status.news() || reaches(exchange.counts_from) || reaches(exchange.run_seq) ||
         reaches(exchange.stop_seq);
}

// Every decision looks at all hosts. With very many hosts, a decision for each READY, STARTING and RUNNING of a
// round would take longer than a lease. So one decision serves for all statuses that arrived since the last one,
// unless a status is urgent.
bool Coordinator::MayWait(BootTime now, const Host& sender) const {
  const bool primary = sender.status.at_primary();
  const bool ends =
      sender.status.phase() == v1::PHASE_FAILED || sender.IsLeaving() || sender.IsUnusable() || sender.IsGone();
  if (ends && job_.state == State::kRunning && (job_.CostsTheRound(sender) || primary)) return false;
  if (sender.IsGone() && primary) return false;  // this coordinator ends with it, and sends its farewell first
  return DecidedJustNow(now);
}

bool Coordinator::DecidedJustNow(BootTime now) const {
  const auto hosts = static_cast<int64_t>(job_.hosts.size());
  return job_.hosts.size() > job_.options.many_hosts && now < decided_at_ + job_.options.decision_spacing * hosts;
}

void Coordinator::DecideAndPush(BootTime now, Effects* out) {
  decided_at_ = now;
  undecided_ = false;
  Decide(now, {&job_, &announcements_, &random_}, &outbox_, out);
  outbox_.SendChanges(now, &job_, out);
  outbox_.EndFarewell(now, &job_, out);
}

void Coordinator::OnClosed(BootTime now, StreamId stream, Effects* out) {
  const Recording recording(now, &job_, out);
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
      if (host->part.in_round && !host->part.succeeded) {
        job_.greatest.losses.Note(
            std::min(now, host->part.lost_at),
            absl::StrCat(host->Name(),
                         left ? absl::StrCat(" left the job: it was ", host->WhyItLeft()) : " ended"),
            &host->part);
      }
      ForgetEnded(id, &job_, out);
    }
  }
  undecided_ = true;  // a network failure closes thousands of streams at once: one decision for all of them
  if (!DecidedJustNow(now)) DecideAndPush(now, out);
}

void Coordinator::OnTick(BootTime now, Effects* out) {
  const Recording recording(now, &job_, out);
  NoticeLateness(now);
  announcements_.OnLeaseCheck(job_, out);
  DealRanksAnew(out);
  DecideAndPush(now, out);
  announcements_.OnTick(now, job_, out);
  job_.stacks.OnTick(now);
  job_.ranks.OnTick(now);
  FollowOrders(now, &job_);
  NoteProgress(now, out);
  conditions_.OnTick(now, job_, out);
}

void Coordinator::NoteProgress(BootTime now, Effects* out) {
  if (job_.steps.IsDue(now)) job_.steps.Add(now, job_.state == State::kRunning ? PaceNow(now, job_).rate : 0);
  if (!job_.time.IsDue(now)) return;
  const TimeLedger::Moment moment = MomentOf(now, job_);
  job_.time.OnTick(now, moment);
  if (!moment.has_shown_signs || !job_.history.OnSignOfLife(moment.sign)) return;
  Say(Severity::kDebug, absl::StrCat("round ", job_.greatest.number(), " shows its first sign of life"), out,
      {.event = events::kFirstSign, .round = NumberOfRound(job_)});
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
  const Recording recording(now, &job_, out);
  job_.refusals.NoteTurnedAway(now, absl::StrCat("a node at ", address.empty() ? "an unknown address" : address),
                               reason, out);
}

// Nothing is decided: only the members hear of it, at once.
void Coordinator::OnStacksWanted(BootTime now, Effects* out) {
  if (!WantStacks(now, &job_)) return;
  for (auto& [id, host] : job_.hosts) {
    if (host.part.in_round && host.IsAttached()) outbox_.Send(now, job_, &host, out);
  }
}

void Coordinator::OnRankWanted(BootTime now, int rank, Effects* out) {
  Host* const host = WantRank(now, rank, &job_);
  if (host != nullptr && host->IsAttached()) outbox_.Send(now, job_, host, out);
}

void Coordinator::OnOrder(BootTime now, const v1::Order& order, Effects* out) {
  const Recording recording(now, &job_, out);
  NoticeLateness(now);
  if (!TakeOrder(now, order, &job_, out)) return;
  DecideAndPush(now, out);
  for (auto& [id, host] : job_.hosts) {
    const bool is_to_leave = !host.leave_order.empty() && !host.IsLeaving();
    if (host.IsAttached() && (is_to_leave || job_.signalling.For(now, id))) outbox_.Send(now, job_, &host, out);
  }
}

void Coordinator::OnAskedToEnd(BootTime now, Effects* out) {
  const Recording recording(now, &job_, out);
  NoticeLateness(now);
  if (!job_.asked_to_end_at) {
    job_.asked_to_end_at = now;
    Say(Severity::kDebug, "this coordinator was asked to end", out,
        {.event = events::kLeaving, .round = NumberOfRound(job_)});
  }
  DecideAndPush(now, out);
}

void Coordinator::NoticeLateness(BootTime now) {
  const absl::Duration shift = job_.pauses.Notice(now);
  if (shift == absl::ZeroDuration()) return;
  for (auto& [id, host] : job_.hosts) host.PostponeDeadlines(shift);
  job_.hang.kill_ordered_at += shift;
}

}  // namespace muster::rendezvous
