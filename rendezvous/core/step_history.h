// How many steps the job has made on average, for people (progress.h): nothing is decided by it. A new coordinator
// begins without one. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/core/time.h"

namespace muster::rendezvous {

inline constexpr absl::Duration kStepSampleEvery = absl::Minutes(1);
inline constexpr size_t kMaxStepSamples = 60;  // of the last hour

class StepHistory {
 public:
  bool IsDue(BootTime now) const { return now >= due_; }
  // rate: of the median rank; 0: no round runs, or it shows none yet, as after a restart. Nothing counts before
  // the first step. Call when it is due.
  void Add(BootTime now, int64_t rate);

  int64_t average() const;      // 0: not known
  absl::Duration span() const;  // of which it is the average

 private:
  BootTime due_ = absl::InfinitePast();
  std::deque<int64_t> samples_;
};

}  // namespace muster::rendezvous
