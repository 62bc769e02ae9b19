#include "base/picture/suspects.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/picture/picture_text.h"

namespace muster {
namespace {

// Empty if it is true of none, or of all.
template <typename Predicate>
std::vector<int> Some(const std::vector<RankPicture>& ranks, Predicate is_so) {
  std::vector<int> some;
  for (const RankPicture& rank : ranks) {
    if (is_so(rank)) some.push_back(rank.rank);
  }
  if (some.size() == ranks.size()) some.clear();
  std::sort(some.begin(), some.end());
  return some;
}

std::string Are(const std::vector<int>& ranks, const char* singular, const char* plural) {
  return ranks.size() == 1 ? singular : plural;
}

// In the files of torch that define its collective operations: each of them waits for the other ranks. Those of
// sharded training are left out, in which a model's own code runs.
bool IsCollective(const Frame& frame) {
  return absl::EndsWith(frame.file, "/torch/distributed/distributed_c10d.py") ||
         absl::EndsWith(frame.file, "/torch/distributed/_functional_collectives.py");
}

bool HasStack(const RankPicture& rank) { return MainThread(rank) != nullptr; }

// Of a rank with a stack.
bool IsInNoCollective(const RankPicture& rank) {
  const std::vector<Frame>& frames = MainThread(rank)->frames;
  return std::none_of(frames.begin(), frames.end(), IsCollective);
}

// Where as many ranks stand at each of several places.
Suspects OfEvenGroups(const std::vector<RankPicture>& ranks, size_t places) {
  std::vector<int> some;
  if (std::all_of(ranks.begin(), ranks.end(), HasStack)) some = Some(ranks, IsInNoCollective);
  if (some.empty()) return {some, absl::StrCat("the ranks stand at ", places, " places, as many at each")};
  return {some,
          absl::StrCat(Are(some, "it is", "they are"), " in no collective operation, in which the others wait")};
}

}  // namespace

Suspects FindSuspects(const std::vector<RankPicture>& ranks) {
  if (auto some = Some(ranks, [](const RankPicture& rank) { return rank.ended; }); !some.empty()) {
    return {some, Are(some, "it has ended", "they have ended"), true};
  }
  const auto stopped = [](const RankPicture& rank) { return rank.state == 'T' || rank.state == 't'; };
  if (auto some = Some(ranks, stopped); !some.empty()) {
    return {some, Are(some, "it is stopped", "they are stopped"), true};
  }
  if (auto some = Some(ranks, [](const RankPicture& rank) { return rank.state == 'D'; }); !some.empty()) {
    return {some, Are(some, "the kernel holds it", "the kernel holds them"), true};
  }
  const std::vector<RankGroup> groups = GroupByPlace(ranks);
  if (groups.size() < 2) return {{}, "no rank differs from the others"};
  if (groups.back().ranks.size() == groups.front().ranks.size()) return OfEvenGroups(ranks, groups.size());
  Suspects suspects;
  for (const RankGroup& group : groups) {
    if (group.ranks.size() > groups.front().ranks.size()) break;
    for (const RankPicture* rank : group.ranks) {
      suspects.ranks.push_back(rank->rank);
      suspects.is_weak |= MainThread(*rank) == nullptr;
    }
  }
  std::sort(suspects.ranks.begin(), suspects.ranks.end());
  const size_t others = ranks.size() - suspects.ranks.size();
  suspects.why =
      absl::StrCat(Are(suspects.ranks, "it stands", "they stand"), " elsewhere than the other ", others);
  return suspects;
}

std::string Describe(const Suspects& suspects) {
  return absl::StrCat(Are(suspects.ranks, "suspect: rank ", "suspects: ranks "), ShowRanks(suspects.ranks), ": ",
                      suspects.why);
}

}  // namespace muster
