#include "rendezvous/core/states.h"

#include <algorithm>

#include "rendezvous/core/drain.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/next_round.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/core/round_end.h"

namespace muster::rendezvous {
namespace {

template <typename Predicate>
bool AnyHost(const Job& job, Predicate holds) {
  return std::any_of(job.hosts.begin(), job.hosts.end(), [&](const auto& entry) { return holds(entry.second); });
}

// ---- verdicts without a further round -----------------------------------------------------------------------

// In every state, a round has succeeded once all its nodes report success, even while it is drained or afterwards.
// This no longer holds when a later round has started, even one of fewer nodes: its workers have begun to
// overwrite what the others had finished.
bool AllSucceeded(const Glance& glance) { return glance.job.EveryNodeSucceeded(); }

// A coordinator that starts anew in an agent first hears its own host, which may know how the job has ended.
bool IsAskedToStop(const Glance& glance) {
  const Job& job = glance.job;
  const bool awaits_own_host = job.options.in_agent && job.OwnHost() == nullptr;
  return !job.farewell && job.asked_to_stop && !awaits_own_host;
}

// A verdict before the first round waits for nodes that are still starting: they hear why the job ends, and one of
// them may know of a round that this coordinator does not. While recovering, too, a round may run that no node has
// reported yet.
bool OneCannotStart(const Glance& glance) {
  const Job& job = glance.job;
  const auto is_here = [](const auto& entry) { return entry.second.IsTrainer() && entry.second.IsAttached(); };
  const auto here = std::count_if(job.hosts.begin(), job.hosts.end(), is_here);
  const bool enough = here >= job.options.max_nodes || glance.now >= job.state_since + kLatecomers;
  return !job.farewell && enough && AnyHost(job, [&](const Host& host) { return job.CannotStart(host); });
}

// ---- leaving RECOVERING -------------------------------------------------------------------------------------

bool AMemberCannotGoOn(const Glance& glance) {
  return glance.job.greatest.IsKnown() && !glance.members().broken.empty();
}

bool AllMembersRun(const Glance& glance) { return glance.job.greatest.IsKnown() && glance.members().all_run; }

bool AbsentMembersAreOverdue(const Glance& glance) {
  return glance.job.greatest.IsKnown() && glance.now >= AbsentAreAwaitedUntil(glance.job, glance.members());
}

// Only with `muster coordinator`: inside an agent its own host is always attached.
bool NobodyJoined(const Glance& glance) {
  const Job& job = glance.job;
  return !job.greatest.IsKnown() && job.hosts.empty() &&
         glance.now >= job.succession.epoch_start() + job.options.join_limit();
}

bool NoRoundCanBeHidden(const Glance& glance) {
  const Job& job = glance.job;
  return !job.greatest.IsKnown() && !job.hosts.empty() && glance.all_are_here() &&
         !SparesMayHideARound(glance.now, job) && !PredecessorsRoundMayRun(glance.now, job);
}

bool EarlierLeasesHaveEnded(const Glance& glance) {
  const Job& job = glance.job;
  return !job.greatest.IsKnown() && !job.hosts.empty() && glance.now >= PredecessorsLeasesEnd(job);
}

// ---- rounds -------------------------------------------------------------------------------------------------

// No workers of another round may live, whatever else is decided: the drain waited for them already, and none of
// them is granted a lease while gathering.
bool GatheringMayEnd(const Glance& glance) {
  const Job& job = glance.job;
  return !glance.arriving().something_runs && !job.MakesNoMoreRounds() && glance.now >= job.gathering.not_before;
}

bool ARoundMayBegin(const Glance& glance) {
  return GatheringMayEnd(glance) && StartsNow(glance.now, glance.job, glance.ready(), glance.arriving());
}

bool TooFewCameInTime(const Glance& glance) {
  return GatheringMayEnd(glance) && GatheringIsOverdue(glance.now, glance.job) &&
         !PreparingMaySuffice(glance.job, glance.ready(), glance.arriving());
}

bool TheRoundMustStop(const Glance& glance) {
  return glance.why_stop() || (glance.job.greatest.successes.ranks.empty() && WhyGrow(glance.now, glance.job));
}

// The next coordinator counts the cost if this one has said farewell.
bool TheRoundIsDrained(const Glance& glance) { return !glance.job.farewell && glance.is_drained(); }

// A budget is used up, by job.counts, which hold the drained round already, or somebody wants the end.
bool TheDrainedRoundWasTheLast(const Glance& glance) {
  return TheRoundIsDrained(glance) && (glance.job.asked_to_stop || VerdictAfter(glance.job, glance.account()));
}

// After a verdict that an agent reported, the other members of its round are about to reconnect, and must receive
// it, too.
bool AllHaveAcknowledged(const Glance& glance) {
  const Job& job = glance.job;
  const bool members_come =
      !job.greatest.is_controlled && job.MembersMissing() > 0 && glance.now < job.succession.members_known_until();
  return !members_come && AwaitsNoAcknowledgement(glance.now, job);
}

// ---- learned from a status ----------------------------------------------------------------------------------

bool SomeoneKnowsTheVerdict(const Glance& glance) {
  return AnyHost(glance.job, [](const Host& host) { return host.status.has_verdict(); });
}

// Another coordinator's round, or this one's own in an earlier epoch.
bool TheRoundIsNotOfThisEpoch(const Glance& glance) { return !glance.job.greatest.is_controlled; }

}  // namespace

const std::vector<Transition>& Transitions() {
  using S = State;
  static const std::vector<Transition> table = {
      {S::kRecovering, S::kVerdict, "a status", "every member of the greatest round succeeded", "VERDICT 0",
       AllSucceeded, EndWithSuccess},
      {S::kRecovering, S::kVerdict, "a status", "the job was cancelled, or ordered to stop", "VERDICT",
       IsAskedToStop, EndAsAsked},
      {S::kRecovering, S::kDraining, "a status",
       "a member failed, stopped, is leaving or let its lease expire; a node runs another round or missed it",
       "STOP", AMemberCannotGoOn, StopRecoveredRound},
      {S::kRecovering, S::kRunning, "a status", "all members report the greatest round and run it",
       "RUN of the same round", AllMembersRun, ContinueRound},
      {S::kRecovering, S::kDraining, "time passed",
       "lease and margin since the last member attached, or --rejoin-timeout if all attached ones succeeded",
       "STOP", AbsentMembersAreOverdue, StopForAbsentMembers},
      {S::kRecovering, S::kVerdict, "time passed", "no node joined within --join-timeout (separate coordinator)",
       "VERDICT 69", NobodyJoined, EndBecauseNobodyJoined},
      {S::kRecovering, S::kGathering, "a status", "no node reports a round; all places, or MAX nodes, are ready",
       "WAIT", NoRoundCanBeHidden, BeginGathering},
      {S::kRecovering, S::kGathering, "time passed",
       "no node reports a round; lease and margin have passed since the start, or the time in which an earlier "
       "coordinator notices that it is cut off",
       "WAIT", EarlierLeasesHaveEnded, BeginGathering},
      {S::kRecovering, S::kVerdict, "a status", "it reports a verdict", "VERDICT", SomeoneKnowsTheVerdict,
       nullptr},

      {S::kGathering, S::kVerdict, "a status", "every member of the last round reports success", "VERDICT 0",
       AllSucceeded, EndWithSuccess},
      {S::kGathering, S::kVerdict, "a status or time", "before the first round, a node cannot start its program",
       "VERDICT", OneCannotStart, EndBecauseOneCannotStart},
      {S::kGathering, S::kVerdict, "a status", "the job was cancelled, or ordered to stop", "VERDICT",
       IsAskedToStop, EndAsAsked},
      {S::kGathering, S::kRunning, "readiness or time",
       "enough nodes are ready (fixed: all; MIN:MAX: see last call)", "RUN with a lease", ARoundMayBegin,
       MakeRound},
      {S::kGathering, S::kVerdict, "time passed", "--join-timeout or --rejoin-timeout",
       "VERDICT 69, naming the missing nodes", TooFewCameInTime, EndBecauseTooFewCame},
      {S::kGathering, S::kVerdict, "a status", "it reports a verdict", "VERDICT", SomeoneKnowsTheVerdict, nullptr},
      {S::kGathering, S::kRecovering, "a status",
       "it follows a greater epoch, or reports a greater round of an earlier coordinator", "WAIT",
       TheRoundIsNotOfThisEpoch, nullptr},

      {S::kRunning, S::kVerdict, "a status", "every member succeeded", "VERDICT 0", AllSucceeded, EndWithSuccess},
      {S::kRunning, S::kDraining, "a status or time",
       "a member failed, was lost, is leaving or cannot end a rank that hangs; a new node can join; somebody "
       "wants a restart or the end",
       "STOP", TheRoundMustStop, StopRound},
      {S::kRunning, S::kVerdict, "a status", "it reports a verdict", "VERDICT", SomeoneKnowsTheVerdict, nullptr},
      {S::kRunning, S::kRecovering, "a status", "it follows a greater epoch", "WAIT of a greater epoch",
       TheRoundIsNotOfThisEpoch, nullptr},

      {S::kDraining, S::kVerdict, "a status", "every member reports success", "VERDICT 0", AllSucceeded,
       EndWithSuccess},
      {S::kDraining, S::kVerdict, "a status or time",
       "the drain is complete; a budget is used up, or somebody wants the end", "VERDICT",
       TheDrainedRoundWasTheLast, EndAfterTheLastRound},
      {S::kDraining, S::kGathering, "a status or time",
       "every member is READY after this STOP, confirmed dead, or past its lease; the budgets suffice; lease and "
       "margin have passed since a restart of the coordinator",
       "WAIT", TheRoundIsDrained, GatherAgain},
      {S::kDraining, S::kVerdict, "a status", "it reports a verdict", "VERDICT", SomeoneKnowsTheVerdict, nullptr},
      {S::kDraining, S::kRecovering, "a status",
       "it follows a greater epoch, or reports a greater round of an earlier coordinator", "WAIT",
       TheRoundIsNotOfThisEpoch, nullptr},

      {S::kVerdict, S::kReleasing, "a status or time",
       "every known node has acknowledged the verdict and runs nothing, or had --shutdown-timeout and 2 "
       "minutes",
       "RELEASE, the primary last", AllHaveAcknowledged, Release},
  };
  return table;
}

const Transition* NextTransition(const Glance& glance) {
  const auto& table = Transitions();
  const auto taken = std::find_if(table.begin(), table.end(), [&](const Transition& row) {
    return row.from == glance.job.state && row.act != nullptr && row.holds(glance);
  });
  return taken == table.end() ? nullptr : &*taken;
}

bool MayBeLearned(State to, BootTime now, const Job& job) {
  const auto& table = Transitions();
  const Glance glance(now, job);
  return std::any_of(table.begin(), table.end(), [&](const Transition& row) {
    return row.from == job.state && row.to == to && row.act == nullptr && row.holds(glance);
  });
}

}  // namespace muster::rendezvous
