#include "rendezvous/core/states.h"

#include <algorithm>

namespace muster::rendezvous {

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
      {S::kRecovering, S::kGathering, "an agent attached",
       "no node reports a round; all places, or MAX nodes, are ready", "WAIT"},
      {S::kRecovering, S::kGathering, "time passed",
       "no node reports a round; lease and margin have passed since the start", "WAIT"},
      {S::kRecovering, S::kRunning, "an agent attached", "all members report the greatest round and run it",
       "RUN of the same round"},
      {S::kRecovering, S::kDraining, "an agent attached",
       "a member failed, stopped, is leaving or let its lease expire; a node runs another round or missed it",
       "STOP"},
      {S::kRecovering, S::kDraining, "time passed",
       "lease and margin since the last member attached, or --rejoin-timeout if all attached ones succeeded",
       "STOP"},
      {S::kRecovering, S::kVerdict, "an agent attached", "every member of the greatest round succeeded",
       "VERDICT 0"},
      {S::kRecovering, S::kVerdict, "an agent attached", "it reports a verdict, or a cancellation", "VERDICT"},
      {S::kRecovering, S::kVerdict, "time passed", "no node joined within --join-timeout (standalone coordinator)",
       "VERDICT 69"},
      {S::kGathering, S::kRunning, "readiness or time",
       "enough nodes are ready (fixed: all; MIN:MAX: see last call)", "RUN with a lease"},
      {S::kGathering, S::kVerdict, "a status", "every member of the last round reports success", "VERDICT 0"},
      {S::kGathering, S::kVerdict, "time passed", "--join-timeout or --rejoin-timeout",
       "VERDICT 69, naming the missing nodes"},
      {S::kGathering, S::kVerdict, "an agent attached",
       "it reports a verdict, a cancellation, or, before the first round, that it cannot start its program",
       "VERDICT"},
      {S::kRunning, S::kDraining, "a status or time",
       "a member failed, was lost or is leaving; a new node can join; the job was cancelled", "STOP"},
      {S::kRunning, S::kVerdict, "a status", "every member succeeded", "VERDICT 0"},
      {S::kDraining, S::kGathering, "a status or time",
       "every member is READY after this STOP, confirmed dead, or past its lease; the budgets suffice; lease and "
       "margin have passed since a restart of the coordinator",
       "WAIT"},
      {S::kDraining, S::kVerdict, "a status", "every member reports success", "VERDICT 0"},
      {S::kDraining, S::kVerdict, "a status or time",
       "the drain is complete; a budget is used up, or the job was cancelled", "VERDICT"},
      {S::kVerdict, S::kReleasing, "a status or time",
       "every known node has acknowledged the verdict and runs nothing", "RELEASE, the primary last"},
      {S::kGathering, S::kRecovering, "a status",
       "it follows a greater epoch, or reports a greater round of an earlier coordinator", "WAIT"},
      {S::kRunning, S::kRecovering, "a status", "it follows a greater epoch", "WAIT of a greater epoch"},
      {S::kDraining, S::kRecovering, "a status",
       "it follows a greater epoch, or reports a greater round of an earlier coordinator", "WAIT"},
      {S::kDraining, S::kVerdict, "a status", "it reports a verdict", "VERDICT"},
      {S::kRunning, S::kVerdict, "a status", "it reports a verdict", "VERDICT"},
  };
  return table;
}

bool IsListed(State from, State to) {
  const auto& table = Transitions();
  return std::any_of(table.begin(), table.end(),
                     [&](const Transition& t) { return t.from == from && t.to == to; });
}

}  // namespace muster::rendezvous
