#include "rendezvous/core/time_ledger.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/wire/ranges.h"

namespace muster::rendezvous {

void TimeLedger::OnTick(BootTime now, const Moment& moment) {
  const absl::Duration since = last_ ? std::max(absl::ZeroDuration(), now - *last_) : absl::ZeroDuration();
  last_ = now;
  if (moment.state == State::kOver) return;
  if (moment.state == State::kRunning) {
    if (moment.round != round_) BeginRound(moment.round);
    if (moment.step > 0) NoteStep(moment.step);
  }
  At(KindOf(moment)) += since;
}

void TimeLedger::BeginRound(uint64_t round) {
  greatest_ = std::max(greatest_, std::exchange(greatest_here_, 0));
  round_ = round;
  step_ = 0;
}

void TimeLedger::NoteStep(int64_t step) {
  shows_steps_ = true;
  steps_begin_again_ |= step < step_;
  const bool is_first = std::exchange(step_, step) == 0;
  greatest_here_ = std::max(greatest_here_, step);
  if (!is_first || step >= greatest_ || steps_begin_again_) return;
  repeated_round_ = round_;
  repeated_from_ = greatest_;
  repeated_to_ = step;
}

Spent TimeLedger::KindOf(const Moment& moment) const {
  if (moment.state == State::kWaiting) return Spent::kWaiting;
  if (moment.state == State::kRestarting) return Spent::kRestarting;
  if (!moment.is_watched) return Spent::kRunning;
  if (moment.is_stalled) return Spent::kStalled;
  if (!moment.has_shown_signs) return Spent::kStarting;
  if (step_ == 0) return Spent::kWarmingUp;
  return step_ < greatest_ && !steps_begin_again_ ? Spent::kRepeating : Spent::kStepping;
}

// A job that never shows a step only runs: its first output was followed by none.
absl::Duration TimeLedger::Of(Spent kind) const {
  const auto of = [this](Spent one) { return spent_[static_cast<size_t>(one)]; };
  if (shows_steps_) return of(kind);
  if (kind == Spent::kWarmingUp) return absl::ZeroDuration();
  return kind == Spent::kRunning ? of(kind) + of(Spent::kWarmingUp) : of(kind);
}

v1::TimeSpent TimeLedger::ToMessage() const {
  v1::TimeSpent time;
  time.set_counted_ms(WireMilliseconds(std::accumulate(spent_.begin(), spent_.end(), absl::ZeroDuration())));
  time.set_waiting_ms(WireMilliseconds(Of(Spent::kWaiting)));
  time.set_restarting_ms(WireMilliseconds(Of(Spent::kRestarting)));
  time.set_starting_ms(WireMilliseconds(Of(Spent::kStarting)));
  time.set_warming_up_ms(WireMilliseconds(Of(Spent::kWarmingUp)));
  time.set_stepping_ms(WireMilliseconds(Of(Spent::kStepping)));
  time.set_repeating_ms(WireMilliseconds(Of(Spent::kRepeating)));
  time.set_running_ms(WireMilliseconds(Of(Spent::kRunning)));
  time.set_stalled_ms(WireMilliseconds(Of(Spent::kStalled)));
  time.set_repeated_round(repeated_round_);
  time.set_repeated_from(repeated_from_);
  time.set_repeated_to(repeated_to_);
  return time;
}

}  // namespace muster::rendezvous
