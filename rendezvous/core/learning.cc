#include "rendezvous/core/learning.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"
#include "base/crypto/held.h"
#include "base/exit_codes.h"
#include "base/wire/ids.h"
#include "rendezvous/core/enter.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/lease.h"
#include "rendezvous/core/losses.h"
#include "rendezvous/core/states.h"

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

void TurnBack(BootTime now, const std::string& why, Job* job, Effects* out) {
  MUSTER_CHECK(MayBeLearned(State::kRecovering, now, *job), "this state does not turn back to RECOVERING");
  Enter(State::kRecovering, now, why, job, out);
}

void LearnUse(BootTime now, bool was_unusable, Host& host, NodeLines* lines, Effects* out) {
  const v1::AgentStatus& status = host.status;
  const bool ends = !was_unusable && status.phase() == v1::PHASE_UNUSABLE,
             begins = was_unusable && status.phase() == v1::PHASE_READY;
  if ((!ends && !begins) || !host.use_lines.Take(now) || !lines->Take(now, out)) return;
  NoteSubject about{.event = ends ? events::kNodeUnusable : events::kNodeUsable, .host = host.status.hostname()};
  if (ends) return Say(Severity::kWarning, WhyUnusable(status), out, about);
  Say(Severity::kInfo, absl::StrCat(status.hostname(), " is usable again"), out, about);
}

void LearnTimes(BootTime now, const v1::AgentStatus& status, Host& host, Job* job) {
  host.silence_measured_from = host.last_status_at = now;
  if (status.coordinator_silent_ms() > 0 && !Same(status.epoch(), job->epoch())) {
    job->succession.NotePredecessorHeard(now - absl::Milliseconds(status.coordinator_silent_ms()));
  }
  host.joined_at = now - absl::Milliseconds(status.in_job_ms());
  job->gathering.LearnDuration(now, absl::Milliseconds(status.gathering_ms()));
}

void LearnGreaterRound(BootTime now, const v1::Round& last, Job* job, Effects* out) {
  GreatestRound& greatest = job->greatest;
  if (!greatest.is_controlled) {
    // While gathering, the end of that round has not been counted yet, so it is recovered first. While draining
    // an older round, whose members have moved on, the greater round may be healthy.
    const bool turns_back = job->state == State::kGathering || job->state == State::kDraining;
    if (turns_back) TurnBack(now, "an agent reported a later round", job, out);
    greatest.Become(last, now, false);
    job->succession.ForgetFarewell();
    job->succession.NoteAttached(now);
    for (auto& [id, other] : job->hosts) {
      other.part.in_older_round |= other.part.in_round;
      other.part.in_round = other.part.succeeded = other.told_by_predecessor = false;
      other.part.lost_at = absl::InfiniteFuture();
    }
  }
  RestartLedger seen = RestartLedger::ReadFrom(last, now);
  seen.LimitExclusions(now, job->options);
  if (!greatest.was_made_here)
    greatest.counts = greatest.counts.MergedWith(seen);  // of its own round it keeps them itself
  // The greater round is another coordinator's; the next round of this one follows it.
  seen.restart_count = std::min(seen.restart_count + (greatest.is_controlled ? 1 : 0), kMaxCount);
  job->counts = job->counts.MergedWith(seen);
  job->gathering.largest = std::max(job->gathering.largest, last.largest_node_count());
}

// By the coordinator that it followed until now, whose round may have ended for this node since.
bool HasBeenDrained(const v1::AgentStatus& status) {
  return status.phase() == v1::PHASE_READY &&
         (status.outcome() == v1::OUTCOME_STOPPED || status.outcome() == v1::OUTCOME_FAILED);
}

void LearnMembership(BootTime now, const v1::Round& last, Host& host, Job* job) {
  GreatestRound& greatest = job->greatest;
  Part& part = host.part;
  if (last.has_node_rank() && host.seat < 0) host.seat = last.seat();
  part.in_older_round |= last.has_node_rank() && Compare(last.id(), greatest.id()) < 0;
  if (!greatest.was_made_here && job->Claims(host))
    greatest.members.try_emplace(last.node_rank(), host.status.host_id());
  if (!part.in_round && !greatest.is_controlled && job->Claims(host)) {
    part.in_round = true;
    part.in_older_round = false;
    part.round = last;
    part.workers = host.status.slots();
    host.seat = last.seat();
    if (host.RunsSomething()) host.lease_until = LeaseEnd(*job, host);  // it may hold one of the predecessor
    greatest.came_drained |= HasBeenDrained(host.status);
    job->succession.NoteAttached(now);
    // A member of the greatest round has precedence for its place.
    job->hosts.GivePlaceTo(host.status);
  }
  if (!job->HasSucceeded(host)) return;
  greatest.successes.ranks.insert(last.node_rank());
  part.succeeded |= part.in_round;
}

// Learns from the newest round that this host knows. While recovering, the greatest round of all is the one to
// continue from.
void LearnRounds(BootTime now, Host& host, Job* job, Effects* out) {
  const v1::Round& last = host.status.last();
  if (!IsSet(last.id())) return;
  GreatestRound& greatest = job->greatest;
  job->gathering.first_round = false;
  greatest.kept.max_number = std::max(greatest.kept.max_number, last.id().number());
  if (Compare(last.id(), greatest.id()) > 0) LearnGreaterRound(now, last, job, out);
  // Members hear of a round when it starts, a spare perhaps an hour later: the earliest time is the right one.
  if (!greatest.is_controlled && Same(last.id(), greatest.id())) {
    greatest.since = std::min(greatest.since, now - absl::Milliseconds(last.age_ms()));
  }
  LearnMembership(now, last, host, job);
  host.was_ready |= job->IsReady(host);
}

// This coordinator never passes a predecessor's farewell on, so a node that reports one has it from that
// predecessor.
void LearnFarewell(Host& host, Job* job) {
  const v1::Round& last = host.status.last();
  if (job->greatest.is_controlled || !last.has_primary_ended() || !Same(last.id(), job->greatest.id())) return;
  const absl::Duration age = absl::Milliseconds(last.primary_ended().age_ms());
  job->succession.LearnFarewell(last.primary_ended(), host.last_status_at - age);
  host.told_by_predecessor |= age <= job->options.lease;
}

// Dates the loss at its first sign, so that failures of peers count as echoes however long the node takes to end
// or to return.
void LearnLoss(BootTime now, BootTime heard_before, Host& host, const Job& job) {
  if (!host.part.in_round) return;
  // A node that turns out unfit after its workers have ended did not cost this round anything.
  if (host.IsLeaving() || (host.IsUnusable() && !host.IsIdle())) host.NoteLossSign(now);
  if (job.Claims(host) && host.status.outcome() == v1::OUTCOME_LEASE_ENDED) {
    host.NoteLossSign(heard_before == absl::InfinitePast() ? job.succession.WhenLost(now) : heard_before);
  }
}

void LearnFailure(BootTime now, Host& host, Job* job) {
  if (host.status.has_cannot_start()) host.status.mutable_cannot_start()->set_host(host.status.hostname());
  if (!host.status.has_failure()) return;
  Place(host, host.status.mutable_failure());
  host.NoteFailure(now);
  job->greatest.gone.CorrectFailure(host.status.host_id(), host.status.failure(), host.failed_at);
}

// They are long, and kept apart from the status, which is looked at often.
void LearnStacks(BootTime now, Host& host, Job* job) {
  if (!host.status.has_stacks()) return;
  job->stacks.Learn(host.status.host_id(), host.status.stacks());
  job->ranks.Learn(now, host.status.host_id(), host.status.stacks());
  host.status.clear_stacks();
}

// Only from a host that does not follow this coordinator yet: later there is nothing to learn.
void LearnEvents(BootTime now, Host& host, Job* job) {
  if (!job->Follows(host)) {
    job->events.Adopt(now, host.status.events());
    job->history.Adopt(now, host.status.events());
  }
  host.status.clear_events();
}

// The successor, on the same machine, found no process of the dead host alive: only there the hash of that process
// can be known. The loss is dated at the dead host's last status, so that failures of its peers count as echoes.
void LearnProvedDeath(BootTime now, const v1::AgentStatus& successor, Job* job, NodeLines* lines, Effects* out) {
  const Host* const dead = successor.has_place() ? job->hosts.HolderOf(successor.place()) : nullptr;
  if (dead == nullptr || dead->IsAttached()) return;
  if (dead->status.whereabouts().process() != successor.predecessor_dead()) return;
  const std::string id = dead->status.host_id();
  if (job->CostsTheRound(*dead)) {
    const absl::Duration after = absl::Trunc(now - dead->last_status_at, absl::Milliseconds(100));
    NoteNodeLost(dead->last_status_at, *dead,
                 absl::StrCat(dead->Name(), " was lost: its main process and agent died; restarted ",
                              absl::FormatDuration(after), " after its last heartbeat"),
                 true, job, out);
  } else if (lines->Take(now, out)) {
    Say(Severity::kInfo, absl::StrCat(dead->status.hostname(), ": its previous main process is confirmed dead"),
        out);
  }
  ForgetEnded(id, job, out);
  job->hosts.GivePlaceTo(successor);
}

// A brief verdict is binding even if this coordinator does not hold its details. These may still come from another
// host.
void LearnVerdict(BootTime now, const Host& host, Job* job, Effects* out) {
  const v1::Verdict& verdict = host.status.verdict();
  std::optional<v1::Verdict>& known = job->verdict;
  if (known) {
    if (Completes(verdict, *known)) known = verdict;
    return;
  }
  MUSTER_CHECK(MayBeLearned(State::kVerdict, now, *job), "this state learns no verdict");
  Conclude(now, verdict, job, out);
}

// Its epoch may be smaller than this coordinator's by chance: then no new one begins.
void LearnTakeover(const Host& host, Job* job, Effects* out) {
  const v1::Epoch& followed = host.status.epoch();
  if (job->has_taken_over || !IsSet(followed) || Same(followed, job->epoch())) return;
  job->has_taken_over = true;
  Say(Severity::kInfo, "another coordinator has served this job; learning its state from the nodes", out,
      {.event = events::kTakeover});
}

// Without a verdict this is the end that people hear of.
void LearnPrimaryLeaves(const Host& host, Job* job, Effects* out) {
  if (job->primary_leaves || !host.status.at_primary() || !(host.IsLeaving() || host.IsGone())) return;
  job->primary_leaves = true;
  if (host.status.cancelled()) return;  // the verdict follows
  const std::string why = host.IsGone() ? "its host has ended" : host.WhyItLeft();
  Say(Severity::kDebug, absl::StrCat("the node that decides leaves the job: ", why), out,
      {.event = events::kLeaving, .round = NumberOfRound(*job), .host = host.status.hostname()});
}

}  // namespace

Host& Learn(BootTime now, StreamId stream, const v1::AgentStatus& status, Job* job, NodeLines* lines,
            Effects* out) {
  if (const std::optional<StreamId> before = job->hosts.Attach(now, stream, status)) {
    if (*before != 0) out->push_back(CloseStream{*before, "superseded by a newer stream of this host"});
    out->push_back(AdmitStream{stream});
  }
  Host& host = job->hosts.Get(status.host_id());
  const bool was_unusable = host.IsUnusable();
  host.Store(status);
  LearnUse(now, was_unusable, host, lines, out);
  if (status.facts_size() > 0 || host.facts.empty()) host.TakeFacts();
  const BootTime heard_before = host.last_status_at;
  LearnTimes(now, status, host, job);
  job->hosts.Claim(host);
  LearnPrimaryLeaves(host, job, out);
  LearnRounds(now, host, job, out);
  if (status.cancelled() && !job->asked_to_stop)
    job->asked_to_stop =
        AskedToStop{.exit_code = kExitCancelled, .why = absl::StrCat("cancelled on ", NodeName(*job, host))};
  LearnFarewell(host, job);
  LearnLoss(now, heard_before, host, *job);
  LearnFailure(now, host, job);
  LearnStacks(now, host, job);
  if (status.has_signalled()) job->signalling.Learn(status.host_id(), status.signalled());
  LearnEvents(now, host, job);
  LearnTakeover(host, job, out);
  if (job->Follows(host)) host.exchange.NoteApplied(host.status.applied().seq());
  if (!status.predecessor_dead().empty()) LearnProvedDeath(now, status, job, lines, out);
  if (status.has_verdict()) LearnVerdict(now, host, job, out);
  host.ForgetDetailsOfVerdict();
  return host;
}

void BeginEpoch(BootTime now, uint64_t above, Random* random, Job* job, Effects* out) {
  job->succession.BeginEpoch(now, above, random->Next());
  Say(Severity::kInfo,
      absl::StrCat("another coordinator has served this job; learning its state from the nodes, as epoch ",
                   ToString(job->epoch())),
      out, {.event = std::exchange(job->has_taken_over, true) ? "" : events::kTakeover});
  job->greatest.BeginEpoch();
  for (auto& [id, host] : job->hosts) host.exchange.BeginEpoch();
  if (!job->verdict && job->state != State::kRecovering) TurnBack(now, "a newer epoch", job, out);
}

}  // namespace muster::rendezvous
