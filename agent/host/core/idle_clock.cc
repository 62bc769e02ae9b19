#include "agent/host/core/idle_clock.h"

#include <algorithm>
#include <cstddef>

namespace muster::host {

void IdleClock::BeginRound(BootTime now, int workers) {
  workers_.assign(static_cast<size_t>(workers), Worker());
  looked_at_ = now;
  signs_ = 0;
  suspended_ = false;
}

void IdleClock::OnLook(BootTime now, const std::set<int>& signs) {
  const absl::Duration gap = std::min(now - looked_at_, kMaxCountedGap);
  looked_at_ = now;
  if (!signs.empty()) ++signs_;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (signs.count(static_cast<int>(i)) > 0) {
      workers_[i].idle = absl::ZeroDuration();
    } else if (!suspended_) {
      workers_[i].idle += gap;
    }
  }
}

void IdleClock::OnEnded(int local_rank) {
  const auto index = static_cast<size_t>(local_rank);
  if (index < workers_.size()) workers_[index].lives = false;
}

std::optional<absl::Duration> IdleClock::Shortest() const {
  std::optional<absl::Duration> shortest;
  for (const Worker& worker : workers_) {
    if (worker.lives) shortest = std::min(shortest.value_or(worker.idle), worker.idle);
  }
  return shortest;
}

std::optional<int> IdleClock::LiveOne(int local_rank) const {
  const auto index = static_cast<size_t>(local_rank);
  if (index < workers_.size() && workers_[index].lives) return local_rank;
  const auto first = std::find_if(workers_.begin(), workers_.end(), [](const Worker& one) { return one.lives; });
  return first == workers_.end() ? std::nullopt : std::optional(static_cast<int>(first - workers_.begin()));
}

absl::Duration IdleClock::Of(int local_rank) const {
  const auto index = static_cast<size_t>(local_rank);
  return index < workers_.size() ? workers_[index].idle : absl::ZeroDuration();
}

}  // namespace muster::host
