// Restart budgets. The cost of a round is counted once, at the end of its drain, from the ledger that was sent
// with it. A coordinator that was restarted during the drain therefore gets the same numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/options.h"

namespace muster::rendezvous {

// Why a round ended; kAsked: somebody wanted another one, which costs nothing. Any number of worker failures in
// one round counts as one.
enum class EndCause { kMembership, kWorkerFailure, kNodeLoss, kAsked };
inline constexpr size_t kEndCauses = 4;

struct RoundResult {
  EndCause end = EndCause::kMembership;
  BootTime at;                // end of its drain
  absl::Duration lasted;      // from its start to the first failure or the start of its drain
  bool watched = false;       // some member watched a progress file
  bool progressed = false;    // the progress file was touched during the round
  bool loss_is_free = false;  // it lost only nodes of a crash loop, without which the others suffice
  bool port_taken = false;    // a worker failed because another process had taken its port
  std::string culprit;        // host id of the root cause; empty: not known, or no worker failed
};

// The progress file was touched; where no member watches one, the round ran for at least kLongRound.
bool MadeProgress(const RoundResult& round);

// What counts against the budgets, up to and including one round.
struct RestartLedger {
  int restart_count = 0;
  int failures = 0;
  std::vector<BootTime> failure_times;       // in the restart window, if there is one; the newest kMaxFailureAges
  std::vector<BootTime> losses;              // times of node losses within node_loss_window
  int fast_failures = 0;                     // rounds in a row that failed within kFastFailure
  int idle_failures = 0;                     // restarts in a row that failed without progress
  int idle_changes = 0;                      // membership changes in a row without progress
  std::string culprit;                       // host id of the root cause of the newest failed round
  int culprit_streak = 0;                    // failed rounds in a row of which `culprit` was the root cause
  std::map<std::string, BootTime> excluded;  // host id -> end of its exclusion

  // The ledger after a round with this result.
  RestartLedger After(const RoundResult& round, const CoordinatorOptions& options) const;
  // This ledger merged with that of another coordinator's greater round. The counts of restarts and failures, and
  // the numbers of their times and of losses, never decrease; all else is taken from `seen`.
  RestartLedger MergedWith(const RestartLedger& seen) const;

  int FailuresInWindow(const CoordinatorOptions& options) const;
  // Restart delay before the next round, with jitter; `dice` is uniformly distributed over all values.
  absl::Duration DelayBeforeNext(const CoordinatorOptions& options, uint64_t dice) const;

  void WriteTo(BootTime now, v1::Round* round) const;
  void WriteAgesTo(BootTime now, v1::Round* round) const;  // only the fields that change with time
  static RestartLedger ReadFrom(const v1::Round& round, BootTime now);
  // What a node reports excludes nobody for longer than this job does.
  void LimitExclusions(BootTime now, const CoordinatorOptions& options);

 private:
  void NoteFailure(const RoundResult& round, const CoordinatorOptions& options);
};

}  // namespace muster::rendezvous
