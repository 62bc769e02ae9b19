#include "rendezvous/core/stall.h"

#include <algorithm>

namespace muster::rendezvous {

void StallJudge::BeginRound() {
  signs_ = 0;
  idle_ = absl::ZeroDuration();
}

bool StallJudge::OnIdle(absl::Duration idle) {
  if (idle < idle_) {
    if (is_warm()) longest_silence_ = std::max(longest_silence_, idle_);
    signs_ = std::min(signs_ + 1, kWarmUpSigns);
  }
  idle_ = idle;
  return idle > limit();
}

absl::Duration StallJudge::limit() const {
  const absl::Duration warm = given_.value_or(std::max(kLeastLearned, longest_silence_ * kLearnedFactor));
  return is_warm() ? warm : std::max(warm, kWarmUpLimit);
}

}  // namespace muster::rendezvous
