#include "agent/host/core/idle_clock.h"

#include <algorithm>
#include <cstddef>

#include "base/stacks/warm_up.h"

namespace muster::host {

void IdleClock::BeginRound(BootTime now, int workers) {
  workers_.assign(static_cast<size_t>(workers), Worker());
  ticked_at_ = now;
  silence_ = counted_ = absl::ZeroDuration();
  windows_ = {};
  suspended_for_.reset();
}

void IdleClock::OnTick(BootTime now) {
  const absl::Duration gap = std::min(now - ticked_at_, kMaxCountedGap);
  ticked_at_ = now;
  if (suspended_for_) {
    *suspended_for_ += gap;
    return;
  }
  counted_ += gap;
  silence_ += gap;
  for (Worker& worker : workers_) worker.idle += gap;
}

void IdleClock::Count(Windows* windows) const {
  if (counted_ < windows->next) return;
  ++windows->seen;
  windows->next = counted_ + window_;
}

void IdleClock::OnSigns(const std::set<int>& local_ranks) {
  if (local_ranks.empty()) return;
  if (suspended_for_ && *suspended_for_ > kMaxCountedGap) suspended_for_.reset();
  silence_ = absl::ZeroDuration();
  Count(&windows_);
  for (const int local_rank : local_ranks) {
    const auto index = static_cast<size_t>(local_rank);
    if (index >= workers_.size()) continue;
    workers_[index].idle = absl::ZeroDuration();
    Count(&workers_[index].windows);
  }
}

void IdleClock::OnEnded(int local_rank) {
  const auto index = static_cast<size_t>(local_rank);
  if (index >= workers_.size()) return;
  workers_[index].lives = false;
  silence_ = absl::ZeroDuration();
}

void IdleClock::OnSuspended(bool suspended) {
  suspended_for_ = suspended ? std::optional(absl::ZeroDuration()) : std::nullopt;
  silence_ = absl::ZeroDuration();
}

std::optional<absl::Duration> IdleClock::Silence() const {
  const bool some_live =
      std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.lives; });
  return some_live ? std::optional(silence_) : std::nullopt;
}

// The silence of all tells nothing here: it begins anew when a worker ends, or all go on after a pause.
std::vector<int> IdleClock::Stragglers(absl::Duration limit) const {
  std::vector<int> found;
  const bool some_go_on = std::any_of(workers_.begin(), workers_.end(), [limit](const Worker& worker) {
    return worker.lives && worker.idle < limit / 2;
  });
  if (!some_go_on) return found;
  for (size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    const bool steady = worker.lives && worker.windows.seen >= kWarmUpSigns;
    if (steady && worker.idle > limit) found.push_back(static_cast<int>(i));
  }
  return found;
}

std::optional<int> IdleClock::LiveOne(int local_rank) const {
  const auto index = static_cast<size_t>(local_rank);
  if (index < workers_.size() && workers_[index].lives) return local_rank;
  const auto first = std::find_if(workers_.begin(), workers_.end(), [](const Worker& one) { return one.lives; });
  return first == workers_.end() ? std::nullopt : std::optional(static_cast<int>(first - workers_.begin()));
}

bool IdleClock::IsSilentSoFar(int local_rank) const {
  const auto index = static_cast<size_t>(local_rank);
  return index < workers_.size() && workers_[index].windows.seen == 0;
}

absl::Duration IdleClock::Of(int local_rank) const {
  const auto index = static_cast<size_t>(local_rank);
  return index < workers_.size() ? workers_[index].idle : absl::ZeroDuration();
}

}  // namespace muster::host
