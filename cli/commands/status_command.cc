// `muster status`: is the job well, and where does it stand?
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/core/status_macros.h"
#include "base/core/time.h"
#include "base/io/event_loop.h"
#include "base/io/whole_file.h"
#include "base/text/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/commands/job_question.h"
#include "cli/commands/watch_command.h"
#include "cli/options/command_line.h"
#include "cli/status/rank_text.h"
#include "cli/status/report_story.h"
#include "cli/status/status_text.h"
#include "rendezvous/web/status_json.h"

namespace muster::cli {
namespace {

constexpr char kJson[] = "json", kVerbose[] = "verbose", kWait[] = "wait", kWatch[] = "watch", kFrom[] = "from",
               kRank[] = "rank";
constexpr char kRunning[] = "running", kEnded[] = "ended";
constexpr absl::Duration kAskAgain = absl::Seconds(1);

int Show(const v1::JobView& view, const CommandLine& line) {
  const bool each_node = line.given.contains(kVerbose);
  const int printed =
      Print(line.given.contains(kJson) ? rendezvous::StatusJson(view, absl::Now()) : StatusText(view, each_node));
  return printed != 0 ? printed : CodeOf(view);
}

int ShowRank(const std::string& text, const CommandLine& line) {
  const absl::StatusOr<int> rank = ParseRank(text);
  if (!rank.ok()) return Complain(rank.status());
  const absl::StatusOr<v1::JobView> view = AskForRank(line, *rank);
  if (!view.ok()) return CannotTell(view.status());
  const int printed = Print(line.given.contains(kJson) ? RankJson(*view) : RankText(*view));
  return printed != 0 ? printed : CodeOfRank(*view);
}

int ShowEnd(const v1::JobEnd& end, const CommandLine& line) {
  const int printed = Print(line.given.contains(kJson) ? rendezvous::EndJson(end) : EndText(end));
  return printed != 0 ? printed : end.exit_code() == 0 ? 0 : kExitAttention;
}

// Once a round runs, or none will. A job that has not begun is awaited, too.
int WaitUntilItRuns(const CommandLine& line) {
  BootTime answered_at = EventLoop::Now();
  bool is_reported = false;
  while (true) {
    const absl::StatusOr<v1::JobView> view = AskJob(line, v1::Question());
    const BootTime now = EventLoop::Now();
    if (!view.ok() && (!MayCome(view.status()) || now >= answered_at + kPatience))
      return CannotTell(view.status());
    if (view.ok()) {
      answered_at = now;
      if (view->state() == v1::JobView::STATE_ENDING) return Show(*view, line);
      if (view->state() == v1::JobView::STATE_RUNNING) {
        (void)Show(*view, line);
        return 0;  // it runs, whatever else is odd
      }
    }
    if (!std::exchange(is_reported, true)) {
      std::fprintf(stderr, "muster: waiting for a round: %s\n",
                   view.ok() ? Headline(*view).c_str() : std::string(AsStd(view.status().message())).c_str());
    }
    absl::SleepFor(kAskAgain);
  }
}

int WaitUntilItEnds(const CommandLine& line) {
  if (AsksOverNetwork(line)) {
    return CannotTell(absl::InvalidArgumentError(
        "--wait ended: only a node of the job tells how that has ended: ask where one runs, without --endpoint"));
  }
  std::fprintf(stderr, "muster: waiting for the end of the job\n");
  const absl::StatusOr<v1::JobEnd> end = AwaitEnd(line);
  return end.ok() ? ShowEnd(*end, line) : CannotTell(end.status());
}

int Watch(const CommandLine& line) {
  WatchAsks asks;  // called on threads that may outlive this call
  asks.view = [line] { return AskJob(line, v1::Question()); };
  asks.stacks = [line] { return AskForStacks(line); };
  if (!AsksOverNetwork(line)) asks.end = [line] { return AwaitEnd(line); };
  const bool json = line.given.contains(kJson);
  if (!json && isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) return WatchOnTerminal(asks);
  return WatchAsText(
      asks, kLookEvery,
      [&line, json](const v1::JobView& view) {
        return json ? rendezvous::StatusJson(view, absl::Now())
                    : StatusText(view, line.given.contains(kVerbose)) + "\n";
      },
      [&line](const v1::JobEnd& end) { return ShowEnd(end, line); });
}

constexpr size_t kMaxReports = 64 * 1024 * 1024;  // bytes of a file, to which many jobs may have appended

// Once a job has ended nobody answers, but its report does.
int TellFrom(const std::string& path, const CommandLine& line) {
  if (line.given.contains(kJson))
    return Complain(absl::InvalidArgumentError("--json: --from prints text; the file itself is JSON"));

  const absl::StatusOr<std::string> reports = ReadWholeFile(path, kMaxReports);
  const absl::StatusOr<Story> story =
      reports.ok() ? StoryOf(*reports, IdIn(line)) : absl::StatusOr<Story>(reports.status());
  if (!story.ok()) {
    Complain(absl::UnavailableError(absl::StrCat("--from ", OneLine(path), ": ", story.status().message())));
    return kExitCannotTell;
  }
  const int printed = Print(story->text);
  return printed != 0 ? printed : story->exit_code == 0 ? 0 : kExitAttention;
}

int Wait(const std::string& state, const CommandLine& line) {
  if (state == kRunning) return WaitUntilItRuns(line);
  if (state == kEnded) return WaitUntilItEnds(line);
  return CannotTell(
      absl::InvalidArgumentError(absl::StrCat("--wait ", OneLine(state), ": expected running or ended")));
}

}  // namespace

const std::vector<OptionSpec>& StatusOptions() {
  static const auto* const table = [] {
    auto* const own = new std::vector<OptionSpec>{
        {kJson, "", Group::kOther, kOwn, "Print one JSON object (docs/status.md) instead of lines for people."},
        {kVerbose, "", Group::kOther, kOwn, "Print a line for each node, too."},
        {kWatch, "", Group::kOther, kOwn,
         "Look each two seconds. On a terminal: a cell or a line for each node, and keys; elsewhere text, or with "
         "--json an object, for each look."},
        {kWait, "STATE", Group::kOther, kOwn,
         "Wait until the job is in this state, and print that. running: a round runs, or the job has ended. "
         "ended: "
         "it has ended; the exit code is 0 if its own is, and 1 if not."},
        {kRank, "RANK", Group::kOther, kOwn,
         "Show this worker: where it stands, and its last 20 lines of output. Only its node is asked."},
        {kFrom, "FILE", Group::kOther, kOwn,
         "Tell how a job went that has ended, from the file that it wrote for --report or --events."}};
    own->insert(own->end(), JobOptions().begin(), JobOptions().end());
    return own;
  }();
  return *table;
}

std::string StatusHelp() {
  std::string out = R"(Usage: muster status [--json] [--verbose] [--watch | --wait STATE]
                     [ID]
       muster status --endpoint HOST:PORT --rdzv-id ID [--token-file FILE]
       muster status --rank RANK [--json] [ID]
       muster status --from FILE

Says whether a running job is well, how fast it makes steps, what is odd, which
nodes it has and which are missing, and what is left of the restarts. To be
called where a node of the job runs, by its user or root; it needs neither a
port nor a secret:

  srun --jobid=ID --overlap -N1 -n1 muster status
  kubectl exec POD -- muster status
  docker exec CONTAINER muster status
)";
  AppendGroup(StatusOptions(), Group::kOther, "Options", &out);
  out += R"(
Exit codes:
  0    the job runs well, or has ended well
  1    it needs attention
  2    it cannot be told: no job is here, or its coordinator does not answer
  64   wrong command line
)";
  return out;
}

int StatusCommand(const Invocation& invocation) {
  const auto line = ParseQuestion(StatusOptions(), invocation.arguments, "muster status");
  if (!line.ok()) return Complain(line.status());
  if (line->help) return Print(StatusHelp());
  if (line->given.contains(kWait) + line->given.contains(kWatch) + line->given.contains(kFrom) +
          line->given.contains(kRank) >
      1)
    return Complain(absl::InvalidArgumentError("--watch, --wait, --rank and --from exclude each other"));
  if (const auto wait = line->given.find(kWait); wait != line->given.end()) return Wait(wait->second, *line);
  if (const auto from = line->given.find(kFrom); from != line->given.end()) return TellFrom(from->second, *line);
  if (const auto rank = line->given.find(kRank); rank != line->given.end()) return ShowRank(rank->second, *line);
  if (line->given.contains(kWatch)) return Watch(*line);
  const absl::StatusOr<v1::JobView> view = AskJob(*line, v1::Question());
  return view.ok() ? Show(*view, *line) : CannotTell(view.status());
}

}  // namespace muster::cli
