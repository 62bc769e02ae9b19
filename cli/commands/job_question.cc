#include "cli/commands/job_question.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/core/status_macros.h"
#include "base/core/time.h"
#include "base/io/event_loop.h"
#include "base/io/secret_file.h"
#include "base/proc/proc_scan.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "cli/commands/commands.h"
#include "cli/options/settings.h"
#include "cli/plan/machine.h"
#include "cli/plan/token.h"
#include "cli/status/door_visits.h"
#include "cli/status/remote_view.h"
#include "cli/status/status_text.h"

namespace muster::cli {
namespace {

// The nodes have 9 s (kStackAnswers in rendezvous/core/stack_question.h).
constexpr absl::Duration kStacksLimit = absl::Seconds(12);
constexpr absl::Duration kAskAgain = absl::Milliseconds(250);
constexpr size_t kMaxUserName = 64;
constexpr size_t kOrderIdBytes = 16;
constexpr absl::Duration kLookEvery = absl::Seconds(2);  // whether the coordinator that was asked still decides
constexpr char kRunId[] = "rdzv-id", kEndpoint[] = "endpoint";

// "pid 812: muster run --nnodes 2 train.py": an agent's node is its parent. Empty: it cannot be seen.
std::string StartedAs(pid_t pid) {
  constexpr size_t kMostShown = 100;
  constexpr std::string_view kAgent("\0agent\0", 7);  // behind the name of the program
  absl::StatusOr<std::string> line = muster::CommandLine(pid);
  const size_t program = line.ok() ? line->find('\0') : std::string::npos;
  if (program != std::string::npos && line->find(kAgent) == program) {
    const std::optional<ProcessInfo> agent = muster::ReadProcess(pid);
    if (!agent) return "";
    pid = agent->parent;
    line = muster::CommandLine(pid);
  }
  if (!line.ok() || line->empty()) return "";
  std::replace(line->begin(), line->end(), '\0', ' ');
  const std::string words = OneLine(std::string(absl::StripTrailingAsciiWhitespace(*line)));
  return absl::StrCat("pid ", pid, ": ", CutUtf8(words, kMostShown), words.size() > kMostShown ? "..." : "");
}

std::string LineOf(const JobHere& job) {
  std::string line = absl::StrCat(OneLine(job.run_id), " (", OneLine(job.coordinator), ")");
  if (const std::string first = job.pids.empty() ? "" : StartedAs(job.pids.front()); !first.empty())
    absl::StrAppend(&line, ", ", first);
  return line;
}

// The one job that is meant. Errors say which ones are here.
absl::StatusOr<JobHere> ChosenJob(const std::vector<JobHere>& jobs, const Given<std::string>& run_id) {
  std::vector<JobHere> meant;
  for (const JobHere& job : jobs) {
    if (!run_id || job.run_id == run_id->value) meant.push_back(job);
  }
  if (meant.size() == 1) return meant.front();
  if (jobs.empty()) {
    return absl::UnavailableError(
        "no job of this user has a node here (root sees those of all users): ask on one of its nodes, as with "
        "srun --jobid=ID --overlap -N1 -n1 muster status, kubectl exec POD -- muster status, or docker exec "
        "CONTAINER muster status. A job that has ended: muster status --from FILE, if it wrote one (--events, "
        "--report)");
  }
  const std::string here = absl::StrCat(
      "\n  ", absl::StrJoin(jobs, "\n  ", [](std::string* out, const JobHere& job) { out->append(LineOf(job)); }));
  if (run_id && meant.empty())
    return absl::NotFoundError(
        absl::StrCat("--rdzv-id ", OneLine(run_id->value),
                     ": no such job is here (one that has ended: muster status --from FILE), but:", here));
  if (run_id)
    return absl::AlreadyExistsError(
        absl::StrCat("several jobs with one run id are here, which only --endpoint tells apart:", here));
  return absl::AlreadyExistsError(absl::StrCat("several jobs are here; add the id of one (--rdzv-id):", here));
}

Given<std::string> GivenOf(const CommandLine& line, const char* option) {
  const auto found = line.given.find(option);
  if (found == line.given.end()) return std::nullopt;
  return Setting<std::string>{found->second, Origin::kFlag, absl::StrCat("--", option), found->second};
}

// Over the network only those are answered who have the job's token.
absl::StatusOr<Ask> OverNetwork(const Setting<std::string>& given, const Given<std::string>& run_id,
                                const Given<std::string>& token_file) {
  const absl::StatusOr<HostPort> endpoint = ParseHostPort(given.value);
  if (!endpoint.ok())
    return absl::InvalidArgumentError(absl::StrCat("--endpoint ", given.value, ": ", endpoint.status().message()));
  if (!run_id)
    return absl::InvalidArgumentError("--endpoint needs --rdzv-id, the job's, which belongs to its token");
  ASSIGN_OR_RETURN(const OwnTokens own, TokensOf(token_file, ReadEnvironment(), ReadSecretFile));
  if (own.tokens.empty()) {
    return absl::InvalidArgumentError(
        "--endpoint needs the job's token: --token-file, or MUSTER_TOKEN; without one ask where a node of the job "
        "runs");
  }
  return Ask(
      [given, endpoint = *endpoint, run_id = run_id->value, tokens = own.tokens](const v1::Question& question) {
        const absl::StatusOr<v1::JobView> view = ViewAt(endpoint, run_id, tokens, question);
        return view.ok() ? view : WithContext(view.status(), absl::StrCat("--endpoint ", OneLine(given.value)));
      });
}

struct Job {
  Ask ask;
  std::optional<JobHere> here;  // nullopt: it is asked over the network
};

// The job that the options of this line name.
absl::StatusOr<Job> Chosen(const CommandLine& line) {
  const Given<std::string> run_id = GivenOf(line, kRunId), endpoint = GivenOf(line, kEndpoint);
  if (endpoint) {
    ASSIGN_OR_RETURN(Ask ask, OverNetwork(*endpoint, run_id, GivenOf(line, kTokenFileOption)));
    return Job{std::move(ask), std::nullopt};
  }
  ASSIGN_OR_RETURN(const JobHere job, ChosenJob(JobsHere(), run_id));
  return Job{[job](const v1::Question& question) { return ViewOf(job, question); }, job};
}

// Asks one job until this answer is whole, or for 12 s.
absl::StatusOr<v1::JobView> AskUntil(const Ask& ask, const v1::Question& question,
                                     const std::function<bool(const v1::JobView&)>& is_whole) {
  const BootTime until = EventLoop::Now() + kStacksLimit;
  while (true) {
    absl::StatusOr<v1::JobView> view = ask(question);
    const bool is_late = EventLoop::Now() >= until;
    if (!view.ok() && (is_late || !MayPass(view.status()))) return view;
    if (view.ok() && (is_late || is_whole(*view))) return view;
    absl::SleepFor(kAskAgain);
  }
}

// Stacks, or one rank: nothing more is awaited of them.
template <typename Part>
bool IsWhole(const Part& part) {
  return part.complete() || !part.why_not().empty();
}

// As it calls itself: for people alone.
std::string UserName() {
  if (geteuid() == 0) return "root";
  for (const char* const name : {"USER", "LOGNAME"}) {
    if (const char* const value = std::getenv(name); value != nullptr && *value != '\0')
      return CutUtf8(OneLine(value), kMaxUserName);
  }
  return absl::StrCat("uid ", geteuid());
}

}  // namespace

const std::vector<OptionSpec>& JobOptions() {
  static const auto* const table = new std::vector<OptionSpec>{
      {kRunId, "ID", Group::kOther, kOwn,
       "Of the jobs that are here, the one with this run id. The id alone, without the option, does the same."},
      {kEndpoint, "HOST:PORT", Group::kOther, kOwn,
       "Ask the coordinator at this address instead: the primary's, as --rdzv-endpoint names it. Needs --rdzv-id "
       "and the job's token."},
      {kTokenFileOption, "FILE", Group::kOther, kOwn, "With --endpoint: the job's token. Default: MUSTER_TOKEN."}};
  return *table;
}

absl::StatusOr<CommandLine> ParseQuestion(const std::vector<OptionSpec>& options,
                                          const std::vector<std::string>& words, const std::string& command) {
  ASSIGN_OR_RETURN(CommandLine line, ParseCommandLine(options, words, command));
  if (line.script.empty()) return line;
  ASSIGN_OR_RETURN(CommandLine rest, ParseCommandLine(options, line.script_arguments, command));
  if (!rest.script.empty() || line.given.contains(kRunId) || rest.given.contains(kRunId))
    return absl::InvalidArgumentError(absl::StrCat(OneLine(rest.script.empty() ? line.script : rest.script), ": ",
                                                   command, " takes the id of one job"));
  rest.given.merge(line.given);
  rest.given[kRunId] = line.script;
  rest.help |= line.help;
  return rest;
}

std::string ValueIn(const CommandLine& line, const char* option) {
  const auto found = line.given.find(option);
  return found == line.given.end() ? "" : found->second;
}

std::string IdIn(const CommandLine& line) { return ValueIn(line, kRunId); }

bool AsksOverNetwork(const CommandLine& line) { return line.given.contains(kEndpoint); }

absl::StatusOr<v1::JobView> AskJob(const CommandLine& line, const v1::Question& question) {
  ASSIGN_OR_RETURN(const Job job, Chosen(line));
  return job.ask(question);
}

absl::StatusOr<v1::JobView> AskForStacks(const CommandLine& line) {
  v1::Question question;
  question.set_kind(v1::Question::KIND_STACKS);
  ASSIGN_OR_RETURN(const Job job, Chosen(line));
  ASSIGN_OR_RETURN(v1::JobView view, AskUntil(job.ask, question, [](const v1::JobView& answer) {
                     return !answer.has_stacks() || IsWhole(answer.stacks());
                   }));
  if (view.has_stacks()) return view;
  return absl::UnimplementedError("the job runs an older version, which shows no stacks");
}

absl::StatusOr<v1::JobView> AskForRank(const CommandLine& line, int rank) {
  v1::Question question;
  question.set_kind(v1::Question::KIND_RANK);
  question.set_rank(rank);
  ASSIGN_OR_RETURN(const Job job, Chosen(line));
  ASSIGN_OR_RETURN(v1::JobView view, AskUntil(job.ask, question, [](const v1::JobView& answer) {
                     return !answer.has_rank() || IsWhole(answer.rank());
                   }));
  if (view.has_rank()) return view;
  return absl::UnimplementedError("the job runs an older version, which does not show single ranks");
}

absl::StatusOr<OrderToJob> OrderToJob::Prepare(const CommandLine& line) {
  ASSIGN_OR_RETURN(Job job, Chosen(line));
  return OrderToJob(std::move(job.ask), job.here ? std::make_unique<EndVisit>(*job.here) : nullptr);
}

absl::StatusOr<v1::Ordered> OrderToJob::Give(v1::Order order) {
  if (end_ != nullptr) end_->Begin();  // the job may end before this is answered
  ASSIGN_OR_RETURN(const v1::JobView now, AskUntil(ask_, v1::Question(), [](const v1::JobView&) { return true; }));
  if (!now.has_epoch()) return absl::UnimplementedError("the job runs an older version, which takes no orders");
  *order.mutable_epoch() = now.epoch();
  order.set_id(RandomHex(kOrderIdBytes));
  order.set_by(absl::StrCat(UserName(), "@", Hostname()));
  question_.set_kind(v1::Question::KIND_ORDER);
  *question_.mutable_order() = std::move(order);
  ASSIGN_OR_RETURN(const v1::JobView view,
                   AskUntil(ask_, question_, [](const v1::JobView& answer) { return answer.ordered().done(); }));
  if (view.ordered().done() && !view.ordered().obeyed()) {
    // Another coordinator cannot know whether the one before it obeyed.
    const absl::StatusOr<v1::JobView> later = ask_(v1::Question());
    const v1::Epoch& meant = question_.order().epoch();
    if (later.ok() && Compare(later->epoch(), meant) != 0)
      return absl::AbortedError(OneLine(view.ordered().text()));
  }
  if (view.ordered().done()) return view.ordered();
  return absl::DeadlineExceededError(
      absl::StrCat("it is not known what became of the order: ", OneLine(view.ordered().text())));
}

// A coordinator that takes over before the workers have ended knows nothing of the order.
absl::StatusOr<v1::JobEnd> OrderToJob::AwaitEnd() {
  BootTime answered_at = EventLoop::Now();
  while (true) {
    absl::StatusOr<v1::JobEnd> end = end_->Await(kLookEvery);
    if (!absl::IsDeadlineExceeded(end.status())) return end;
    const absl::StatusOr<v1::JobView> now = ask_(question_);
    if (now.ok() && !now->has_exit_code() && !now->ordered().obeyed())
      return absl::AbortedError(OneLine(now->ordered().text()));
    if (now.ok()) answered_at = EventLoop::Now();
    if (EventLoop::Now() >= answered_at + kPatience) return now.status();
  }
}

absl::StatusOr<v1::JobEnd> AwaitEnd(const CommandLine& line) {
  const BootTime until = EventLoop::Now() + kPatience;
  absl::StatusOr<JobHere> job = ChosenJob(JobsHere(), GivenOf(line, kRunId));
  while (!job.ok() && MayCome(job.status()) && EventLoop::Now() < until) {
    absl::SleepFor(kAskAgain);
    job = ChosenJob(JobsHere(), GivenOf(line, kRunId));
  }
  if (!job.ok()) return job.status();
  return EndVisit(*job).Await(absl::InfiniteDuration());
}

bool MayPass(const absl::Status& why) {
  return absl::IsUnavailable(why) || absl::IsDeadlineExceeded(why) || absl::IsResourceExhausted(why);
}

bool MayCome(const absl::Status& why) { return MayPass(why) || absl::IsNotFound(why); }

// A list of jobs has a line for each.
int CannotTell(const absl::Status& why) {
  const std::vector<std::string> lines = absl::StrSplit(why.message(), '\n');
  const int code = Complain(absl::Status(why.code(), lines.front()));
  for (size_t i = 1; i < lines.size(); ++i) std::fprintf(stderr, "%s\n", OneLine(lines[i]).c_str());
  return absl::IsInvalidArgument(why) || absl::IsFailedPrecondition(why) ? code : kExitCannotTell;
}

}  // namespace muster::cli
