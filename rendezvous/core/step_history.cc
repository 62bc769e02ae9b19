#include "rendezvous/core/step_history.h"

#include <numeric>

namespace muster::rendezvous {

void StepHistory::Add(BootTime now, int64_t rate) {
  due_ = now + kStepSampleEvery;
  if (samples_.empty() && rate == 0) return;
  samples_.push_back(rate);
  if (samples_.size() > kMaxStepSamples) samples_.pop_front();
}

int64_t StepHistory::average() const {
  if (samples_.empty()) return 0;
  return std::accumulate(samples_.begin(), samples_.end(), int64_t{0}) / static_cast<int64_t>(samples_.size());
}

absl::Duration StepHistory::span() const { return static_cast<int64_t>(samples_.size()) * kStepSampleEvery; }

}  // namespace muster::rendezvous
