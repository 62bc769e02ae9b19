#include "rendezvous/core/stragglers.h"

#include <algorithm>

namespace muster::rendezvous {

void Stragglers::BeginRound(BootTime now) { BeginWindow(now, {}); }

void Stragglers::BeginWindow(BootTime now, const std::map<int, int64_t>& steps) {
  began_ = now;
  due_ = now + (steps.empty() ? kFirstSteps : kStepWindow);
  at_beginning_ = steps;
}

std::optional<Stragglers::Finding> Stragglers::Compare(BootTime now, const std::map<int, int64_t>& steps) {
  std::vector<Rank> made;
  std::vector<int64_t> sorted;
  for (const auto& [rank, count] : steps) {
    const auto before = at_beginning_.find(rank);
    if (before == at_beginning_.end() || count < before->second) continue;
    made.push_back({rank, count - before->second});
    sorted.push_back(made.back().steps);
  }
  std::sort(sorted.begin(), sorted.end());
  Finding finding{.slow = {}, .median = sorted.empty() ? 0 : sorted[sorted.size() / 2], .window = now - began_};
  if (finding.median < kLeastSteps && !at_beginning_.empty() && finding.window < kLongestStepWindow) {
    due_ = now + kStepWindow;
    return std::nullopt;
  }
  BeginWindow(now, steps);
  if (finding.median < kLeastSteps || now < named_at_ + kStragglersAgain) return std::nullopt;
  for (const Rank& rank : made) {
    if (rank.steps * kSlowFactor < finding.median) finding.slow.push_back(rank);
  }
  if (finding.slow.empty()) return std::nullopt;
  named_at_ = now;
  return finding;
}

}  // namespace muster::rendezvous
