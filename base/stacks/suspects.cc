#include "base/stacks/suspects.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/stacks/places.h"
#include "base/text/rank_ranges.h"

namespace muster {
namespace {

// Empty if it is true of none, or of all.
template <typename Predicate>
std::vector<int> Some(const std::vector<RankSnapshot>& ranks, Predicate is_so) {
  std::vector<int> some;
  for (const RankSnapshot& rank : ranks) {
    if (is_so(rank)) some.push_back(rank.rank);
  }
  if (some.size() == ranks.size()) some.clear();
  std::sort(some.begin(), some.end());
  return some;
}

std::string Are(const std::vector<int>& ranks, const char* singular, const char* plural) {
  return ranks.size() == 1 ? singular : plural;
}

bool HasStack(const RankSnapshot& rank) { return MainThread(rank) != nullptr; }

enum class Collective { kNone, kPossible, kSure };

// By the frames below the user's own code. The files of torch that define collective operations come first. In the
// other folders here operations may wait for other ranks without a frame that shows it: gradients are reduced by
// threads of C++ while backward() waits, kernels of NCCL are waited for by a synchronization.
Collective WaitsInCollective(const RankSnapshot& rank) {
  constexpr const char* kFiles[] = {"/torch/distributed/distributed_c10d.py",
                                    "/torch/distributed/_functional_collectives.py"};
  constexpr const char* kFolders[] = {"/torch/distributed/", "/torch/autograd/", "/torch/nn/parallel/",
                                      "/torch/cuda/",        "/torch/_dynamo/",  "/torch/_inductor/"};
  const PythonThread& main = *MainThread(rank);
  Collective found = Collective::kNone;
  const size_t below_own = LibraryFrames(main);
  for (size_t i = 0; i < below_own; ++i) {
    const auto is_in = [&file = main.frames[i].file](const char* place) { return absl::StrContains(file, place); };
    if (std::any_of(std::begin(kFiles), std::end(kFiles), is_in)) return Collective::kSure;
    if (std::any_of(std::begin(kFolders), std::end(kFolders), is_in)) found = Collective::kPossible;
  }
  return found;
}

// Whether only these wait in collective operations, which speaks against the others.
bool AloneInCollectives(const std::vector<RankSnapshot>& ranks, const std::vector<int>& few) {
  return std::all_of(ranks.begin(), ranks.end(), [&few](const RankSnapshot& rank) {
    const bool is_one = std::find(few.begin(), few.end(), rank.rank) != few.end();
    return HasStack(rank) && is_one == (WaitsInCollective(rank) == Collective::kSure);
  });
}

// Where the places themselves tell nothing. why: then.
Suspects ByCollectives(const std::vector<RankSnapshot>& ranks, const std::string& why) {
  std::vector<int> outside, inside;
  for (const RankSnapshot& rank : ranks) {
    if (!HasStack(rank)) return {{}, absl::StrCat(why, ", as far as that is known")};
    const Collective found = WaitsInCollective(rank);
    if (found == Collective::kPossible) return {{}, why};
    (found == Collective::kSure ? inside : outside).push_back(rank.rank);
  }
  if (inside.empty() || outside.empty()) return {{}, why};
  std::sort(outside.begin(), outside.end());
  Suspects suspects;
  suspects.why = absl::StrCat(Are(outside, "it is", "they are"), " in no collective operation, while ",
                              Are(inside, "rank ", "ranks "), ShowRanks(inside),
                              Are(inside, " waits in one", " wait in one"));
  suspects.ranks = std::move(outside);
  suspects.is_weak = true;
  return suspects;
}

}  // namespace

Suspects FindSuspects(const std::vector<RankSnapshot>& ranks) {
  if (auto some = Some(ranks, [](const RankSnapshot& rank) { return rank.ended; }); !some.empty()) {
    return {some, Are(some, "it has ended", "they have ended"), true};
  }
  const auto stopped = [](const RankSnapshot& rank) { return rank.state == 'T' || rank.state == 't'; };
  if (auto some = Some(ranks, stopped); !some.empty()) {
    return {some, Are(some, "it is stopped", "they are stopped"), true};
  }
  if (auto some = Some(ranks, [](const RankSnapshot& rank) { return rank.state == 'D'; }); !some.empty()) {
    return {some, Are(some, "the kernel holds it", "the kernel holds them"), true};
  }
  const std::vector<RankGroup> groups = GroupByPlace(ranks);
  if (ranks.size() < 2) return {{}, "there is no other rank to compare with"};
  if (groups.size() < 2) return ByCollectives(ranks, "no rank differs from the others");
  if (groups.back().ranks.size() == groups.front().ranks.size()) {
    return ByCollectives(ranks, absl::StrCat("the ranks stand at ", groups.size(), " places, as many at each"));
  }
  Suspects suspects;
  for (const RankGroup& group : groups) {
    if (group.ranks.size() > groups.front().ranks.size()) break;
    for (const RankSnapshot* rank : group.ranks) {
      suspects.ranks.push_back(rank->rank);
      suspects.is_weak |= MainThread(*rank) == nullptr;
    }
  }
  if (2 * suspects.ranks.size() > ranks.size())
    return ByCollectives(ranks,
                         absl::StrCat("the ranks stand at ", groups.size(), " places, none of which most share"));
  suspects.is_weak |= AloneInCollectives(ranks, suspects.ranks);
  std::sort(suspects.ranks.begin(), suspects.ranks.end());
  const size_t others = ranks.size() - suspects.ranks.size();
  suspects.why =
      absl::StrCat(Are(suspects.ranks, "it stands", "they stand"), " elsewhere than the other ", others);
  return suspects;
}

std::vector<RankGroup> GroupsOfSuspectsFirst(const std::vector<RankSnapshot>& ranks, const Suspects& suspects) {
  std::vector<RankGroup> groups = GroupByPlace(ranks);
  std::stable_partition(groups.begin(), groups.end(), [&suspects](const RankGroup& group) {
    return std::find(suspects.ranks.begin(), suspects.ranks.end(), group.ranks[0]->rank) != suspects.ranks.end();
  });
  return groups;
}

std::string Describe(const Suspects& suspects) {
  return absl::StrCat(Are(suspects.ranks, "suspect: rank ", "suspects: ranks "), ShowRanks(suspects.ranks), ": ",
                      suspects.why);
}

}  // namespace muster
