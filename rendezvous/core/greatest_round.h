// The greatest round known: made by this coordinator, or learned from the agents that attach to it. All that is
// recorded here is about this one round, and forgotten when a greater one follows it.
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
#include "rendezvous/core/options.h"
#include "rendezvous/core/root_cause.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxLostFailures = 64;

struct GreatestRound {
  v1::Round round;          // without a node rank
  RestartLedger counts;     // as sent with it
  uint64_t max_number = 0;  // greatest number of any round seen; kept, so that no number is used twice
  bool is_ours = false;     // this coordinator made it, in this epoch or in an earlier one
  // Host ids by node rank. Of a round that is not ours: of those that reported their rank, the first one for each.
  std::map<int, std::string> members;
  // Made or continued by this epoch. Before that, another coordinator's members may know more than this one.
  bool owned = false;
  bool ever_owned = false;                // this coordinator has owned a round; kept
  BootTime since = absl::InfinitePast();  // when it was made

  // How it ends.
  std::optional<BootTime> loss_at;  // first sign in this round that a member was lost or leaves
  std::string loss_text;
  // The members that were lost in it, or left, by node rank (-1: not known), as crash_loops.h calls them.
  std::map<int, std::string> lost;
  bool loss_is_logged = false;
  BootTime trouble_at = absl::InfinitePast();  // start of the drain
  std::string drain_cause;
  // A trainer was lost without proof that it ended: it may have made, or joined, a round of another coordinator.
  bool strayed = false;
  std::optional<BootTime> missed_at;  // when the first member was lost so

  // Node ranks that have reported success. The coordinator keeps them when their hosts are gone: losing such a
  // host costs nothing.
  std::set<int> succeeded;
  std::set<int> departed_after_success;
  std::set<int> ended;  // node ranks of the lost or departed hosts whose processes are known to have ended

  // Reports of members that are gone: the earliest ones, since each may have many KiB.
  std::vector<SeenFailure> lost_failures;
  int more_lost_failures = 0;          // only counted
  bool lost_had_progressed = false;    // one had reported progress
  bool lost_watched_progress = false;  // one watched a progress file

  bool IsKnown() const;
  const v1::RoundId& id() const { return round.id(); }
  int node_count() const { return round.node_count(); }
  bool AllSucceeded() const { return static_cast<int>(succeeded.size()) == node_count(); }
  uint64_t number() const { return round.id().number(); }
  bool HasMember(const std::string& host_id) const;  // as far as known
  // Whether this host may speak for this node rank: only the host that was given it, or that reported it first.
  bool MayBe(const std::string& host_id, int node_rank) const;

  // Replaces this round by a greater one, and forgets all that was about this one. is_ours: this coordinator makes
  // it; else an agent has reported it.
  void Become(const v1::Round& greater, BootTime now, bool is_ours);
  // The coordinator takes a new epoch: the round is not owned until its members have reported to that epoch.
  void BeginEpoch();
  // The earliest one is kept. is_logged: the log has this text already.
  void NoteLoss(BootTime at, std::string text, bool is_logged = false, int node_rank = -1,
                const std::string& node = "");
  void NoteLostFailure(const v1::Failure& failure, const std::string& host_id, BootTime at);
  void ForgetLostFailures();
  // A host that was taken for lost has returned, with an earlier estimate of when its failure happened.
  void CorrectLostFailure(const std::string& host_id, const v1::Failure& failure, BootTime at);
};

}  // namespace muster::rendezvous
