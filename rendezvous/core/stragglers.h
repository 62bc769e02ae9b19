// Which ranks make steps more slowly than the others, where their lines or heartbeats show steps. In a job whose
// ranks wait for each other in each step all are as slow as the slowest: there only a snapshot shows who is late.
// A word for people: nothing is decided by it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/core/time.h"
#include "rendezvous/core/progress.h"

namespace muster::rendezvous {

inline constexpr absl::Duration kCompareEvery = absl::Seconds(5);
inline constexpr absl::Duration kSlowFor = absl::Seconds(30);  // at each comparison, before a rank is named
inline constexpr int64_t kSlowFactor = 2;  // the median rate over a slow rank's: more than that
inline constexpr absl::Duration kStragglersAgain = absl::Minutes(10);  // they are named no more often

class Stragglers {
 public:
  struct Rank {
    int rank = 0;
    int64_t rate = 0;
  };
  struct Finding {
    std::vector<Rank> slow;  // by rank
    int64_t median = 0;      // the median rank's rate; of an even number of ranks, that of the faster one
  };

  void BeginRound(BootTime now);
  bool IsDue(BootTime now) const { return now >= due_; }
  // rates: of one kind of step, of each rank that is heard of and whose rate is known. Call when it is due.
  std::optional<Finding> Compare(BootTime now, const ShownByRank& rates);

 private:
  BootTime due_ = absl::InfiniteFuture();
  std::map<int, BootTime> slow_since_;  // of the ranks that were slow at the last comparison
  BootTime named_at_ = absl::InfinitePast();
};

}  // namespace muster::rendezvous
