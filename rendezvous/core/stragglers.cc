#include "rendezvous/core/stragglers.h"

#include <algorithm>
#include <utility>

namespace muster::rendezvous {

void Stragglers::BeginRound(BootTime now) {
  due_ = now + kCompareEvery;
  slow_since_.clear();
}

std::optional<Stragglers::Finding> Stragglers::Compare(BootTime now, const ShownByRank& rates) {
  due_ = now + kCompareEvery;
  Finding finding{.slow = {}, .median = MedianOf(rates)};
  const std::map<int, BootTime> before = std::exchange(slow_since_, {});
  for (const auto& [rank, rate] : rates) {
    if (rate * kSlowFactor >= finding.median) continue;
    const auto earlier = before.find(rank);
    const BootTime since = slow_since_[rank] = earlier == before.end() ? now : earlier->second;
    if (now - since >= kSlowFor) finding.slow.push_back({rank, rate});
  }
  if (finding.slow.empty() || now < named_at_ + kStragglersAgain) return std::nullopt;
  named_at_ = now;
  return finding;
}

}  // namespace muster::rendezvous
