#include "base/stacks/places.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text/text.h"

namespace muster {
namespace {

constexpr size_t kMaxWhere = 300;  // bytes
constexpr int kBusyPercent = 50;   // of a processor used or waited for: it computes, or spins

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Code that came with Python or with a package. "<frozen importlib._bootstrap>", "<string>" and the like are
// generated or run by a library.
bool IsLibrary(const Frame& frame) {
  return absl::StartsWith(frame.file, "<") || absl::StrContains(frame.file, "/site-packages/") ||
         absl::StrContains(frame.file, "/dist-packages/") || absl::StrContains(frame.file, "/lib/python3") ||
         absl::StrContains(frame.file, "/lib64/python3");
}

std::string Place(const Frame& frame) {
  return absl::StrCat(FileName(frame.file), ":", frame.line, " (", frame.function, ")");
}

// The meaning of a letter in /proc/PID/stat, proc(5).
const char* DescribeState(char state) {
  switch (state) {
    case 'R':
      return "it runs";
    case 'S':
      return "it sleeps";
    case 'D':
      return "the kernel holds it, and no signal reaches it";
    case 'T':
    case 't':
      return "it is stopped";
    case 'Z':
    case 'X':
      return "it has ended";
    default:
      return "its state is not known";
  }
}

// A process that runs or sleeps may do the other in the next moment, so that alone says nothing.
bool IsUnusual(char state) { return state != 'S' && state != 'R' && state != '?'; }

// What distinguishes it from others, as far as it is known without its stack.
std::string Doing(const RankSnapshot& rank) {
  if (rank.ended) return "it has ended";
  if (IsUnusual(rank.state) || !rank.busy_percent) return DescribeState(rank.state);
  return *rank.busy_percent >= kBusyPercent ? "it computes" : "it waits";
}

// Begins with a separator, or is empty.
std::string InKernel(const RankSnapshot& rank) {
  return rank.ended || rank.waits_in.empty() ? "" : absl::StrCat(", in ", rank.waits_in, " of the kernel");
}

// The same.
std::string WaitAndMissing(const RankSnapshot& rank) {
  std::string text = InKernel(rank);
  if (!rank.missing.empty()) absl::StrAppend(&text, " (", rank.missing, ")");
  return text;
}

std::string WithoutStack(const RankSnapshot& rank) {
  return absl::StrCat(Doing(rank), rank.ended ? "" : WaitAndMissing(rank));
}

std::string Short(const std::string& text) { return CutUtf8(OneLine(text), kMaxWhere); }

// Functions that only pass a call on: torch wraps each collective into one of them. Python 3.11 and later give
// qualified names: "_exception_logger.<locals>.wrapper".
bool PassesOn(const Frame& frame) {
  constexpr const char* kNames[] = {"wrapper", "inner", "decorate_context", "_call_impl", "_wrapped_call_impl",
                                    "_fn"};
  const std::string name = frame.function.substr(frame.function.rfind('.') + 1);
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::string InStack(const PythonThread& thread) {
  const std::vector<Frame>& frames = thread.frames;
  const auto own = frames.begin() + static_cast<ptrdiff_t>(LibraryFrames(thread));
  if (own == frames.end()) return absl::StrCat("at ", Place(frames.front()));
  if (own == frames.begin()) return absl::StrCat("at ", Place(*own));
  auto called = std::prev(own);
  while (called != frames.begin() && PassesOn(*called)) --called;
  return absl::StrCat("in ", called->function, ", called at ", Place(*own));
}

// Ranks with the same answer stand at the same place.
std::string PlaceOf(const RankSnapshot& rank) {
  const PythonThread* const main = MainThread(rank);
  if (main != nullptr) return absl::StrCat(InStack(*main), IsUnusual(rank.state) ? DescribeState(rank.state) : "");
  if (IsUnusual(rank.state)) return Doing(rank);
  if (!rank.busy_percent) return "";
  // Where a process that computes was in the kernel at that moment says nothing.
  return absl::StrCat(Doing(rank), *rank.busy_percent < kBusyPercent ? InKernel(rank) : "");
}

}  // namespace

std::string WhereIs(const RankSnapshot& rank) {
  const PythonThread* const main = MainThread(rank);
  std::string where = main == nullptr ? WithoutStack(rank) : InStack(*main);
  if (main != nullptr && IsUnusual(rank.state)) absl::StrAppend(&where, "; ", DescribeState(rank.state));
  return Short(where);
}

std::string WhereBesideState(const RankSnapshot& rank) {
  if (rank.ended) return "";
  const PythonThread* const main = MainThread(rank);
  return Short(main == nullptr ? WaitAndMissing(rank) : absl::StrCat(", ", InStack(*main)));
}

size_t LibraryFrames(const PythonThread& thread) {
  const auto own = std::find_if(thread.frames.begin(), thread.frames.end(),
                                [](const Frame& frame) { return !IsLibrary(frame); });
  return static_cast<size_t>(own - thread.frames.begin());
}

std::vector<RankGroup> GroupByPlace(const std::vector<RankSnapshot>& ranks) {
  std::map<std::string, RankGroup> by_place;
  for (const RankSnapshot& rank : ranks) {
    by_place[PlaceOf(rank)].ranks.push_back(&rank);
  }
  std::vector<RankGroup> groups;
  for (auto& [place, group] : by_place) {
    std::sort(group.ranks.begin(), group.ranks.end(),
              [](const RankSnapshot* a, const RankSnapshot* b) { return a->rank < b->rank; });
    group.where = WhereIs(*group.ranks.front());
    groups.push_back(std::move(group));
  }
  std::sort(groups.begin(), groups.end(), [](const RankGroup& a, const RankGroup& b) {
    return std::make_pair(a.ranks.size(), a.ranks[0]->rank) < std::make_pair(b.ranks.size(), b.ranks[0]->rank);
  });
  return groups;
}

}  // namespace muster
