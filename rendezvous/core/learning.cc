// What each status changes in the coordinator's Job.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/crypto/held.h"
#include "base/wire/ids.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/lease.h"

namespace muster::rendezvous {
namespace {

// Says of a failure that it happened on this node, whatever the node says of where it did: people go and look
// there.
void Place(const Host& host, v1::Failure* failure) {
  failure->set_host(host.status.hostname());
  const v1::Round& round = host.part.in_round ? host.part.round : host.status.last();
  if (!round.has_node_rank() || !Same(failure->round(), round.id())) return;
  const auto place = [&](v1::Failure& of_worker) {
    of_worker.set_host(host.status.hostname());
    of_worker.set_node_rank(round.node_rank());
    of_worker.set_rank(round.first_rank() + of_worker.local_rank());
  };
  place(*failure);
  for (v1::Failure& other : *failure->mutable_others()) place(other);
}

// Whether it is the one that `brief` is the short form of, with all its details.
bool Completes(const v1::Verdict& verdict, const v1::Verdict& brief) {
  return brief.brief() && !verdict.brief() && verdict.digest() == brief.digest();
}

}  // namespace

void Coordinator::Learn(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out) {
  if (const std::optional<StreamId> before = job_.hosts.Attach(now, stream, status)) {
    if (*before != 0) out->push_back(CloseStream{*before, "superseded by a newer stream of this host"});
    out->push_back(AdmitStream{stream});
  }
  Host& host = job_.hosts.Get(status.host_id());
  const bool was_unusable = host.IsUnusable();
  host.Store(status);
  LearnUse(now, was_unusable, host, out);
  if (status.facts_size() > 0 || host.facts.empty()) host.TakeFacts();
  const BootTime heard_before = host.last_status_at;
  LearnTimes(now, status, host);
  job_.hosts.Claim(host);
  job_.primary_leaves |= status.at_primary() && (host.IsLeaving() || host.IsGone());
  LearnRounds(now, host, out);
  if (status.cancelled() && job_.cancelled_on.empty()) job_.cancelled_on = WhereCancelled(job_, host);
  LearnFarewell(host);
  LearnLoss(now, heard_before, host);
  LearnFailure(now, host);
  if (job_.Follows(host)) host.exchange.NoteApplied(host.status.applied().seq());
  if (!status.predecessor_dead().empty()) LearnProvedDeath(now, status, out);
  if (status.has_verdict()) LearnVerdict(now, host, out);
  host.ForgetDetailsOfVerdict();
}

void Coordinator::LearnUse(BootTime now, bool was_unusable, Host& host, Effects* out) {
  const v1::AgentStatus& status = host.status;
  const bool ends = !was_unusable && status.phase() == v1::PHASE_UNUSABLE,
             begins = was_unusable && status.phase() == v1::PHASE_READY;
  if ((!ends && !begins) || !host.use_lines.Take(now) || !TakeNodeLogBudget(now, out)) return;
  if (ends) return Say(Severity::kWarning, WhyUnusable(status), out, {.event = events::kNodeUnusable});
  Say(Severity::kInfo, absl::StrCat(status.hostname(), " is usable again"), out, {.event = events::kNodeUsable});
}

// Log lines that any node can trigger share one budget. When it is exhausted, that lines are left out is logged
// once.
bool Coordinator::TakeNodeLogBudget(BootTime now, Effects* out) {
  if (lines_on_nodes_.Take(now)) return true;
  if (lines_left_out_.Take(now)) {
    Say(Severity::kWarning,
        "too many nodes are unusable, usable again or confirmed dead: some of these lines are left out", out);
  }
  return false;
}

void Coordinator::LearnTimes(BootTime now, const v1::AgentStatus& status, Host& host) {
  host.silence_measured_from = host.last_status_at = now;
  if (status.coordinator_silent_ms() > 0 && !Same(status.epoch(), job_.epoch())) {
    job_.succession.NotePredecessorHeard(now - absl::Milliseconds(status.coordinator_silent_ms()));
  }
  host.joined_at = now - absl::Milliseconds(status.in_job_ms());
  job_.gathering.LearnDuration(now, absl::Milliseconds(status.gathering_ms()));
}

// ---- rounds -------------------------------------------------------------------------------------------------

// Learns from the newest round that this host knows. While recovering, the greatest round of all is the one to
// continue from.
void Coordinator::LearnRounds(BootTime now, Host& host, Effects* out) {
  const v1::Round& last = host.status.last();
  if (!IsSet(last.id())) return;
  GreatestRound& greatest = job_.greatest;
  job_.gathering.first_round = false;
  greatest.max_number = std::max(greatest.max_number, last.id().number());
  if (Compare(last.id(), greatest.id()) > 0) LearnGreaterRound(now, last, out);
  // Members hear of a round when it starts, a spare perhaps an hour later: the earliest time is the right one.
  if (!greatest.owned && Same(last.id(), greatest.id())) {
    greatest.since = std::min(greatest.since, now - absl::Milliseconds(last.age_ms()));
  }
  LearnMembership(now, last, host);
  host.was_ready |= job_.IsReady(host);
}

void Coordinator::LearnGreaterRound(BootTime now, const v1::Round& last, Effects* out) {
  GreatestRound& greatest = job_.greatest;
  if (!greatest.owned) {
    // While gathering, the end of that round has not been counted yet, so it is recovered first. While draining
    // an older round, whose members have moved on, the greater round may be healthy.
    const bool turns_back = job_.state == State::kGathering || job_.state == State::kDraining;
    if (turns_back) Enter(State::kRecovering, now, "an agent reported a later round", out);
    greatest.Become(last, now, false);
    job_.succession.ForgetFarewell();
    job_.succession.NoteAttached(now);
    for (auto& [id, other] : job_.hosts) {
      other.part.in_older_round |= other.part.in_round;
      other.part.in_round = other.part.succeeded = other.told_by_predecessor = false;
      other.part.lost_at = absl::InfiniteFuture();
    }
  }
  RestartLedger seen = RestartLedger::ReadFrom(last, now);
  seen.LimitExclusions(now, job_.options);
  if (!greatest.is_ours)
    greatest.counts = greatest.counts.MergedWith(seen);  // of its own round it keeps them itself
  // The greater round is another coordinator's; the next round of this one follows it.
  seen.restart_count = std::min(seen.restart_count + (greatest.owned ? 1 : 0), kMaxCount);
  job_.counts = job_.counts.MergedWith(seen);
  job_.gathering.largest = std::max(job_.gathering.largest, last.largest_node_count());
}

void Coordinator::LearnMembership(BootTime now, const v1::Round& last, Host& host) {
  GreatestRound& greatest = job_.greatest;
  Part& part = host.part;
  if (last.has_node_rank() && host.seat < 0) host.seat = last.seat();
  part.in_older_round |= last.has_node_rank() && Compare(last.id(), greatest.id()) < 0;
  if (!greatest.is_ours && job_.Claims(host))
    greatest.members.try_emplace(last.node_rank(), host.status.host_id());
  if (!part.in_round && !greatest.owned && job_.Claims(host)) {
    part.in_round = true;
    part.in_older_round = false;
    part.round = last;
    part.workers = host.status.slots();
    host.seat = last.seat();
    if (host.RunsSomething()) host.lease_until = LeaseEnd(job_, host);  // it may hold one of the predecessor
    job_.succession.NoteAttached(now);
    // A member of the greatest round has precedence for its place.
    job_.hosts.GivePlaceTo(host.status);
  }
  if (!job_.HasSucceeded(host)) return;
  greatest.succeeded.insert(last.node_rank());
  part.succeeded |= part.in_round;
}

// This coordinator never passes a predecessor's farewell on, so a node that reports one has it from that
// predecessor.
void Coordinator::LearnFarewell(Host& host) {
  const v1::Round& last = host.status.last();
  if (job_.greatest.owned || !last.has_primary_ended() || !Same(last.id(), job_.greatest.id())) return;
  const absl::Duration age = absl::Milliseconds(last.primary_ended().age_ms());
  job_.succession.LearnFarewell(last.primary_ended(), host.last_status_at - age);
  host.told_by_predecessor |= age <= job_.options.lease;
}

// ---- losses, failures, the verdict --------------------------------------------------------------------------

// Dates the loss at its first sign, so that failures of peers count as echoes however long the node takes to end
// or to return.
void Coordinator::LearnLoss(BootTime now, BootTime heard_before, Host& host) {
  if (!host.part.in_round) return;
  // A node that turns out unfit after its workers have ended did not cost this round anything.
  if (host.IsLeaving() || (host.IsUnusable() && !host.IsIdle())) host.NoteLossSign(now);
  if (job_.Claims(host) && host.status.outcome() == v1::OUTCOME_LEASE_ENDED) {
    host.NoteLossSign(heard_before == absl::InfinitePast() ? job_.succession.WhenLost(now) : heard_before);
  }
}

void Coordinator::LearnFailure(BootTime now, Host& host) {
  if (host.status.has_cannot_start()) host.status.mutable_cannot_start()->set_host(host.status.hostname());
  if (!host.status.has_failure()) return;
  Place(host, host.status.mutable_failure());
  host.NoteFailure(now);
  job_.greatest.CorrectLostFailure(host.status.host_id(), host.status.failure(), host.failed_at);
}

// The successor, on the same machine, found no process of the dead host alive: only there the hash of that process
// can be known. The loss is dated at the dead host's last status, so that failures of its peers count as echoes.
void Coordinator::LearnProvedDeath(BootTime now, const v1::AgentStatus& successor, Effects* out) {
  const Host* const dead = successor.has_place() ? job_.hosts.HolderOf(successor.place()) : nullptr;
  if (dead == nullptr || dead->IsAttached()) return;
  if (dead->status.whereabouts().process() != successor.predecessor_dead()) return;
  const std::string id = dead->status.host_id();
  if (job_.CostsTheRound(*dead)) {
    const absl::Duration after = absl::Trunc(now - dead->last_status_at, absl::Milliseconds(100));
    NoteNodeLost(dead->last_status_at, *dead,
                 absl::StrCat(dead->Name(), " was lost: its main process and agent died; restarted ",
                              absl::FormatDuration(after), " after its last heartbeat"),
                 true, out);
  } else if (TakeNodeLogBudget(now, out)) {
    Say(Severity::kInfo, absl::StrCat(dead->status.hostname(), ": its previous main process is confirmed dead"),
        out);
  }
  ForgetEnded(id, out);
  job_.hosts.GivePlaceTo(successor);
}

// A brief verdict is binding even if this coordinator does not hold its details. These may still come from another
// host.
void Coordinator::LearnVerdict(BootTime now, const Host& host, Effects* out) {
  const v1::Verdict& verdict = host.status.verdict();
  std::optional<v1::Verdict>& known = job_.verdict;
  if (known) {
    if (Completes(verdict, *known)) known = verdict;
    return;
  }
  Conclude(now, verdict, out);
}

void Coordinator::BeginEpoch(BootTime now, uint64_t above, Effects* out) {
  job_.succession.BeginEpoch(now, above, random_.Next());
  Say(Severity::kInfo,
      absl::StrCat("another coordinator has served this job; learning its state from the nodes, as epoch ",
                   ToString(job_.epoch())),
      out);
  job_.greatest.BeginEpoch();
  for (auto& [id, host] : job_.hosts) host.exchange.BeginEpoch();
  if (!job_.verdict && job_.state != State::kRecovering) Enter(State::kRecovering, now, "a newer epoch", out);
}

}  // namespace muster::rendezvous
