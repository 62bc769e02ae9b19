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
       "no round is named and all places, or MAX nodes, are ready", "WAIT"},
      {S::kRecovering, S::kGathering, "time passed", "no round is named; lease and margin since the start",
       "WAIT"},
      {S::kRecovering, S::kRunning, "an agent attached", "all members claim the greatest round and run it",
       "RUN of the same round"},
      {S::kRecovering, S::kDraining, "an agent attached",
       "a member failed, stopped, leaves or let its lease end; a node runs another round, or missed this one",
       "STOP"},
      {S::kRecovering, S::kDraining, "time passed",
       "lease and margin since the last member attached; --rejoin-timeout if all that are back succeeded", "STOP"},
      {S::kRecovering, S::kVerdict, "an agent attached", "every member of the greatest round succeeded",
       "VERDICT 0"},
      {S::kRecovering, S::kVerdict, "an agent attached", "it holds a verdict, or was cancelled", "VERDICT"},
      {S::kRecovering, S::kVerdict, "time passed", "nobody came within the join timeout (a coordinator alone)",
       "VERDICT 69"},
      {S::kGathering, S::kRunning, "readiness or time",
       "enough nodes are ready (fixed: all; MIN:MAX: see last call)", "RUN, the lease"},
      {S::kGathering, S::kVerdict, "a status", "every member of the round before succeeded after all",
       "VERDICT 0"},
      {S::kGathering, S::kVerdict, "time passed", "join or rejoin timeout", "VERDICT 69 naming the absent"},
      {S::kGathering, S::kVerdict, "an agent attached",
       "it holds a verdict, was cancelled, or, before the first round, cannot start its program", "VERDICT"},
      {S::kRunning, S::kDraining, "a status or time",
       "a member failed, is lost or leaves; a new node fits; the job was cancelled", "STOP"},
      {S::kRunning, S::kVerdict, "a status", "every member succeeded", "VERDICT 0"},
      {S::kDraining, S::kGathering, "a status or time",
       "every member is READY after this STOP, gone with proof, or past its lease; budgets suffice; after a "
       "coordinator started anew, lease and margin since",
       "WAIT"},
      {S::kDraining, S::kVerdict, "a status", "every member succeeded after all", "VERDICT 0"},
      {S::kDraining, S::kVerdict, "a status or time", "the same; a budget is spent, or the job was cancelled",
       "VERDICT"},
      {S::kVerdict, S::kReleasing, "a status or time", "everybody left has acknowledged and runs nothing",
       "RELEASE, the primary last"},
      {S::kGathering, S::kRecovering, "a status",
       "it follows a greater epoch, or names a greater round of a coordinator before", "WAIT"},
      {S::kRunning, S::kRecovering, "a status", "it follows a greater epoch", "WAIT of a greater epoch"},
      {S::kDraining, S::kRecovering, "a status",
       "it follows a greater epoch, or names a greater round of a coordinator before", "WAIT"},
      {S::kDraining, S::kVerdict, "a status", "it holds a verdict", "VERDICT"},
      {S::kRunning, S::kVerdict, "a status", "it holds a verdict", "VERDICT"},
  };
  return table;
}

bool IsListed(State from, State to) {
  const auto& table = Transitions();
  return std::any_of(table.begin(), table.end(),
                     [&](const Transition& t) { return t.from == from && t.to == to; });
}

}  // namespace muster::rendezvous
