#include "rendezvous/core/round_history.h"

#include <algorithm>

namespace muster::rendezvous {

void RoundHistory::OnEnd(const EndedRound& round) {
  if (is_open_ && newest_.back().number == round.number)
    newest_.pop_back();
  else
    (void)OnStart(round.trouble);
  newest_.push_back(round);
  is_open_ = true;
  shows_nothing_since_.reset();
  if (newest_.size() <= kMaxRoundsKept) return;
  newest_.pop_front();
  ++earlier_;
}

bool RoundHistory::OnStart(BootTime now) {
  if (!is_open_) return false;
  is_open_ = false;
  EndedRound& ended = newest_.back();
  ended.lost = now - ended.trouble;
  ended.gathering = std::max(absl::ZeroDuration(), ended.lost - ended.detecting - ended.draining);
  lost_ += ended.lost;
  shows_nothing_since_ = now;
  ++restarts_[static_cast<size_t>(ended.end)];
  recoveries_.Add(RecoveryPhase::kDetect, ended.detecting);
  recoveries_.Add(RecoveryPhase::kDrain, ended.draining);
  recoveries_.Add(RecoveryPhase::kGather, ended.gathering);
  return true;
}

bool RoundHistory::OnSignOfLife(BootTime at) {
  if (!shows_nothing_since_ || newest_.empty()) return false;
  newest_.back().starting = std::max(absl::ZeroDuration(), at - *shows_nothing_since_);
  recoveries_.Add(RecoveryPhase::kStart, *newest_.back().starting);
  shows_nothing_since_.reset();
  return true;
}

absl::Duration RoundHistory::LostBy(BootTime now) const {
  return is_open_ ? lost_ + (now - newest_.back().trouble) : lost_;
}

}  // namespace muster::rendezvous
