#include "cli/status/rank_text.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "base/text/text.h"
#include "cli/status/stacks_text.h"
#include "cli/status/status_text.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string SignText(const v1::RankSnapshot& found, const v1::JobView& view) {
  if (found.ended() || !view.progress().watched()) return "";
  if (found.silent_so_far()) return "it has shown no sign of life in this round\n";
  return absl::StrCat("its last sign of life was ", Brief(found.idle_ms()), " ago\n");
}

std::string OutputText(const v1::RankSnapshot& found) {
  if (found.last_output().empty())
    return "no output of it is known: it has written none, or muster does not see it (-t 3 and -r 3 show it)\n";
  std::string out = "its last lines of output:\n";
  for (const absl::string_view line : absl::StrSplit(found.last_output(), '\n'))
    absl::StrAppend(&out, "    ", OneLine(std::string(line)), "\n");
  return out;
}

}  // namespace

absl::StatusOr<int> ParseRank(const std::string& text) {
  int rank = 0;
  if (absl::SimpleAtoi(text, &rank) && rank >= 0) return rank;
  return absl::InvalidArgumentError(absl::StrCat("--rank ", OneLine(text), ": expected a global rank, such as 5"));
}

int CodeOfRank(const v1::JobView& view) {
  return view.rank().has_found() && !view.rank().found().ended() ? 0 : kExitAttention;
}

std::string RankText(const v1::JobView& view) {
  const v1::RankView& rank = view.rank();
  const std::string name = absl::StrCat("rank ", rank.rank());
  if (!rank.why_not().empty()) return absl::StrCat(name, ": ", OneLine(rank.why_not()), "\n");
  const std::string place = absl::StrCat(name, " on ", OneLine(rank.host()));
  if (!rank.has_found()) return absl::StrCat(place, ": the node has not answered in time\n");
  const v1::RankSnapshot& found = rank.found();
  std::string out = found.ended() ? absl::StrCat(place, ": it has ended\n")
                                  : absl::StrCat(place, ", pid ", found.pid(), " (", OneLine(found.program()),
                                                 "): ", OneLine(rank.where()), "\n");
  absl::StrAppend(&out, FramesText(found));
  if (!found.missing().empty()) absl::StrAppend(&out, "    no Python stack: ", OneLine(found.missing()), "\n");
  return absl::StrCat(out, SignText(found, view), OutputText(found));
}

std::string RankJson(const v1::JobView& view) {
  const v1::RankView& rank = view.rank();
  Json object;
  object["run_id"] = view.run_id();
  object["round"] = view.has_round() ? Json(view.round().number()) : Json();
  object["rank"] = rank.rank();
  object["node"] = rank.host().empty() ? Json() : Json(rank.host());
  object["why_not"] = rank.why_not().empty() ? Json() : Json(rank.why_not());
  object["answered"] = rank.has_found();
  if (rank.has_found()) {
    const v1::RankSnapshot& found = rank.found();
    object["where"] = rank.where();
    object["process"] = ProcessObject(found);
    object["quiet_s"] =
        view.progress().watched() && !found.ended() ? Json(static_cast<double>(found.idle_ms()) / 1000) : Json();
    object["last_output"] = found.last_output();
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster::cli
