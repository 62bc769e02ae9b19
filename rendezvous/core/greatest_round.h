// The greatest round known: made by this coordinator, or learned from the agents that attach to it. What is
// recorded here is about this one round, and forgotten when a greater one follows it; only `kept` stays.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/budgets.h"
#include "rendezvous/core/host.h"
#include "rendezvous/core/options.h"
#include "rendezvous/core/root_cause.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxLostFailures = 64;

// Members that were lost, or have left. The first sign of it dates the round's end.
struct MemberLosses {
  std::optional<BootTime> at;  // the first sign
  std::string text;
  bool is_logged = false;            // the log has this text already
  std::map<int, std::string> nodes;  // by node rank (-1: not known), as crash_loops.h calls them
  std::set<int> ended;               // node ranks whose processes are known to have ended
  // A trainer was lost without proof that it ended: it may have made, or joined, a round of another coordinator.
  bool strayed = false;
  std::optional<BootTime> missed_at;  // when the first member was lost so

  // The earliest one is kept. part: of the member; nullptr: it is not known which one.
  void Note(BootTime when, std::string what, const Part* part, bool has_been_logged = false);
};

// Node ranks that have reported success. The coordinator keeps them when their hosts are gone: losing such a host
// costs nothing.
struct Successes {
  std::set<int> ranks;
  std::set<int> departed;  // their hosts are gone
};

// What members reported that are gone.
struct GoneMembers {
  std::vector<SeenFailure> failures;  // the earliest ones, since each may have many KiB
  int more_failures = 0;              // only counted
  bool had_progressed = false;        // one had reported progress
  bool watched_progress = false;      // one watched a progress file

  void NoteFailure(const v1::Failure& failure, const std::string& host_id, BootTime at);
  void ForgetFailures();
  // A host that was taken for lost has returned, with an earlier estimate of when its failure happened.
  void CorrectFailure(const std::string& host_id, const v1::Failure& failure, BootTime at);
};

struct GreatestRound {
  v1::Round round;             // without a node rank
  RestartLedger counts;        // as sent with it
  bool was_made_here = false;  // by this coordinator, in this epoch or in an earlier one
  // Host ids by node rank. If another coordinator made it: of those that reported their rank, the first one for
  // each.
  std::map<int, std::string> members;
  // Made or continued by this epoch. Before that, another coordinator's members may know more than this one.
  bool is_controlled = false;
  BootTime since = absl::InfinitePast();  // when it was made
  // A member was stopped by another coordinator, which may have made a further round since, unheard of here.
  bool came_drained = false;

  MemberLosses losses;
  struct {
    BootTime began = absl::InfinitePast();
    std::string cause;
  } drain;
  std::string restart_order;           // somebody wants another round in its place, and why; empty: nobody does
  std::set<std::string> drain_orders;  // members that somebody wants to leave, as crash_loops.h calls them
  Successes successes;
  GoneMembers gone;

  struct {
    uint64_t max_number = 0;       // greatest number of any round seen, so that no number is used twice
    bool ever_controlled = false;  // this coordinator has controlled a round
  } kept;

  bool IsKnown() const;
  const v1::RoundId& id() const { return round.id(); }
  int node_count() const { return round.node_count(); }
  bool AllSucceeded() const { return static_cast<int>(successes.ranks.size()) == node_count(); }
  uint64_t number() const { return round.id().number(); }
  bool HasMember(const std::string& host_id) const;  // as far as known
  // Whether this host may speak for this node rank: only the host that was given it, or that reported it first.
  bool MayBe(const std::string& host_id, int node_rank) const;

  // Replaces this round by a greater one, and forgets all that was about this one. made_here: this coordinator
  // makes it; else an agent has reported it.
  void Become(const v1::Round& greater, BootTime now, bool made_here);
  // The coordinator takes a new epoch: the round is not controlled until its members have reported to that epoch.
  void BeginEpoch();
};

}  // namespace muster::rendezvous
