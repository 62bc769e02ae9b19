// How the ranks of the running round get on, as far as they show it. Pure.
#pragma once

#include <cstdint>
#include <map>

#include "base/core/time.h"
#include "muster/v1/control.pb.h"
#include "rendezvous/core/time_ledger.h"

namespace muster::rendezvous {

struct Job;

inline constexpr absl::Duration kShownLately = absl::Seconds(5);  // a node that was heard before that says nothing

// What members report of their ranks in lists by local rank: by rank, without those of which it is not known.
using ShownByRank = std::map<int, int64_t>;
ShownByRank StepRates(BootTime now, const Job& job);   // in 1000 s
ShownByRank TouchRates(BootTime now, const Job& job);  // the same
ShownByRank NewestSteps(BootTime now, const Job& job);

// If the number of ranks is even, the greater one; 0: there is none.
int64_t MedianOf(const ShownByRank& shown);

// The median rank's rate.
struct Pace {
  int64_t rate = 0;         // 0: not known
  bool by_touches = false;  // since no line shows a step
};
Pace PaceNow(BootTime now, const Job& job);

// What the time of now counts as.
TimeLedger::Moment MomentOf(BootTime now, const Job& job);

v1::Progress ProgressOf(BootTime now, const Job& job);

}  // namespace muster::rendezvous
