// How the ranks of the running round get on, as far as they show it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/core/time.h"
#include "muster/v1/control.pb.h"
#include "rendezvous/core/time_ledger.h"

namespace muster::rendezvous {

struct Job;

// A silence of all workers is odd after so long, and so many steps at the pace of the last hour.
inline constexpr absl::Duration kOddSilence = absl::Minutes(1);
inline constexpr int kOddSteps = 20;
inline constexpr absl::Duration kShownLately = absl::Seconds(5);  // a node that was heard before that says nothing

// What members report of their ranks in lists by local rank: by rank, without those of which it is not known.
using ShownByRank = std::map<int, int64_t>;
ShownByRank StepRates(BootTime now, const Job& job);   // in 1000 s
ShownByRank TouchRates(BootTime now, const Job& job);  // the same
ShownByRank NewestSteps(BootTime now, const Job& job);

// If their number is even, the greater of the two in the middle; 0: there are no ranks.
int64_t MedianOf(const ShownByRank& shown);

// The median rank's rate.
struct Pace {
  int64_t rate = 0;         // 0: not known
  bool by_touches = false;  // since no line shows a step
};
Pace PaceNow(BootTime now, const Job& job);

// For how long all workers of a running round have been silent, if that is long for a job whose pace is known:
// nullopt: it is not.
std::optional<absl::Duration> OddSilenceOf(BootTime now, const Job& job);

// What the time of now counts as.
TimeLedger::Moment MomentOf(BootTime now, const Job& job);

v1::Progress ProgressOf(BootTime now, const Job& job);

}  // namespace muster::rendezvous
