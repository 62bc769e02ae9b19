// `muster stop`, `muster restart`, `muster drain` and `muster signal`: what a person orders of a running job.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/exit_codes.h"
#include "base/text/rank_ranges.h"
#include "base/text/signal_name.h"
#include "base/text/text.h"
#include "base/wire/ranges.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/commands/job_question.h"
#include "cli/options/command_line.h"
#include "cli/status/stacks_text.h"
#include "cli/status/status_text.h"
#include "rendezvous/core/options.h"

namespace muster::cli {
namespace {

constexpr char kReason[] = "reason", kCode[] = "code", kRanks[] = "ranks";

// The command's own option, what all orders have, and how the job is found.
std::vector<OptionSpec>* OptionsWith(std::vector<OptionSpec> own) {
  own.push_back({kReason, "TEXT", Group::kOther, kOwn, "For the log, the events and the report."});
  own.insert(own.end(), JobOptions().begin(), JobOptions().end());
  return new std::vector<OptionSpec>(std::move(own));
}

// The words of a command with an operand before the job's id: "drain NODE [ID]". operand: empty for one without.
absl::StatusOr<CommandLine> ParseOrder(const std::vector<OptionSpec>& options, const Invocation& invocation,
                                       const std::string& command, const char* expected, std::string* operand) {
  if (expected == nullptr) return ParseQuestion(options, invocation.arguments, command);
  ASSIGN_OR_RETURN(CommandLine line, ParseCommandLine(options, invocation.arguments, command));
  if (line.help) return line;
  if (line.script.empty()) return absl::InvalidArgumentError(absl::StrCat(command, ": expected ", expected));
  *operand = line.script;
  ASSIGN_OR_RETURN(CommandLine rest, ParseQuestion(options, line.script_arguments, command));
  if (!IdIn(line).empty() && !IdIn(rest).empty())
    return absl::InvalidArgumentError(
        absl::StrCat(OneLine(IdIn(rest)), ": ", command, " takes the id of one job"));
  rest.given.merge(line.given);
  return rest;
}

int NotDone(const std::string& why) {
  std::fprintf(stderr, "muster: not done: %s\n", OneLine(why).c_str());
  return kExitAttention;
}

// As much as the coordinator takes of it.
absl::StatusOr<std::string> ReasonIn(const CommandLine& line) {
  const std::string reason = ValueIn(line, kReason);
  if (reason.size() <= rendezvous::kMaxForeignText && OneLine(reason) == reason) return reason;
  return absl::InvalidArgumentError(
      absl::StrCat("--reason: expected one line of text of at most ", rendezvous::kMaxForeignText, " bytes"));
}

// Gives the order and says what becomes of it.
int Order(const CommandLine& line, v1::Order order) {
  const absl::StatusOr<std::string> reason = ReasonIn(line);
  if (!reason.ok()) return Complain(reason.status());
  order.set_reason(*reason);
  absl::StatusOr<OrderToJob> job = OrderToJob::Prepare(line);
  if (!job.ok()) return CannotTell(job.status());
  const absl::StatusOr<v1::Ordered> answer = job->Give(order);
  if (!answer.ok()) return CannotTell(answer.status());
  if (!answer->obeyed()) return NotDone(answer->text());
  if (const int failed = Print(absl::StrCat(OneLine(answer->text()), "\n")); failed != 0) return failed;
  if (order.kind() != v1::Order::KIND_STOP || AsksOverNetwork(line)) return 0;
  const absl::StatusOr<v1::JobEnd> end = job->AwaitEnd();
  if (!end.ok()) return CannotTell(end.status());
  if (end->exit_code() != order.exit_code())
    return NotDone(absl::StrCat("the job has ended with exit code ", end->exit_code(), ": ", end->reason()));
  return Print(EndText(*end));
}

constexpr char kWhere[] =
    R"(To be called where a node or the coordinator of the job runs, by its user or
root; or from elsewhere with --endpoint and the job's token. Who has ordered it,
and the reason, are in the log, in the events and in the report.
)";

constexpr char kCodes[] = R"(
Exit codes:
  0    it was done
  1    it was not done; standard error says why
  2    it cannot be told: no job is here, or its coordinator does not answer
  64, 65  wrong command line; wrong or missing file of the token
)";

std::string HelpWith(const char* text, const std::vector<OptionSpec>& options) {
  std::string out = absl::StrCat(text, kWhere);
  AppendGroup(options, Group::kOther, "Options", &out);
  return out + kCodes;
}

}  // namespace

// ---- stop ---------------------------------------------------------------------------------------------------

const std::vector<OptionSpec>& StopOptions() {
  static const auto* const table = OptionsWith(
      {{kCode, "N", Group::kOther, kOwn,
        "Exit code of the job, 0 to 255; with 0 it counts as a success. Default: 130, as after Ctrl-C."}});
  return *table;
}

std::string StopHelp() {
  return HelpWith(R"(Usage: muster stop [--code N] [--reason TEXT] [ID]

Ends a running job: its workers get SIGTERM and their grace period
(--shutdown-timeout), then every node exits with this code. Waits until all have
ended, but for the nodes' last moments; with --endpoint it returns at once.
)",
                  StopOptions());
}

int StopCommand(const Invocation& invocation) {
  const auto line = ParseOrder(StopOptions(), invocation, "muster stop", nullptr, nullptr);
  if (!line.ok()) return Complain(line.status());
  if (line->help) return Print(StopHelp());
  int code = kExitCancelled;
  const std::string given = ValueIn(*line, kCode);
  if (line->given.contains(kCode) && (!absl::SimpleAtoi(given, &code) || code < 0 || code > kMaxExitCode))
    return Complain(absl::InvalidArgumentError(
        absl::StrCat("--code ", OneLine(given), ": expected an exit code from 0 to 255")));
  v1::Order order;
  order.set_kind(v1::Order::KIND_STOP);
  order.set_exit_code(code);
  return Order(*line, order);
}

// ---- restart ------------------------------------------------------------------------------------------------

const std::vector<OptionSpec>& RestartOptions() {
  static const auto* const table = OptionsWith({});
  return *table;
}

std::string RestartHelp() {
  return HelpWith(R"(Usage: muster restart [--reason TEXT] [ID]

Restarts the workers of all nodes: they get SIGTERM and their grace period
(--shutdown-timeout), then the next round begins. This costs none of the
restarts that --max-restarts allows. Returns at once: muster status --wait
running waits for the next round.
)",
                  RestartOptions());
}

int RestartCommand(const Invocation& invocation) {
  const auto line = ParseOrder(RestartOptions(), invocation, "muster restart", nullptr, nullptr);
  if (!line.ok()) return Complain(line.status());
  if (line->help) return Print(RestartHelp());
  v1::Order order;
  order.set_kind(v1::Order::KIND_RESTART);
  return Order(*line, order);
}

// ---- drain --------------------------------------------------------------------------------------------------

const std::vector<OptionSpec>& DrainOptions() {
  static const auto* const table = OptionsWith({});
  return *table;
}

std::string DrainHelp() {
  return HelpWith(R"(Usage: muster drain [--reason TEXT] NODE [ID]

Has a node leave the job in order, as after a SIGTERM: its workers have
--termination-grace, and the others restart with a spare in its place, or wait
for the node to come again. NODE is its rank in the running round, or its host
name, or its host_id in muster status --json. Returns once it has begun to leave.
)",
                  DrainOptions());
}

int DrainCommand(const Invocation& invocation) {
  v1::Order order;
  const auto line =
      ParseOrder(DrainOptions(), invocation, "muster drain",
                 "a node: its rank or its host name, as muster status --verbose shows them", order.mutable_node());
  if (!line.ok()) return Complain(line.status());
  if (line->help) return Print(DrainHelp());
  order.set_kind(v1::Order::KIND_DRAIN);
  return Order(*line, order);
}

// ---- signal -------------------------------------------------------------------------------------------------

const std::vector<OptionSpec>& SignalOptions() {
  static const auto* const table = OptionsWith(
      {{kRanks, "RANKS", Group::kOther, kOwn, "Only to the workers of these ranks: 3 or 0-7,12. Default: all."}});
  return *table;
}

std::string SignalHelp() {
  return HelpWith(R"(Usage: muster signal [--ranks RANKS] [--reason TEXT] SIGNAL [ID]

Sends a signal, such as USR1, to the workers of all nodes: to the processes that
handle it, because it would end others. KILL, TERM, INT, QUIT, HUP, ABRT, STOP
and CONT go to all processes of a worker's group; a worker that ends by one has
failed. Says how many processes, or workers, got it.
)",
                  SignalOptions());
}

int SignalCommand(const Invocation& invocation) {
  std::string name;
  const char* const expected = "the name or number of a signal, such as USR1";
  const auto line = ParseOrder(SignalOptions(), invocation, "muster signal", expected, &name);
  if (!line.ok()) return Complain(line.status());
  if (line->help) return Print(SignalHelp());
  v1::Order order;
  order.set_kind(v1::Order::KIND_SIGNAL);
  int number = SignalNumber(name);
  if (number == 0 && std::all_of(name.begin(), name.end(), absl::ascii_isdigit))
    (void)absl::SimpleAtoi(name, &number);
  order.set_signal(number);
  if (order.signal() < 1 || order.signal() > kMaxSignal)
    return Complain(
        absl::InvalidArgumentError(absl::StrCat("muster signal ", OneLine(name), ": expected ", expected)));
  if (line->given.contains(kRanks)) {
    const absl::StatusOr<std::vector<RankPair>> ranks = ParseRankRanges(ValueIn(*line, kRanks));
    if (!ranks.ok()) return Complain(ranks.status());
    AddPairs(*ranks, order.mutable_ranks());
  }
  return Order(*line, order);
}

}  // namespace muster::cli
