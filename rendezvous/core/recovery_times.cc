#include "rendezvous/core/recovery_times.h"

#include <iterator>

#include "base/wire/ranges.h"

namespace muster::rendezvous {
namespace {

constexpr const char* kNames[kRecoveryPhases] = {"detect", "drain", "gather", "start"};

}  // namespace

void RecoveryTimes::Add(RecoveryPhase phase, absl::Duration took) {
  Counts& counts = counts_[static_cast<size_t>(phase)];
  for (size_t i = 0; i < counts.within.size(); ++i) {
    if (took <= absl::Milliseconds(kRecoveryBoundsMs[i])) ++counts.within[i];
  }
  ++counts.count;
  counts.sum += took;
}

v1::RecoveryTimes RecoveryTimes::ToMessage() const {
  v1::RecoveryTimes times;
  times.mutable_bounds_ms()->Assign(std::begin(kRecoveryBoundsMs), std::end(kRecoveryBoundsMs));
  for (size_t i = 0; i < kRecoveryPhases; ++i) {
    v1::PhaseTimes* const phase = times.add_phases();
    phase->set_phase(kNames[i]);
    phase->mutable_within()->Assign(counts_[i].within.begin(), counts_[i].within.end());
    phase->set_count(counts_[i].count);
    phase->set_sum_ms(WireMilliseconds(counts_[i].sum));
  }
  return times;
}

}  // namespace muster::rendezvous
