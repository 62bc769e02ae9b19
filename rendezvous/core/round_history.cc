#include "rendezvous/core/round_history.h"

namespace muster::rendezvous {

void RoundHistory::OnEnd(const EndedRound& round) {
  if (is_open_ && newest_.back().number == round.number)
    newest_.pop_back();
  else
    OnStart(round.trouble);
  newest_.push_back(round);
  is_open_ = true;
  if (newest_.size() <= kMaxRoundsKept) return;
  newest_.pop_front();
  ++earlier_;
}

void RoundHistory::OnStart(BootTime now) {
  if (!is_open_) return;
  is_open_ = false;
  newest_.back().lost = now - newest_.back().trouble;
  lost_ += newest_.back().lost;
}

absl::Duration RoundHistory::LostBy(BootTime now) const {
  return is_open_ ? lost_ + (now - newest_.back().trouble) : lost_;
}

}  // namespace muster::rendezvous
