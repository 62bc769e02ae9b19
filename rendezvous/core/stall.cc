#include "rendezvous/core/stall.h"

#include <algorithm>

namespace muster::rendezvous {

void StallJudge::BeginRound() {
  signs_ = 0;
  silence_ = absl::ZeroDuration();
}

bool StallJudge::OnReports(absl::Duration silence, int signs) {
  // Without a new sign it has only become unknown. A silence within one window is shorter than any that matters.
  if (is_warm() && signs > signs_) Learn(silence_);
  signs_ = std::max(signs_, signs);
  silence_ = silence;
  return silence > limit();
}

void StallJudge::Learn(absl::Duration silence) { learned_ = std::max(learned_, silence); }

absl::Duration StallJudge::warm_limit() const {
  return given_.value_or(std::max(kLeastLearned, learned_ * kLearnedFactor));
}

absl::Duration StallJudge::limit() const {
  return is_warm() ? warm_limit() : start_.value_or(std::max(warm_limit(), kWarmUpLimit));
}

}  // namespace muster::rendezvous
