// Whether a running round hangs: no rank of it has shown a sign of life for too long. Pure, and without a clock:
// nodes count for how long their workers have been idle, and leave out the time in which they themselves, or the
// workers, were suspended. So a pause of a machine or of the coordinator is no stall, and a node that is not heard
// from is not idle (whether it is lost is another question).
#pragma once

#include <optional>

#include "absl/time/time.h"

namespace muster::rendezvous {

// Signs of life that are seen before a round counts as warm. Imports, compilation and the first step are mostly
// silent and may take many times longer than what follows. Nodes look once a second, so this many take some
// seconds.
inline constexpr int kWarmUpSigns = 10;
inline constexpr absl::Duration kWarmUpLimit = absl::Minutes(30);  // before that, or the own limit if it is longer
// --hang-timeout auto: so many times the longest silence of this job so far, and at least kLeastLearned.
inline constexpr int kLearnedFactor = 10;
inline constexpr absl::Duration kLeastLearned = absl::Minutes(10);

class StallJudge {
 public:
  // limit: InfiniteDuration: nothing is a stall; nullopt: it is learned from the job.
  explicit StallJudge(std::optional<absl::Duration> limit) : given_(limit) {}

  void BeginRound();  // what was learned stays

  // idle: of the node that has been idle for the shortest time, as it has counted that. signs: of the node that
  // has seen most of them in this round. Call it again whenever nodes have reported, and at least once a second.
  // True: it is a stall.
  bool OnReports(absl::Duration idle, int signs);

  // The longest silence that is none now.
  absl::Duration limit() const;
  bool is_warm() const { return signs_ >= kWarmUpSigns; }

 private:
  const std::optional<absl::Duration> given_;
  int signs_ = 0;                                          // in this round
  absl::Duration idle_ = absl::ZeroDuration();             // at the last call
  absl::Duration longest_silence_ = absl::ZeroDuration();  // that ended by itself, of a warm round
};

}  // namespace muster::rendezvous
