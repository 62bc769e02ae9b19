// Whether a running round hangs: no rank of it has shown a sign of life for too long. Pure, and without a clock:
// nodes count for how long their workers have been silent, and leave out the time in which they themselves, or the
// workers, were suspended. So a pause of a machine or of the coordinator is no stall.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "base/stacks/warm_up.h"

namespace muster::rendezvous {

// Before a round is warm, unless --start-timeout says otherwise; or the limit of a warm one, if that is longer.
inline constexpr absl::Duration kWarmUpLimit = absl::Minutes(30);
// --hang-timeout auto: so many times the longest silence of the job so far.
inline constexpr int kLearnedFactor = 10;

class StallJudge {
 public:
  // limit: InfiniteDuration: nothing is a stall; nullopt: it is learned from the job. start: the limit before a
  // round is warm; nullopt: kWarmUpLimit, or the warm limit if that is longer.
  explicit StallJudge(std::optional<absl::Duration> limit, std::optional<absl::Duration> start = std::nullopt)
      : given_(limit), start_(start) {}

  void BeginRound();  // what was learned stays

  // silence: of all members, each of which was heard lately. signs: of the node that has seen most windows with a
  // sign in this round. To be called again whenever nodes have reported. True: it is a stall.
  bool OnReports(absl::Duration silence, int signs);
  void Learn(absl::Duration silence);  // one that ended by itself, as an earlier coordinator has seen it

  // The longest silence that is no stall now.
  absl::Duration limit() const;
  absl::Duration warm_limit() const;    // of a warm round
  int signs() const { return signs_; }  // in this round
  bool is_warm() const { return signs_ >= kWarmUpSigns; }
  // The round has been silent for longer than the limit of a warm one, which it is not.
  bool is_cold_silence() const { return !is_warm() && silence_ > warm_limit(); }
  bool learns() const { return !given_; }
  absl::Duration learned() const { return learned_; }

 private:
  const std::optional<absl::Duration> given_;
  const std::optional<absl::Duration> start_;
  int signs_ = 0;                                  // in this round
  absl::Duration silence_ = absl::ZeroDuration();  // at the last call
  absl::Duration learned_ = absl::ZeroDuration();  // the longest that ended by itself, in a warm round
};

}  // namespace muster::rendezvous
