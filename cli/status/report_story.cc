#include "cli/status/report_story.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/core/note.h"
#include "base/core/status_macros.h"
#include "base/text/text.h"
#include "base/wire/time_spent.h"
#include "cli/status/events_text.h"
#include "cli/status/status_text.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using Json = nlohmann::json;

constexpr int kRoundsShown = 10;

// The report that a text is; nullopt: none.
std::optional<Json> ReportIn(std::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  const bool is_one = json.is_object() && !json.contains("event") && json.contains("exit_code") &&
                      json["exit_code"].is_number_integer();
  return is_one ? std::optional(std::move(json)) : std::nullopt;
}

// A report of an older version may lack a field, and a file may hold anything.
std::string TextAt(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end()) return "";
  return found->is_string() ? OneLine(found->get<std::string>()) : found->is_number() ? found->dump() : "";
}

std::optional<Json> NewestReport(std::string_view reports, std::string_view run_id) {
  const auto is_meant = [run_id](const Json& report) {
    return run_id.empty() || TextAt(report, "run_id") == run_id;
  };
  if (std::optional<Json> whole = ReportIn(reports)) return is_meant(*whole) ? whole : std::nullopt;
  const std::vector<absl::string_view> lines = absl::StrSplit(AsAbsl(reports), '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (std::optional<Json> one = ReportIn(AsStd(*line)); one && is_meant(*one)) return one;
  }
  return std::nullopt;
}

double NumberAt(const Json& object, const char* name) {
  if (!object.is_object()) return 0;
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

int64_t MillisecondsAt(const Json& object, const char* name) {
  constexpr double kMost = 1e15;
  return static_cast<int64_t>(std::min(kMost, std::max(0.0, NumberAt(object, name) * 1'000)));
}

const Json& At(const Json& object, const char* name) {
  static const auto* const none = new Json();
  if (!object.is_object()) return *none;
  const auto found = object.find(name);
  return found == object.end() ? *none : *found;
}

std::string Counted(const std::string& count, const char* what) {
  return absl::StrCat(count, " ", what, count == "1" ? "" : "s");
}

std::string ClockAt(const Json& object, const char* name) {
  const absl::Time time = absl::FromUnixMillis(MillisecondsAt(object, name));
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::LocalTimeZone());
}

std::string FirstFailure(const Json& failure) {
  const std::string rank = TextAt(failure, "rank");
  const std::string signal = TextAt(failure, "signal");
  std::string message = TextAt(failure, "message");
  return absl::StrCat(rank.empty() ? "" : absl::StrCat("rank ", rank, " on "), TextAt(failure, "host"), ": ",
                      signal.empty() ? absl::StrCat("exit code ", TextAt(failure, "exitcode")) : signal,
                      message.empty() ? "" : ": ", message);
}

v1::TimeSpent TimeIn(const Json& object) {
  v1::TimeSpent time;
  time.set_counted_ms(MillisecondsAt(object, "counted_s"));
  time.set_waiting_ms(MillisecondsAt(object, "waiting_s"));
  time.set_restarting_ms(MillisecondsAt(object, "restarting_s"));
  time.set_starting_ms(MillisecondsAt(object, "starting_s"));
  time.set_warming_up_ms(MillisecondsAt(object, "warming_up_s"));
  time.set_stepping_ms(MillisecondsAt(object, "stepping_s"));
  time.set_repeating_ms(MillisecondsAt(object, "repeating_s"));
  time.set_running_ms(MillisecondsAt(object, "running_s"));
  time.set_stalled_ms(MillisecondsAt(object, "stalled_s"));
  const Json& repeated = At(object, "repeated");
  time.set_repeated_round(static_cast<uint64_t>(MillisecondsAt(repeated, "round") / 1'000));
  time.set_repeated_from(MillisecondsAt(repeated, "from") / 1'000);
  time.set_repeated_to(MillisecondsAt(repeated, "to") / 1'000);
  return time;
}

void AddRestarts(const Json& restarts, std::string* out) {
  const Json& newest = At(restarts, "newest");
  const size_t count = newest.is_array() ? newest.size() : 0;
  const auto earlier = static_cast<int64_t>(NumberAt(restarts, "earlier"));
  AppendRow("restarts", absl::StrCat(static_cast<int64_t>(count) + earlier), out);
  for (size_t i = count; i > 0 && count - i < static_cast<size_t>(kRoundsShown); --i) {
    const Json& round = newest[i - 1];
    AppendRow("",
              absl::StrCat("round ", TextAt(round, "round"), ": ran ", Brief(MillisecondsAt(round, "ran_s")),
                           ", then ", Brief(MillisecondsAt(round, "lost_s")), " lost: ", TextAt(round, "cause")),
              out);
  }
  if (count > 0) AppendRow("lost", absl::StrCat(Brief(MillisecondsAt(restarts, "lost_s")), " by restarts"), out);
}

// The events of the newest run in a file of --events, or of the newest one with this id.
v1::JobView EventsIn(std::string_view file, std::string_view only) {
  v1::JobView view;
  for (const absl::string_view line : absl::StrSplit(AsAbsl(file), '\n', absl::SkipEmpty())) {
    const Json object = Json::parse(line.begin(), line.end(), nullptr, false);
    absl::Time at;
    if (!absl::ParseTime(absl::RFC3339_full, TextAt(object, "time"), &at, nullptr)) continue;
    v1::Event event;
    event.set_name(TextAt(object, "event"));
    event.set_text(TextAt(object, "message"));
    event.set_is_bad(TextAt(object, "severity") != "INFO");
    event.set_wall_ms(absl::ToUnixMillis(at));
    const std::string run_id = TextAt(object, "run_id");
    if (event.name().empty() || run_id.empty() || (!only.empty() && run_id != only)) continue;
    const auto& before = view.events().newest();
    const bool is_next =
        event.name() == events::kRoundStarted && !before.empty() && before.rbegin()->name() == events::kVerdict;
    if (run_id != view.run_id() || is_next) view.clear_events();
    view.set_run_id(run_id);
    *view.mutable_events()->add_newest() = std::move(event);
  }
  return view;
}

std::optional<Story> StoryOfEvents(std::string_view file, std::string_view run_id) {
  const v1::JobView view = EventsIn(file, run_id);
  if (!view.has_events()) return std::nullopt;
  Story story;
  story.exit_code = kExitAttention;
  std::string verdict = " has no verdict in this file";
  for (const v1::Event& event : view.events().newest()) {
    if (event.name() == events::kLeaving) verdict = absl::StrCat(" has no verdict in this file: ", event.text());
    if (event.name() != events::kVerdict) continue;
    verdict = absl::StrCat(" has ended: ", event.text());
    story.exit_code = event.is_bad() ? kExitAttention : 0;
  }
  story.text = absl::StrCat(story.exit_code == 0 ? "well: " : "ATTENTION: ", "job ", view.run_id(), verdict, "\n",
                            EventsText(view.events(), absl::UnixEpoch(), absl::LocalTimeZone()));
  return story;
}

}  // namespace

absl::StatusOr<Story> StoryOf(std::string_view file, std::string_view run_id) {
  const std::optional<Json> report = NewestReport(file, run_id);
  if (!report) {
    if (const std::optional<Story> story = StoryOfEvents(file, run_id)) return *story;
    return absl::InvalidArgumentError(
        absl::StrCat("it has neither a report of muster (--report) nor events (--events)",
                     run_id.empty() ? "" : " of this job"));
  }
  Story story;
  story.exit_code = (*report)["exit_code"].get<int>();
  story.text = absl::StrCat(story.exit_code == 0 ? "well: " : "ATTENTION: ", "job ", TextAt(*report, "run_id"),
                            " has ended with exit code ", story.exit_code, ": ", TextAt(*report, "reason"), "\n");
  const int64_t ran = MillisecondsAt(*report, "ended") - MillisecondsAt(*report, "started");
  AppendRow("ran",
            absl::StrCat(Brief(std::max<int64_t>(0, ran)), ", from ", ClockAt(*report, "started"), " to ",
                         ClockAt(*report, "ended"), ", by the clock of ", TextAt(*report, "host")),
            &story.text);
  const Json& round = At(*report, "round");
  if (round.is_object()) {
    AppendRow(
        "round",
        absl::StrCat(TextAt(round, "number"), " was the last: ", Counted(TextAt(round, "world_size"), "worker"),
                     " on ", Counted(TextAt(round, "node_count"), "node")),
        &story.text);
  }
  if (const Json& cause = At(*report, "root_cause"); cause.is_object()) {
    AppendRow("first", FirstFailure(cause), &story.text);
    if (const std::string hint = TextAt(cause, "hint"); !hint.empty()) AppendRow("", hint, &story.text);
  }
  AddRestarts(At(*report, "restarts"), &story.text);
  if (const Json& time = At(*report, "time"); time.is_object())
    AppendRow("time", DescribeTime(TimeIn(time)), &story.text);
  return story;
}

}  // namespace muster::cli
