// Numbers of ranks, as ranges. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace muster {

inline constexpr size_t kMaxRangesShown = 8;  // of ranks, in one line

// First and last of each; sorted ascending, without repetition.
std::vector<std::pair<int, int>> RangesOf(std::vector<int> ranks);

// As messages hold them, and from such a list (of muster.v1.RankRange).
template <typename List>
void AddPairs(const std::vector<std::pair<int, int>>& ranges, List* list) {
  for (const auto& [first, last] : ranges) {
    auto* const range = list->Add();
    range->set_first(first);
    range->set_last(last);
  }
}
template <typename List>
std::vector<std::pair<int, int>> PairsOf(const List& list) {
  std::vector<std::pair<int, int>> ranges;
  for (const auto& range : list) ranges.emplace_back(range.first(), range.last());
  return ranges;
}

// "3", "0-2, 7 and 9-12"; the same order.
std::string ShowRanks(std::vector<int> ranks);

// "0-2,7,9-12", as options take them; "0-2,7,9-12 and 4 more ranges" beyond kMaxRangesShown.
std::string ShowRanges(const std::vector<std::pair<int, int>>& ranges);

}  // namespace muster
