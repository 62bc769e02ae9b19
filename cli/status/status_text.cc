#include "cli/status/status_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/text/text.h"
#include "base/wire/time_spent.h"
#include "cli/status/name_ranges.h"
#include "rendezvous/web/view_words.h"

namespace muster::cli {
namespace {

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

std::string Counted(int64_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// "ranks 8-15", "rank 3"
std::string RanksOf(const Node& node) {
  const int last = node.first_rank() + node.workers() - 1;
  return node.workers() == 1 ? absl::StrCat("rank ", last) : absl::StrCat("ranks ", node.first_rank(), "-", last);
}

std::string WhoDecides(const View& view) {
  if (view.coordinator_alone()) return "a coordinator of its own";
  return view.coordinator().empty() ? "a node that has not attached yet" : OneLine(view.coordinator());
}

// "1,200"
std::string Thousands(int64_t number) {
  std::string digits = absl::StrCat(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string Pace(int64_t rate) {
  const double pace = rendezvous::PerMinute(rate);
  return pace < 10 ? absl::StrFormat("%.1f", pace) : Thousands(std::lround(pace));
}

std::string Steps(const v1::Progress& progress) {
  const bool differ = progress.slowest_step() > 0 && progress.slowest_step() < progress.median_step();
  return absl::StrCat(
      "step ", Thousands(progress.median_step()),
      differ ? absl::StrCat(" (rank ", progress.slowest_rank(), ": ", Thousands(progress.slowest_step()), ")")
             : "");
}

std::string PaceNow(const v1::Progress& progress) {
  const char* const what = progress.by_touches() ? " heartbeats" : " steps";
  std::string now = progress.rate() == 0 ? "" : absl::StrCat(Pace(progress.rate()), what, " a minute");
  if (progress.hour_rate() == 0) return now;
  const std::string span = absl::StrCat("on average in the last ", Age(progress.hour_ms()));
  return now.empty() ? absl::StrCat(Pace(progress.hour_rate()), what, " a minute ", span)
                     : absl::StrCat(now, " (", Pace(progress.hour_rate()), " ", span, ")");
}

std::string WhatItDoes(const View& view) {
  const std::string size = absl::StrCat(Counted(view.round().world_size(), "worker"), " on ",
                                        Counted(view.round().node_count(), "node"));
  std::string waits = absl::StrCat("waits for nodes for ", Age(view.state_ms()), ": ", OneLine(view.reason()));
  switch (view.state()) {
    case View::STATE_RECOVERING:
      if (view.nodes().empty()) return absl::StrCat("waits for its first nodes, for ", Age(view.state_ms()));
      // Where nobody reports a round, it is a start like any other for a person.
      if (!view.has_round()) return waits;
      return absl::StrCat("has a new coordinator, which finds out what runs, for ", Age(view.state_ms()));
    case View::STATE_GATHERING:
      return waits;
    case View::STATE_RUNNING:
      return absl::StrCat("runs: ", size, ", round ", view.round().number(),
                          view.round().has_age_ms() ? absl::StrCat(" for ", Age(view.round().age_ms()))
                                                    : absl::StrCat(", taken over ", Age(view.state_ms()), " ago"));
    case View::STATE_DRAINING:
      return absl::StrCat("ends round ", view.round().number(), " for ", Age(view.state_ms()), ": ",
                          OneLine(view.reason()));
    case View::STATE_ENDING:
      return absl::StrCat("is over, exit code ", view.exit_code(), ": ", OneLine(view.reason()));
    default:
      return "is in an unknown state";
  }
}

}  // namespace

std::string Brief(int64_t ms) { return ms < 10'000 ? absl::FormatDuration(absl::Milliseconds(ms)) : Age(ms); }

void AppendRow(const char* title, const std::string& text, std::string* out) {
  absl::StrAppendFormat(out, "%-10s %s\n", title, text);
}

int CodeOf(const View& view) { return rendezvous::IsWell(view) ? 0 : kExitAttention; }

std::string Headline(const View& view) {
  return absl::StrCat("job ", OneLine(view.run_id()), " ", WhatItDoes(view));
}

std::string ProgressLine(const View& view) {
  const v1::Progress& progress = view.progress();
  std::vector<std::string> words;
  if (progress.ranks() > 0) words.push_back(Steps(progress));
  if (progress.has_quiet_ms())
    words.push_back(absl::StrCat("last sign of life ", Age(progress.quiet_ms()), " ago"));
  if (std::string pace = PaceNow(progress); !pace.empty()) {
    words.push_back(std::move(pace));
  } else if (progress.watched() && progress.ranks() == 0) {
    words.emplace_back("no worker shows steps yet");
  }
  if (progress.has_progress_file_ms())
    words.push_back(absl::StrCat("progress file touched ", Age(progress.progress_file_ms()), " ago"));
  return words.empty() ? "not watched (--hang-timeout auto would): muster stacks shows where each rank stands"
                       : absl::StrJoin(words, ", ");
}

std::string RestartsLine(const View& view) {
  const v1::Budgets& left = view.left();
  return absl::StrCat(left.restarts_so_far(), " so far; left: ", left.restarts(), " of ", left.max_restarts(),
                      " worker failures, ", left.node_losses(), " of ", left.max_node_losses(), " node losses");
}

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

size_t WidestName(const View& view) {
  size_t widest = 0;
  for (const Node& node : view.nodes()) widest = std::max(widest, OneLine(node.hostname()).size());
  return widest;
}

std::string NodeLine(const Node& node, size_t widest) {
  std::vector<std::string> words = {rendezvous::PhaseOf(node.phase())};
  if (!node.connected()) words.emplace_back("not connected");
  if (!node.trouble().empty()) words.push_back(OneLine(node.trouble()));
  if (node.step() > 0) words.push_back(absl::StrCat("step ", Thousands(node.step())));
  if (node.has_quiet_ms()) words.push_back(absl::StrCat("sign of life ", Age(node.quiet_ms()), " ago"));
  words.push_back(absl::StrCat("heard ", Age(node.heard_ms()), " ago"));
  if (node.live_workers() > 0) words.push_back(absl::StrCat(Counted(node.live_workers(), "worker"), " alive"));
  if (node.restarts_caused() > 0)
    words.push_back(absl::StrCat("caused ", Counted(node.restarts_caused(), "restart")));
  const std::string rank = node.has_node_rank() ? absl::StrCat(node.node_rank()) : "-";
  const std::string ranks = node.has_node_rank() ? RanksOf(node) : "";
  return absl::StrFormat("%4s %-*s %-10s %s", rank, static_cast<int>(widest), OneLine(node.hostname()), ranks,
                         absl::StrJoin(words, ", "));
}

std::string StatusText(const View& view, bool each_node) {
  std::string out = absl::StrCat(CodeOf(view) == 0 ? "well: " : "ATTENTION: ", Headline(view), "\n");
  if (view.state() == View::STATE_RUNNING && view.has_progress()) AppendRow("progress", ProgressLine(view), &out);
  for (const std::string& odd : view.odd()) absl::StrAppend(&out, "  ! ", OneLine(odd), "\n");
  std::map<Node::Part, std::vector<std::string>> names;
  for (const Node& node : view.nodes()) names[node.part()].push_back(OneLine(node.hostname()));
  for (const PartTitle& part : kParts) {
    if (const auto found = names.find(part.part); found != names.end())
      AppendRow(part.title,
                absl::StrCat(Counted(static_cast<int64_t>(found->second.size()), "node"), ": ",
                             NameRanges(found->second)),
                &out);
  }
  if (!view.missing().empty()) AppendRow("missing", OneLine(absl::StrJoin(view.missing(), ", ")), &out);
  AppendRow("restarts", RestartsLine(view), &out);
  for (const std::string& round : EndedRounds(view, each_node ? view.ended_size() : kRoundsShown))
    AppendRow("", round, &out);
  if (view.lost_ms() > 0) AppendRow("lost", absl::StrCat(Brief(view.lost_ms()), " by restarts so far"), &out);
  AppendRow("time", DescribeTime(view.time()), &out);
  AppendRow("decides", absl::StrCat(WhoDecides(view), ", for ", Age(view.coordinator_ms())), &out);
  if (!each_node) return out;
  absl::StrAppend(&out, "\n");
  const size_t widest = WidestName(view);
  for (const Node& node : view.nodes()) absl::StrAppend(&out, NodeLine(node, widest), "\n");
  return out;
}

std::string EndText(const v1::JobEnd& end) {
  return absl::StrCat(end.exit_code() == 0 ? "well: " : "ATTENTION: ", "the job has ended with exit code ",
                      end.exit_code(), ": ", OneLine(end.reason()), "\n");
}

}  // namespace muster::cli
