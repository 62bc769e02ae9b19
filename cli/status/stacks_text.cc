#include "cli/status/stacks_text.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "base/text/rank_ranges.h"
#include "base/text/text.h"
#include "cli/status/status_text.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLivelyMs = 30'000;  // since the last sign of life of a job that goes on

int CountOf(const v1::Place& place) {
  int count = 0;
  for (const v1::RankRange& range : place.ranks()) count += range.last() - range.first() + 1;
  return count;
}

std::string RanksOf(const v1::Place& place) { return ShowRanges(PairsOf(place.ranks())); }

// "it waits" of several ranks: "each waits".
std::string WhereOf(const v1::Place& place) {
  constexpr absl::string_view kIt = "it ";
  const std::string where = OneLine(place.where());
  return CountOf(place) > 1 && absl::StartsWith(where, kIt) ? absl::StrCat("each ", where.substr(kIt.size()))
                                                            : where;
}

std::string PlaceText(const v1::Place& place) {
  const int count = CountOf(place);
  const std::string which = absl::StrCat("pid ", place.example().pid(), " on ", OneLine(place.host()));
  std::string out = count == 1 ? absl::StrCat("rank ", RanksOf(place), " (", which, "): ", WhereOf(place), "\n")
                               : absl::StrCat(count, " ranks (", RanksOf(place), "): ", WhereOf(place), "\n");
  if (count > 1 && !place.example().main_thread().empty())
    absl::StrAppend(&out, "    rank ", place.ranks(0).first(), " (", which, "):\n");
  return absl::StrCat(out, FramesText(place.example()));
}

Json RangesObject(const google::protobuf::RepeatedPtrField<v1::RankRange>& ranges) {
  Json object = Json::array();
  for (const v1::RankRange& range : ranges) object.push_back({range.first(), range.last()});
  return object;
}

Json ExampleObject(const v1::Place& place) {
  Json object;
  object["rank"] = place.ranks(0).first();
  object["node"] = place.host();
  object.update(ProcessObject(place.example()));
  return object;
}

}  // namespace

std::string FramesText(const v1::RankSnapshot& rank) {
  std::string out;
  for (const v1::StackFrame& frame : rank.main_thread()) {
    absl::StrAppend(&out, "    ",
                    OneLine(absl::StrCat(frame.function(), " (", frame.file(), ":", frame.line(), ")")), "\n");
  }
  return out;
}

Json ProcessObject(const v1::RankSnapshot& rank) {
  Json frames = Json::array();
  for (const v1::StackFrame& frame : rank.main_thread())
    frames.push_back({{"function", frame.function()}, {"file", frame.file()}, {"line", frame.line()}});
  Json object;
  object["pid"] = rank.pid();
  object["program"] = rank.program();
  object["ended"] = rank.ended();
  object["state"] = rank.state();
  object["waits_in"] = rank.waits_in().empty() ? Json() : Json(rank.waits_in());
  object["busy_percent"] = rank.has_busy_percent() ? Json(rank.busy_percent()) : Json();
  object["threads"] = rank.threads();
  object["frames"] = std::move(frames);
  object["no_stack"] = rank.missing().empty() ? Json() : Json(rank.missing());
  return object;
}

absl::StatusOr<std::vector<RankPair>> ParseRankRanges(std::string_view text) {
  std::vector<RankPair> ranges;
  for (const absl::string_view one : absl::StrSplit(AsAbsl(text), ',')) {
    const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(one, absl::MaxSplits('-', 1));
    RankPair range;
    const bool has_first = absl::SimpleAtoi(ends.first, &range.first);
    range.second = range.first;
    const bool has_last = !absl::StrContains(one, '-') || absl::SimpleAtoi(ends.second, &range.second);
    if (!has_first || !has_last || range.first < 0 || range.second < range.first)
      return absl::InvalidArgumentError(
          absl::StrCat("--ranks ", OneLine(std::string(text)), ": expected ranks as in 3 or 0-7,12"));
    ranges.push_back(range);
  }
  return ranges;
}

void KeepPlacesOf(const std::vector<RankPair>& ranks, v1::Stacks* stacks) {
  if (ranks.empty()) return;
  const auto is_there = [&ranks](const v1::RankRange& range) {
    return std::any_of(ranks.begin(), ranks.end(), [&range](const RankPair& meant) {
      return range.first() <= meant.second && meant.first <= range.last();
    });
  };
  auto* const places = stacks->mutable_places();
  places->erase(std::remove_if(places->begin(), places->end(),
                               [&](const v1::Place& place) {
                                 return std::none_of(place.ranks().begin(), place.ranks().end(), is_there);
                               }),
                places->end());
}

int CodeOfStacks(const v1::JobView& view) {
  const v1::Stacks& stacks = view.stacks();
  return stacks.complete() && stacks.silent().empty() && !stacks.places().empty() ? 0 : kExitAttention;
}

std::string StacksText(const v1::JobView& view) {
  const v1::Stacks& stacks = view.stacks();
  const std::string job = absl::StrCat("job ", OneLine(view.run_id()), ": ");
  if (!stacks.why_not().empty()) return absl::StrCat(job, OneLine(stacks.why_not()), "\n");
  if (!stacks.complete()) return absl::StrCat(job, "its nodes have not answered in time; ask again\n");
  std::string out;
  // The most likely reason of a hang comes first.
  if (!stacks.silent().empty()) {
    absl::StrAppend(&out, "no answer: ", OneLine(absl::StrJoin(stacks.silent(), ", ")),
                    stacks.more_silent() > 0 ? absl::StrCat(" and ", stacks.more_silent(), " more") : "", "\n");
  }
  if (!stacks.suspects().empty()) absl::StrAppend(&out, OneLine(stacks.suspects()), "\n");
  if (!stacks.suspects().empty() && view.progress().has_quiet_ms() && view.progress().quiet_ms() < kLivelyMs) {
    absl::StrAppend(&out, "the job shows signs of life, the last one ", Brief(view.progress().quiet_ms()),
                    " ago: ranks may differ by chance; ask again and compare\n");
  } else if (!stacks.suspects().empty() && view.has_progress() && !view.progress().watched()) {
    out += "whether the job gets on is not watched (--hang-timeout): ask again and compare\n";
  }
  for (const v1::Place& place : stacks.places()) absl::StrAppend(&out, PlaceText(place));
  if (stacks.places().empty()) absl::StrAppend(&out, job, "no worker stands at such a place\n");
  if (stacks.more_places() > 0) absl::StrAppend(&out, "and ", stacks.more_places(), " more places\n");
  return out;
}

std::string StacksJson(const v1::JobView& view) {
  const v1::Stacks& stacks = view.stacks();
  Json object;
  object["run_id"] = view.run_id();
  object["round"] = view.has_round() ? Json(view.round().number()) : Json();
  object["complete"] = stacks.complete();
  object["why_not"] = stacks.why_not().empty() ? Json() : Json(stacks.why_not());
  object["suspects"] = stacks.suspects().empty() ? Json() : Json(stacks.suspects());
  object["suspect_ranks"] = RangesObject(stacks.suspect_ranks());
  object["places"] = Json::array();
  for (const v1::Place& place : stacks.places()) {
    object["places"].push_back(
        {{"ranks", RangesObject(place.ranks())}, {"where", place.where()}, {"example", ExampleObject(place)}});
  }
  object["more_places"] = stacks.more_places();
  object["silent"] = Json::array();
  for (const std::string& node : stacks.silent()) object["silent"].push_back(node);
  object["more_silent"] = stacks.more_silent();
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster::cli
