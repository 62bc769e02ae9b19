#include "rendezvous/core/stragglers.h"

#include <algorithm>
#include <utility>

namespace muster::rendezvous {
namespace {

int64_t MedianOf(const std::map<int, int64_t>& rates) {
  std::vector<int64_t> sorted;
  for (const auto& [rank, rate] : rates) sorted.push_back(rate);
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return sorted.empty() ? 0 : *middle;
}

}  // namespace

void Stragglers::BeginRound(BootTime now) {
  due_ = now + kCompareEvery;
  slow_since_.clear();
}

std::optional<Stragglers::Finding> Stragglers::Compare(BootTime now, const std::map<int, int64_t>& rates) {
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
