// Which ranks make fewer steps than the others, where their lines or heartbeats show steps. In a job whose ranks
// wait for each other in each step all are as slow as the slowest: there only a picture shows who is late. A word
// for people: nothing is decided by it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/time.h"

namespace muster::rendezvous {

inline constexpr absl::Duration kStepWindow = absl::Seconds(30);  // compared after that time at the earliest
inline constexpr absl::Duration kFirstSteps = absl::Seconds(5);   // between looks for the first ones
inline constexpr absl::Duration kLongestStepWindow = absl::Minutes(30);  // then a new one begins
inline constexpr int64_t kLeastSteps = 20;  // of the median rank within a window: fewer say little
inline constexpr int64_t kSlowFactor = 2;   // the median over a slow rank's steps: more than that
inline constexpr absl::Duration kStragglersAgain = absl::Minutes(10);  // they are named no more often

class Stragglers {
 public:
  struct Rank {
    int rank = 0;
    int64_t steps = 0;  // within the window
  };
  struct Finding {
    std::vector<Rank> slow;  // by rank
    int64_t median = 0;      // steps of the median rank; of an even number of ranks, of the faster one
    absl::Duration window;
  };

  void BeginRound(BootTime now);
  bool IsDue(BootTime now) const { return now >= due_; }
  // steps: since the round began, of each rank that is heard of and has shown any. Call when it is due.
  std::optional<Finding> Compare(BootTime now, const std::map<int, int64_t>& steps);

 private:
  void BeginWindow(BootTime now, const std::map<int, int64_t>& steps);

  BootTime began_ = absl::InfinitePast();
  BootTime due_ = absl::InfiniteFuture();
  std::map<int, int64_t> at_beginning_;  // of the window
  BootTime named_at_ = absl::InfinitePast();
};

}  // namespace muster::rendezvous
