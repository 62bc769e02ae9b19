#include "cli/status/status_text.h"

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/text.h"
#include "cli/status/name_ranges.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;
using View = v1::JobView;
using Node = v1::NodeView;

constexpr int kRoundsShown = 3;
constexpr absl::Duration kDay = absl::Hours(24);

// In the order of the lines for people, with the words in front of the names.
struct PartTitle {
  Node::Part part;
  const char* title;
};
constexpr PartTitle kParts[] = {
    {Node::PART_MEMBER, "train"},       {Node::PART_READY, "ready"},         {Node::PART_SPARE, "spare"},
    {Node::PART_ARRIVING, "not ready"}, {Node::PART_SET_ASIDE, "set aside"}, {Node::PART_STANDBY, "stand by"},
    {Node::PART_OBSERVER, "observe"},
};

// The word for programs: "STATE_RUNNING" without its prefix is "running". name: empty for a value of a later
// version.
std::string KeyOf(const std::string& name, std::string_view prefix) {
  return name.empty() ? "unknown" : absl::AsciiStrToLower(name.substr(prefix.size()));
}

const char* PhaseOf(v1::Phase phase) {
  switch (phase) {
    case v1::PHASE_READY:
      return "ready";
    case v1::PHASE_STARTING:
      return "starting";
    case v1::PHASE_RUNNING:
      return "running";
    case v1::PHASE_STOPPING:
      return "stopping";
    case v1::PHASE_SUCCEEDED:
      return "succeeded";
    case v1::PHASE_FAILED:
      return "failed";
    case v1::PHASE_UNUSABLE:
      return "unusable";
    case v1::PHASE_LEAVING:
      return "leaving";
    case v1::PHASE_HOST_GONE:
      return "gone";
    default:
      return "unknown";
  }
}

// "3h12m", "41s", "2d4h": two units are enough for a person.
std::string Age(int64_t ms) {
  const absl::Duration age = absl::Milliseconds(ms);
  const absl::Duration unit = age >= kDay             ? absl::Hours(1)
                              : age >= absl::Hours(1) ? absl::Minutes(1)
                                                      : absl::Seconds(1);
  const absl::Duration shown = absl::Trunc(age, unit);
  if (shown < kDay) return shown == absl::ZeroDuration() ? "0s" : absl::FormatDuration(shown);
  const int64_t days = shown / kDay;
  const absl::Duration rest = shown - days * kDay;
  return absl::StrCat(days, "d", rest == absl::ZeroDuration() ? "" : absl::FormatDuration(rest));
}

// "240ms" where that is what counts.
std::string Brief(int64_t ms) { return ms < 10'000 ? absl::FormatDuration(absl::Milliseconds(ms)) : Age(ms); }

std::string Counted(int64_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string WhatItDoes(const View& view) {
  const std::string size = absl::StrCat(Counted(view.round().world_size(), "worker"), " on ",
                                        Counted(view.round().node_count(), "node"));
  switch (view.state()) {
    case View::STATE_RECOVERING:
      return absl::StrCat("a new coordinator finds out what runs, for ", Age(view.state_ms()));
    case View::STATE_GATHERING:
      return absl::StrCat("waits for nodes for ", Age(view.state_ms()), ": ", OneLine(view.reason()));
    case View::STATE_RUNNING:
      return absl::StrCat(view.round().has_age_ms()
                              ? absl::StrCat("runs for ", Age(view.round().age_ms()))
                              : absl::StrCat("runs, taken over ", Age(view.state_ms()), " ago"),
                          ": ", size, ", round ", view.round().number());
    case View::STATE_DRAINING:
      return absl::StrCat("ends round ", view.round().number(), " for ", Age(view.state_ms()), ": ",
                          OneLine(view.reason()));
    case View::STATE_ENDING:
      return absl::StrCat("is over, exit code ", view.exit_code(), ": ", OneLine(view.reason()));
    default:
      return "is in an unknown state";
  }
}

void Row(const char* title, const std::string& text, std::string* out) {
  absl::StrAppendFormat(out, "%-10s %s\n", title, text);
}

std::string WhoDecides(const View& view) {
  if (view.coordinator_alone()) return "a coordinator of its own";
  return view.coordinator().empty() ? "a node that has not attached yet" : OneLine(view.coordinator());
}

std::string BudgetsLeft(const View& view) {
  const v1::Budgets& left = view.left();
  return absl::StrCat(left.restarts_so_far(), " so far; left: ", left.restarts(), " of ", left.max_restarts(),
                      " worker failures, ", left.node_losses(), " of ", left.max_node_losses(), " node losses");
}

// The newest rounds that ended, the newest first.
std::vector<std::string> EndedRounds(const View& view, int most) {
  std::vector<std::string> lines;
  for (int i = view.ended_size() - 1; i >= 0 && static_cast<int>(lines.size()) < most; --i) {
    const v1::EndedRound& round = view.ended(i);
    const std::string cost = round.lost_ms() > 0 ? absl::StrCat(", then ", Brief(round.lost_ms()), " lost") : "";
    const std::string ran = round.has_ran_ms() ? absl::StrCat("ran ", Age(round.ran_ms())) : "ran";
    lines.push_back(absl::StrCat("round ", round.number(), ", ", Age(round.age_ms()), " ago: ", ran, cost, ": ",
                                 OneLine(round.cause())));
  }
  return lines;
}

std::string NodeLine(const Node& node) {
  std::vector<std::string> words = {PhaseOf(node.phase())};
  if (node.live_workers() > 0) words.push_back(absl::StrCat(Counted(node.live_workers(), "worker"), " alive"));
  words.push_back(absl::StrCat("heard ", Age(node.heard_ms()), " ago"));
  if (node.has_quiet_ms()) words.push_back(absl::StrCat("sign of life ", Age(node.quiet_ms()), " ago"));
  if (!node.connected()) words.emplace_back("not connected");
  if (!node.trouble().empty()) words.push_back(OneLine(node.trouble()));
  const std::string rank = node.has_node_rank() ? absl::StrCat(node.node_rank()) : "-";
  const std::string ranks =
      node.has_node_rank() ? absl::StrCat("ranks ", node.first_rank(), "-", node.first_rank() + node.workers() - 1)
                           : "";
  return absl::StrFormat("%6s %-24s %-16s %s\n", rank, OneLine(node.hostname()), ranks,
                         absl::StrJoin(words, ", "));
}

std::string Rfc3339(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

Json NodeObject(const Node& node, absl::Time now) {
  Json object;
  object["host"] = node.hostname();
  object["host_id"] = node.host_id();
  object["part"] = KeyOf(Node::Part_Name(node.part()), "PART_");
  object["phase"] = PhaseOf(node.phase());
  object["node_rank"] = node.has_node_rank() ? Json(node.node_rank()) : Json();
  object["place"] = node.has_place() ? Json(node.place()) : Json();
  object["first_rank"] = node.has_node_rank() ? Json(node.first_rank()) : Json();
  object["workers"] = node.workers();
  object["live_workers"] = node.live_workers();
  object["connected"] = node.connected();
  object["heard"] = Rfc3339(now - absl::Milliseconds(node.heard_ms()));
  object["sign_of_life"] = node.has_quiet_ms() ? Json(Rfc3339(now - absl::Milliseconds(node.quiet_ms()))) : Json();
  object["set_aside_until"] =
      node.set_aside_ms() > 0 ? Json(Rfc3339(now + absl::Milliseconds(node.set_aside_ms()))) : Json();
  object["trouble"] = node.trouble().empty() ? Json() : Json(node.trouble());
  object["version"] = node.version();
  return object;
}

Json RoundObject(const View& view, absl::Time now) {
  if (!view.has_round()) return {};
  const v1::RoundView& round = view.round();
  Json object;
  object["number"] = round.number();
  object["started"] = round.has_age_ms() ? Json(Rfc3339(now - absl::Milliseconds(round.age_ms()))) : Json();
  object["node_count"] = round.node_count();
  object["world_size"] = round.world_size();
  object["restart_count"] = round.restart_count();
  object["master"] = round.master();
  return object;
}

Json EndedObjects(const View& view, absl::Time now) {
  Json list = Json::array();
  for (const v1::EndedRound& round : view.ended()) {
    list.push_back({{"round", round.number()},
                    {"kind", KeyOf(v1::EndedRound::Kind_Name(round.kind()), "KIND_")},
                    {"cause", round.cause()},
                    {"trouble", Rfc3339(now - absl::Milliseconds(round.age_ms()))},
                    {"ran_s", round.has_ran_ms() ? Json(static_cast<double>(round.ran_ms()) / 1000) : Json()},
                    {"lost_s", static_cast<double>(round.lost_ms()) / 1000}});
  }
  return list;
}

Json TextsOf(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back(text);
  return list;
}

}  // namespace

int CodeOf(const View& view) {
  const bool runs = view.state() == View::STATE_RUNNING && view.odd().empty();
  const bool has_succeeded = view.state() == View::STATE_ENDING && view.exit_code() == 0;
  return runs || has_succeeded ? 0 : kExitAttention;
}

std::string StatusText(const View& view, bool each_node) {
  std::string out = absl::StrCat(CodeOf(view) == 0 ? "well: " : "ATTENTION: ", "job ", OneLine(view.run_id()), " ",
                                 WhatItDoes(view), "\n");
  for (const std::string& odd : view.odd()) absl::StrAppend(&out, "  ! ", OneLine(odd), "\n");
  std::map<Node::Part, std::vector<std::string>> names;
  for (const Node& node : view.nodes()) names[node.part()].push_back(OneLine(node.hostname()));
  for (const PartTitle& part : kParts) {
    if (const auto found = names.find(part.part); found != names.end())
      Row(part.title, absl::StrCat(found->second.size(), ": ", NameRanges(found->second)), &out);
  }
  if (!view.missing().empty()) Row("missing", OneLine(absl::StrJoin(view.missing(), ", ")), &out);
  Row("restarts", BudgetsLeft(view), &out);
  for (const std::string& round : EndedRounds(view, each_node ? view.ended_size() : kRoundsShown))
    Row("", round, &out);
  if (view.lost_ms() > 0) Row("lost", absl::StrCat(Brief(view.lost_ms()), " by restarts so far"), &out);
  Row("decides", absl::StrCat(WhoDecides(view), ", for ", Age(view.coordinator_ms())), &out);
  if (!each_node) return out;
  absl::StrAppend(&out, "\n");
  for (const Node& node : view.nodes()) absl::StrAppend(&out, NodeLine(node));
  return out;
}

std::string StatusJson(const View& view, absl::Time now) {
  Json object;
  object["run_id"] = view.run_id();
  object["well"] = CodeOf(view) == 0;
  object["state"] = KeyOf(View::State_Name(view.state()), "STATE_");
  object["since"] = Rfc3339(now - absl::Milliseconds(view.state_ms()));
  object["reason"] = view.reason().empty() ? Json() : Json(view.reason());
  object["odd"] = TextsOf(view.odd());
  object["round"] = RoundObject(view, now);
  object["min_nodes"] = view.min_nodes();
  object["max_nodes"] = view.max_nodes();
  Json nodes = Json::array();
  for (const Node& node : view.nodes()) nodes.push_back(NodeObject(node, now));
  object["nodes"] = std::move(nodes);
  object["missing"] = TextsOf(view.missing());
  object["left"] = {{"max_restarts", view.left().max_restarts()},
                    {"restarts", view.left().restarts()},
                    {"max_node_losses", view.left().max_node_losses()},
                    {"node_losses", view.left().node_losses()}};
  object["ended"] = EndedObjects(view, now);
  object["ended_before"] = view.ended_before();
  object["lost_s"] = static_cast<double>(view.lost_ms()) / 1000;
  object["exit_code"] = view.has_exit_code() ? Json(view.exit_code()) : Json();
  object["coordinator"] = view.coordinator().empty() ? Json() : Json(view.coordinator());
  object["coordinator_since"] = Rfc3339(now - absl::Milliseconds(view.coordinator_ms()));
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster::cli
