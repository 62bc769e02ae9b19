// All that a coordinator knows of its job, and the queries that its decisions share. Everything that is decided or
// explained is computed from it: functions that take a const Job change nothing.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/budgets.h"
#include "rendezvous/core/crash_loops.h"
#include "rendezvous/core/event_book.h"
#include "rendezvous/core/farewell.h"
#include "rendezvous/core/gathering.h"
#include "rendezvous/core/greatest_round.h"
#include "rendezvous/core/hang.h"
#include "rendezvous/core/hosts.h"
#include "rendezvous/core/options.h"
#include "rendezvous/core/order_book.h"
#include "rendezvous/core/own_pauses.h"
#include "rendezvous/core/rank_questions.h"
#include "rendezvous/core/refusals.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/round_history.h"
#include "rendezvous/core/signalling.h"
#include "rendezvous/core/stack_question.h"
#include "rendezvous/core/state.h"
#include "rendezvous/core/step_history.h"
#include "rendezvous/core/succession.h"
#include "rendezvous/core/time_ledger.h"

namespace muster::rendezvous {

// Somebody wants the job to end, whatever becomes of its workers: the first who did.
struct AskedToStop {
  int exit_code = 0;
  std::string why;         // who, and why: "cancelled on node 2 (worker-2)"; that node need not stay to the end
  bool is_logged = false;  // the log has `why` already
};

struct Job {
  Job(CoordinatorOptions options, BootTime now, uint64_t random);

  const CoordinatorOptions options;
  const BootTime began;  // when this coordinator started
  State state = State::kRecovering;
  BootTime state_since;
  std::string why;  // the reason for nodes that wait

  Hosts hosts;
  Succession succession;
  GreatestRound greatest;
  Gathering gathering;
  RestartLedger counts;  // of the next round, computed at the end of the drain
  CrashLoops crash_loops;
  Hang hang;
  Refusals refusals;
  OwnPauses pauses;
  RoundHistory history;
  StepHistory steps;
  TimeLedger time;
  StackQuestion stacks;
  RankQuestions ranks;
  EventBook events;
  OrderBook orders;
  Signalling signalling;

  std::optional<v1::Verdict> verdict;
  BootTime concluded_at = absl::InfiniteFuture();  // when this coordinator reached or learned the verdict
  // The primary's own host has stored the verdict, or there is no such host. Only then do others get it.
  // Otherwise, if this coordinator dies and its successor is cut off from all nodes that know the verdict, the
  // successor could conclude another one.
  bool verdict_kept = false;
  std::optional<AskedToStop> asked_to_stop;
  bool some_strayed = false;    // in some round a trainer was lost without proof that it ended
  bool has_taken_over = false;  // an earlier coordinator has served this job
  bool primary_leaves = false;  // this coordinator's own node is ending: no more rounds are made
  // When the separate process of this coordinator was asked to end: no more rounds are made, either.
  std::optional<BootTime> asked_to_end_at;
  std::optional<Farewell> farewell;

  const v1::Epoch& epoch() const { return succession.epoch(); }
  // Whether it made the greatest round itself, in this epoch: what it has not seen of that round did not happen.
  bool MadeItsRound() const;
  const Host* OwnHost() const;  // of this coordinator's own process; nullptr: none has attached
  bool IsOver() const { return state == State::kVerdict || state == State::kReleasing; }

  const Host* HostOf(int rank) const;  // of the greatest round; nullptr: it is not known, or not here

  // About one host. "Current": its newest status was sent after it had applied what this coordinator ordered.
  bool Follows(const Host& host) const { return host.Follows(epoch()); }
  bool IsCurrent(const Host& host) const { return host.IsCurrent(epoch()); }
  bool IsReady(const Host& host) const;       // can be a member of the next round
  bool Claims(const Host& host) const;        // reports membership in the greatest round
  bool WasMember(const Host& host) const;     // was given a part of it, whether or not the RUN reached it
  bool HasSucceeded(const Host& host) const;  // its newest status reports success in it
  bool LeavesAfterSuccess(const Host& host) const;
  bool CostsTheRound(const Host& host) const;  // losing it now would end the round
  bool CannotStart(const Host& host) const;    // reports, before the first round, that it cannot start its program
  bool IsExcluded(const std::string& host_id, BootTime now) const;
  bool IsHeldBack(const Host& host, BootTime now) const;  // after several losses in a row: crash_loops.h

  // About the greatest round.
  bool EveryNodeSucceeded() const;
  bool OnlyAbsentNodesRun() const;     // all attached members have succeeded
  bool SomeProgressed() const;         // some member, attached or lost
  bool ProgressIsWatched() const;      // some member, attached or lost, watches a progress file
  std::set<int> AccountedFor() const;  // node ranks whose hosts are known, or departed after success
  int MembersMissing() const;
  int MembersUnseen() const;  // missing, and not known to have ended: they may run
  std::vector<FailureRef> Failures() const;

  // About the predecessor's farewell: the rank of its node, unless that is accounted for.
  std::optional<int> RankOfEndedPrimary() const;
  // The farewell is valid, its whole audience is back, and no other node that ever had a part in a round is here:
  // that one was not told, so the word is not true, or it was given before that node came. The former primary's
  // lease need not be waited for.
  bool PrimaryIsKnownEnded() const;

  // About all nodes.
  bool MakesNoMoreRounds() const { return primary_leaves || asked_to_end_at.has_value(); }
  // For a separate coordinator that was asked to end: whether this node still needs it.
  bool NeedsCoordinator(BootTime now, const Host& host) const;
  int CountCannotStart() const;  // holders of their places among the attached
  // Whether the primary must stay for others.
  bool OthersAttached(BootTime now, const Host& primary) const;
  bool AwaitsLatecomers(BootTime now) const;
};

}  // namespace muster::rendezvous
