#include "base/stacks/snapshot_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/stacks/places.h"
#include "base/stacks/suspects.h"
#include "base/text/duration.h"
#include "base/text/rank_ranges.h"
#include "base/text/text.h"

namespace muster {
namespace {

// "it waits" of several ranks: "each waits".
std::string OfEach(const std::string& where) {
  constexpr absl::string_view kIt = "it ";
  return absl::StartsWith(where, kIt) ? absl::StrCat("each ", where.substr(kIt.size())) : where;
}

std::string Ranks(const RankGroup& group) {
  std::vector<int> ranks;
  for (const RankSnapshot* rank : group.ranks) ranks.push_back(rank->rank);
  return absl::StrCat(ranks.size() == 1 ? "rank " : absl::StrCat(ranks.size(), " ranks ("), ShowRanks(ranks),
                      ranks.size() == 1 ? "" : ")");
}

// The ranks that have shown no sign of life in this round while others have; empty: there are none.
std::string NotCome(const std::vector<RankSnapshot>& ranks) {
  std::vector<int> silent;
  for (const RankSnapshot& rank : ranks) {
    if (rank.silent_so_far && !rank.ended) silent.push_back(rank.rank);
  }
  if (silent.empty() || silent.size() == ranks.size()) return "";
  return absl::StrCat(silent.size() == 1 ? "rank " : "ranks ", ShowRanks(silent),
                      silent.size() == 1 ? " has" : " have", " shown no sign of life in this round; others have");
}

}  // namespace

std::vector<std::string> SnapshotLines(const std::vector<RankSnapshot>& ranks) {
  std::vector<std::string> lines;
  const Suspects suspects = FindSuspects(ranks);
  const std::vector<RankGroup> groups = GroupsOfSuspectsFirst(ranks, suspects);
  if (!suspects.ranks.empty()) lines.push_back(Describe(suspects));
  if (std::string silent = NotCome(ranks); !silent.empty()) lines.push_back(std::move(silent));
  const size_t most = kMaxSnapshotLines - lines.size();
  const size_t shown = groups.size() <= most ? groups.size() : most - 1;
  size_t room = most - shown - (shown < groups.size() ? 1 : 0);
  for (size_t i = 0; i < shown; ++i) {
    const RankGroup& group = groups[i];
    lines.push_back(absl::StrCat(Ranks(group), ": ", group.ranks.size() > 1 ? OfEach(group.where) : group.where));
    const PythonThread* const main = MainThread(*group.ranks[0]);
    if (main == nullptr) continue;
    // A fair part each, so that a deep stack leaves the next group something.
    const size_t depth = std::min(main->frames.size(), room / (shown - i));
    for (size_t frame = 0; frame < depth; ++frame) {
      lines.push_back(OneLine(absl::StrCat("    ", main->frames[frame].function, " (", main->frames[frame].file,
                                           ":", main->frames[frame].line, ")")));
    }
    room -= depth;
  }
  if (shown < groups.size()) lines.push_back(absl::StrCat("and ", groups.size() - shown, " more places"));
  return lines;
}

std::string SnapshotText(const std::vector<RankSnapshot>& ranks) {
  std::string text;
  for (const RankSnapshot& rank : ranks) {
    absl::StrAppend(&text, "rank ", rank.rank, ": pid ", rank.pid, " (", OneLine(rank.program), "), state ",
                    std::string(1, rank.state), ", ", rank.threads, " threads",
                    rank.waits_in.empty() ? "" : absl::StrCat(", in ", OneLine(rank.waits_in), " of the kernel"),
                    rank.busy_percent ? absl::StrCat(", needs ", *rank.busy_percent, " % of a processor") : "",
                    rank.silent_so_far ? ", no sign of life so far"
                    : rank.idle > absl::ZeroDuration()
                        ? absl::StrCat(", no sign of life for ",
                                       muster::FormatDuration(absl::Trunc(rank.idle, absl::Seconds(1))))
                        : "",
                    "\n");
    if (!rank.recorder.empty()) absl::StrAppend(&text, "  NCCL flight recorder: ", OneLine(rank.recorder), "\n");
    if (!rank.missing.empty()) absl::StrAppend(&text, "  no Python stacks: ", OneLine(rank.missing), "\n");
    for (const PythonThread& thread : rank.python) {
      absl::StrAppend(&text, "  thread ", OneLine(thread.name), "\n");
      for (const Frame& frame : thread.frames) {
        absl::StrAppend(&text, "    ", OneLine(frame.function), " (", OneLine(frame.file), ":", frame.line, ")\n");
      }
    }
  }
  return text;
}

}  // namespace muster
