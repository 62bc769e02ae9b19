// `muster events`: what happened to a job?
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/core/note.h"
#include "base/core/status_macros.h"
#include "base/text/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/commands/job_question.h"
#include "cli/commands/watch_command.h"
#include "cli/options/command_line.h"
#include "cli/status/events_text.h"
#include "cli/status/status_text.h"
#include "rendezvous/web/event_json.h"

namespace muster::cli {
namespace {

constexpr char kJson[] = "json", kFollow[] = "follow";
constexpr absl::Duration kFollowEvery = absl::Milliseconds(250);  // between two looks

absl::StatusOr<v1::JobView> AskForEvents(const CommandLine& line) {
  v1::Question question;
  question.set_kind(v1::Question::KIND_EVENTS);
  absl::StatusOr<v1::JobView> view = AskJob(line, question);
  if (view.ok() && !view->has_events())
    return absl::UnimplementedError("the job runs an older version, which shows no events");
  return view;
}

std::string Shown(const std::string& run_id, const v1::Events& events, bool json) {
  const absl::Time now = absl::Now();
  if (!json) return EventsText(events, now, absl::LocalTimeZone());
  std::string out;
  for (const v1::Event& event : events.newest())
    absl::StrAppend(&out, rendezvous::EventJson(event, run_id, now), "\n");
  return out;
}

// The end itself is an event that only the nodes see.
v1::Events EventsOf(const v1::JobEnd& end) {
  v1::Events events;
  v1::Event* const last = events.add_newest();
  last->set_name(events::kJobEnded);
  last->set_text(absl::StrCat("exit code ", end.exit_code(), ": ", end.reason()));
  last->set_is_bad(end.exit_code() != 0);
  last->set_exit_code(end.exit_code());
  return events;
}

int Follow(const CommandLine& line, bool json) {
  WatchAsks asks;  // called on threads that may outlive this call
  asks.view = [line] { return AskForEvents(line); };
  if (!AsksOverNetwork(line)) asks.end = [line] { return AwaitEnd(line); };
  ShownEvents shown;
  std::string run_id;
  return WatchAsText(
      asks, kFollowEvery,
      [&](const v1::JobView& view) {
        run_id = view.run_id();
        v1::Events news = view.events();
        shown.KeepNew(&news);
        return Shown(run_id, news, json);
      },
      [&](const v1::JobEnd& end) {
        v1::Events last = end.last();
        shown.KeepNew(&last);
        const int printed = Print(absl::StrCat(Shown(run_id, last, json), Shown(run_id, EventsOf(end), json)));
        return printed != 0 ? printed : end.exit_code() == 0 ? 0 : kExitAttention;
      });
}

}  // namespace

const std::vector<OptionSpec>& EventsOptions() {
  static const auto* const table = [] {
    auto* const own = new std::vector<OptionSpec>{
        {kFollow, "", Group::kOther, kOwn, "Go on with new ones, until the job has ended."},
        {kJson, "", Group::kOther, kOwn,
         "Print a JSON object for each (docs/events.md) instead of a line for people."}};
    own->insert(own->end(), JobOptions().begin(), JobOptions().end());
    return own;
  }();
  return *table;
}

std::string EventsHelp() {
  std::string out = R"(Usage: muster events [--follow] [--json] [ID]
       muster events --endpoint HOST:PORT --rdzv-id ID [--token-file FILE]

Says what has happened to a running job, the oldest first: which rounds began
and ended, which workers failed, which nodes were lost, what recoveries took.
The newest 1,000 events are kept. To be called where a node or the coordinator
of the job runs, by its user or root. Once it has ended: muster status --from
FILE, if it wrote one with --events.
)";
  AppendGroup(EventsOptions(), Group::kOther, "Options", &out);
  out += R"(
Exit codes:
  0    they were printed; with --follow: the job has ended well
  1    with --follow: the job has failed
  2    it cannot be told: no job is here, or its coordinator does not answer;
       with --follow and --endpoint also after the end of the job
  64   wrong command line
)";
  return out;
}

int EventsCommand(const Invocation& invocation) {
  const auto line = ParseQuestion(EventsOptions(), invocation.arguments, "muster events");
  if (!line.ok()) return Complain(line.status());
  if (line->help) return Print(EventsHelp());
  const bool json = line->given.contains(kJson);
  if (line->given.contains(kFollow)) return Follow(*line, json);
  const absl::StatusOr<v1::JobView> view = AskForEvents(*line);
  if (!view.ok()) return CannotTell(view.status());
  if (!json && view->events().newest().empty()) std::fputs("muster: nothing has happened so far\n", stderr);
  return Print(Shown(view->run_id(), view->events(), json));
}

}  // namespace muster::cli
