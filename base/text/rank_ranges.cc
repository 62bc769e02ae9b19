#include "base/text/rank_ranges.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/text.h"

namespace muster {
namespace {

std::vector<std::string> Shown(const std::vector<std::pair<int, int>>& ranges) {
  std::vector<std::string> shown;
  for (const auto& [first, last] : ranges)
    shown.push_back(first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last));
  return shown;
}

}  // namespace

std::vector<std::pair<int, int>> RangesOf(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<std::pair<int, int>> ranges;
  for (const int rank : ranks) {
    if (ranges.empty() || rank != ranges.back().second + 1) ranges.emplace_back(rank, rank);
    ranges.back().second = rank;
  }
  return ranges;
}

std::string ShowRanks(std::vector<int> ranks) {
  return JoinAtMost(Shown(RangesOf(std::move(ranks))), kMaxRangesShown);
}

std::string ShowRanges(const std::vector<std::pair<int, int>>& ranges) {
  std::vector<std::string> shown = Shown(ranges);
  const size_t more = shown.size() > kMaxRangesShown ? shown.size() - kMaxRangesShown : 0;
  shown.resize(shown.size() - more);
  return absl::StrCat(absl::StrJoin(shown, ","), more == 0 ? "" : absl::StrCat(" and ", more, " more ranges"));
}

}  // namespace muster
