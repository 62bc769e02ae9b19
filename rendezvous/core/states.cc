#include "rendezvous/core/states.h"

#include <algorithm>

#include "base/exit_codes.h"
#include "rendezvous/core/drain.h"
#include "rendezvous/core/gathering.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/core/round_end.h"

namespace muster::rendezvous {
namespace {

template <typename Predicate>
bool AnyHost(const Job& job, Predicate holds) {
  return std::any_of(job.hosts.begin(), job.hosts.end(), [&](const auto& entry) { return holds(entry.second); });
}

// ---- leaving RECOVERING -------------------------------------------------------------------------------------

bool AllAreHere(BootTime now, const Job& job) {
  const int here = static_cast<int>(ReadyCandidates(job).size()) + job.CountCannotStart();
  return !job.greatest.IsKnown() && here >= job.options.max_nodes && !SparesMayHideARound(now, job) &&
         !PredecessorsRoundMayRun(now, job);
}

bool EarlierLeasesHaveEnded(BootTime now, const Job& job) {
  return !job.greatest.IsKnown() && now >= job.succession.members_known_until();
}

bool AllMembersRun(BootTime, const Job& job) {
  const Members members = LookAtMembers(job);
  return job.greatest.IsKnown() && members.all_run && members.broken.empty();
}

bool AMemberCannotGoOn(BootTime, const Job& job) { return !LookAtMembers(job).broken.empty(); }

bool AbsentMembersAreOverdue(BootTime now, const Job& job) {
  return now >= AbsentAreAwaitedUntil(job, LookAtMembers(job));
}

bool NobodyJoined(BootTime now, const Job& job) {
  return job.hosts.empty() && now >= job.succession.epoch_start() + job.options.join_limit();
}

// ---- rounds -------------------------------------------------------------------------------------------------

// No workers of another round may live, whatever else is decided.
bool ARoundMayBegin(BootTime now, const Job& job) {
  const int nodes = job.greatest.node_count();
  return job.greatest.owned && nodes >= job.options.min_nodes && nodes <= job.options.max_nodes &&
         now >= job.gathering.not_before && !job.MakesNoMoreRounds() && !WhoArrives(now, job).something_runs;
}

bool TheRoundMustStop(BootTime now, const Job& job) {
  return WhyStop(now, job) || (job.greatest.succeeded.empty() && WhyGrow(now, job));
}

bool TheRoundIsDrained(BootTime now, const Job& job) { return !job.farewell && RoundIsDrained(now, job); }

// A budget is used up, by job.counts, which hold the drained round already, or the job was cancelled.
bool NoRoundMayFollow(BootTime now, const Job& job) {
  return !job.cancelled_on.empty() || VerdictAfter(job, AccountOf(now, job));
}

bool AnotherRoundMayFollow(BootTime now, const Job& job) {
  return TheRoundIsDrained(now, job) && !NoRoundMayFollow(now, job);
}

// Another coordinator's round, or this one's own in an earlier epoch.
bool TheRoundIsNotOfThisEpoch(BootTime, const Job& job) { return !job.greatest.owned; }

// ---- the verdict --------------------------------------------------------------------------------------------

bool Concludes(const Job& job, int exit_code) { return job.verdict && job.verdict->exit_code() == exit_code; }

bool AllSucceeded(BootTime, const Job& job) { return Concludes(job, 0) && job.EveryNodeSucceeded(); }

bool SomeoneKnowsTheVerdict(BootTime, const Job& job) {
  return job.verdict && AnyHost(job, [](const Host& host) { return host.status.has_verdict(); });
}

bool IsCancelled(const Job& job) { return Concludes(job, kExitCancelled) && !job.cancelled_on.empty(); }

bool IsKnownOrCancelled(BootTime now, const Job& job) {
  return SomeoneKnowsTheVerdict(now, job) || IsCancelled(job);
}

bool IsKnownOrCancelledOrCannotStart(BootTime now, const Job& job) {
  return IsKnownOrCancelled(now, job) ||
         (job.verdict && AnyHost(job, [&](const Host& host) { return job.CannotStart(host); }));
}

bool TooFewCameInTime(BootTime now, const Job& job) {
  return Concludes(job, kExitUnavailable) && GatheringIsOverdue(now, job);
}

bool TheDrainedRoundWasTheLast(BootTime now, const Job& job) {
  return job.verdict && job.verdict->exit_code() != 0 && TheRoundIsDrained(now, job) && NoRoundMayFollow(now, job);
}

bool AllHaveAcknowledged(BootTime now, const Job& job) { return job.verdict && AwaitsNoAcknowledgement(now, job); }

}  // namespace

std::string_view Name(State state) {
  switch (state) {
    case State::kRecovering:
      return "RECOVERING";
    case State::kGathering:
      return "GATHERING";
    case State::kRunning:
      return "RUNNING";
    case State::kDraining:
      return "DRAINING";
    case State::kVerdict:
      return "VERDICT";
    case State::kReleasing:
      return "RELEASING";
  }
  return "?";
}

const std::vector<Transition>& Transitions() {
  using S = State;
  static const std::vector<Transition> table = {
      {S::kRecovering, S::kGathering, "a status", "no node reports a round; all places, or MAX nodes, are ready",
       "WAIT", AllAreHere},
      {S::kRecovering, S::kGathering, "time passed",
       "no node reports a round; lease and margin have passed since the start", "WAIT", EarlierLeasesHaveEnded},
      {S::kRecovering, S::kRunning, "a status", "all members report the greatest round and run it",
       "RUN of the same round", AllMembersRun},
      {S::kRecovering, S::kDraining, "a status",
       "a member failed, stopped, is leaving or let its lease expire; a node runs another round or missed it",
       "STOP", AMemberCannotGoOn},
      {S::kRecovering, S::kDraining, "time passed",
       "lease and margin since the last member attached, or --rejoin-timeout if all attached "
       "ones succeeded",
       "STOP", AbsentMembersAreOverdue},
      {S::kRecovering, S::kVerdict, "a status", "every member of the greatest round succeeded", "VERDICT 0",
       AllSucceeded},
      {S::kRecovering, S::kVerdict, "a status", "it reports a verdict, or a cancellation", "VERDICT",
       IsKnownOrCancelled},
      {S::kRecovering, S::kVerdict, "time passed", "no node joined within --join-timeout (separate coordinator)",
       "VERDICT 69", NobodyJoined},
      {S::kGathering, S::kRunning, "readiness or time",
       "enough nodes are ready (fixed: all; MIN:MAX: see last call)", "RUN with a lease", ARoundMayBegin},
      {S::kGathering, S::kVerdict, "a status", "every member of the last round reports success", "VERDICT 0",
       AllSucceeded},
      {S::kGathering, S::kVerdict, "time passed", "--join-timeout or --rejoin-timeout",
       "VERDICT 69, naming the missing nodes", TooFewCameInTime},
      {S::kGathering, S::kVerdict, "an agent attached",
       "it reports a verdict, a cancellation, or, before the first round, that it cannot start its program",
       "VERDICT", IsKnownOrCancelledOrCannotStart},
      {S::kRunning, S::kDraining, "a status or time",
       "a member failed, was lost, is leaving or cannot end a rank that hangs; a new node can join; the job was "
       "cancelled",
       "STOP", TheRoundMustStop},
      {S::kRunning, S::kVerdict, "a status", "every member succeeded", "VERDICT 0", AllSucceeded},
      {S::kDraining, S::kGathering, "a status or time",
       "every member is READY after this STOP, confirmed dead, or past its lease; the budgets suffice; lease and "
       "margin have passed since a restart of the coordinator",
       "WAIT", AnotherRoundMayFollow},
      {S::kDraining, S::kVerdict, "a status", "every member reports success", "VERDICT 0", AllSucceeded},
      {S::kDraining, S::kVerdict, "a status or time",
       "the drain is complete; a budget is used up, or the job was cancelled", "VERDICT",
       TheDrainedRoundWasTheLast},
      {S::kVerdict, S::kReleasing, "a status or time",
       "every known node has acknowledged the verdict and runs nothing, or had --shutdown-timeout and 2 "
       "minutes",
       "RELEASE, the primary last", AllHaveAcknowledged},
      {S::kGathering, S::kRecovering, "a status",
       "it follows a greater epoch, or reports a greater round of an earlier coordinator", "WAIT",
       TheRoundIsNotOfThisEpoch},
      {S::kRunning, S::kRecovering, "a status", "it follows a greater epoch", "WAIT of a greater epoch",
       TheRoundIsNotOfThisEpoch},
      {S::kDraining, S::kRecovering, "a status",
       "it follows a greater epoch, or reports a greater round of an earlier coordinator", "WAIT",
       TheRoundIsNotOfThisEpoch},
      {S::kDraining, S::kVerdict, "a status", "it reports a verdict", "VERDICT", SomeoneKnowsTheVerdict},
      {S::kRunning, S::kVerdict, "a status", "it reports a verdict", "VERDICT", SomeoneKnowsTheVerdict},
  };
  return table;
}

bool MayEnter(State to, BootTime now, const Job& job) {
  const auto& table = Transitions();
  return std::any_of(table.begin(), table.end(),
                     [&](const Transition& t) { return t.from == job.state && t.to == to && t.holds(now, job); });
}

}  // namespace muster::rendezvous
