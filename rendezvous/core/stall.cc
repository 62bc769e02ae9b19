#include "rendezvous/core/stall.h"

#include <algorithm>

namespace muster::rendezvous {

void StallJudge::BeginRound() {
  signs_ = 0;
  idle_ = absl::ZeroDuration();
}

bool StallJudge::OnReports(absl::Duration idle, int signs) {
  if (idle < idle_ && is_warm()) longest_silence_ = std::max(longest_silence_, idle_);
  signs_ = std::max(signs_, signs);
  idle_ = idle;
  return idle > limit();
}

absl::Duration StallJudge::limit() const {
  const absl::Duration warm = given_.value_or(std::max(kLeastLearned, longest_silence_ * kLearnedFactor));
  return is_warm() ? warm : std::max(warm, kWarmUpLimit);
}

}  // namespace muster::rendezvous
