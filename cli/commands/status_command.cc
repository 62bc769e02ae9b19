// `muster status`: is the job well, and where does it stand? Asks the door of a node of this machine, or, with the
// job's token, its coordinator.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/core/status_macros.h"
#include "base/io/secret_file.h"
#include "base/text/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/options/command_line.h"
#include "cli/options/settings.h"
#include "cli/plan/machine.h"
#include "cli/plan/token.h"
#include "cli/status/door_visits.h"
#include "cli/status/remote_view.h"
#include "cli/status/status_text.h"

namespace muster::cli {
namespace {

constexpr char kJson[] = "json", kVerbose[] = "verbose", kRunId[] = "rdzv-id", kEndpoint[] = "endpoint";

// The one job that is meant. Errors say which ones are here.
absl::StatusOr<JobHere> ChosenJob(const std::vector<JobHere>& jobs, const Given<std::string>& run_id) {
  std::vector<JobHere> meant;
  std::vector<std::string> names;
  for (const JobHere& job : jobs) {
    if (!run_id || job.run_id == run_id->value) meant.push_back(job);
    names.push_back(absl::StrCat(OneLine(job.run_id), " (", OneLine(job.coordinator), ")"));
  }
  if (meant.size() == 1) return meant.front();
  if (names.empty()) {
    return absl::UnavailableError(
        "no job of this user has a node here: ask on one of its nodes (srun --jobid=ID --overlap -N1 -n1 muster "
        "status; kubectl exec POD -- muster status; docker exec CONTAINER muster status)");
  }
  const std::string here = absl::StrJoin(names, ", ");
  if (run_id && meant.empty())
    return absl::UnavailableError(
        absl::StrCat("--rdzv-id ", OneLine(run_id->value), ": no such job is here, but: ", here));
  if (run_id)
    return absl::UnavailableError(
        absl::StrCat("several jobs with one run id are here, which only --endpoint tells apart: ", here));
  return absl::UnavailableError(absl::StrCat("several jobs are here; give --rdzv-id with the id of one: ", here));
}

Given<std::string> GivenOf(const CommandLine& line, const char* option) {
  const auto found = line.given.find(option);
  if (found == line.given.end()) return std::nullopt;
  return Setting<std::string>{found->second, Origin::kFlag, absl::StrCat("--", option), found->second};
}

// Over the network only those are answered who have the job's token.
absl::StatusOr<v1::JobView> ViewOverNetwork(const Setting<std::string>& given, const Given<std::string>& run_id,
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
  return ViewAt(*endpoint, run_id->value, own.tokens);
}

absl::StatusOr<v1::JobView> ViewHere(const Given<std::string>& run_id) {
  ASSIGN_OR_RETURN(const JobHere job, ChosenJob(JobsHere(), run_id));
  return ViewOf(job);
}

// A wrong command line has its own code.
int CannotTell(const absl::Status& why) {
  const int code = Complain(why);
  return absl::IsInvalidArgument(why) || absl::IsFailedPrecondition(why) ? code : kExitCannotTell;
}

}  // namespace

const std::vector<OptionSpec>& StatusOptions() {
  static const auto* const table = new std::vector<OptionSpec>{
      {kJson, "", Group::kOther, kOwn, "Print one JSON object (docs/status.md) instead of lines for people."},
      {kVerbose, "", Group::kOther, kOwn, "Print a line for each node, too."},
      {kRunId, "ID", Group::kOther, kOwn, "Of the jobs that are here, the one with this run id."},
      {kEndpoint, "HOST:PORT", Group::kOther, kOwn,
       "Ask the coordinator at this address instead: the primary's, as --rdzv-endpoint names it. Needs --rdzv-id "
       "and the job's token."},
      {kTokenFileOption, "FILE", Group::kOther, kOwn, "With --endpoint: the job's token. Default: MUSTER_TOKEN."}};
  return *table;
}

std::string StatusHelp() {
  std::string out = R"(Usage: muster status [--json] [--verbose] [--rdzv-id ID]
       muster status --endpoint HOST:PORT --rdzv-id ID [--token-file FILE]

Says whether a running job is well, what is odd, which nodes it has and which
are missing, and what is left of the restarts. To be called where a node of the
job runs, by its user or root; it needs neither a port nor a secret:

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
  const auto line = ParseCommandLine(StatusOptions(), invocation.arguments, "muster status");
  if (!line.ok()) return Complain(line.status());
  if (line->help) return Print(StatusHelp());
  if (!line->script.empty())
    return Complain(absl::InvalidArgumentError(absl::StrCat(line->script, ": muster status takes no arguments")));
  const Given<std::string> run_id = GivenOf(*line, kRunId), endpoint = GivenOf(*line, kEndpoint);
  const absl::StatusOr<v1::JobView> view =
      endpoint ? ViewOverNetwork(*endpoint, run_id, GivenOf(*line, kTokenFileOption)) : ViewHere(run_id);
  if (!view.ok()) return CannotTell(view.status());
  const bool json = line->given.contains(kJson);
  const int printed =
      Print(json ? StatusJson(*view, absl::Now()) : StatusText(*view, line->given.contains(kVerbose)));
  return printed != 0 ? printed : CodeOf(*view);
}

}  // namespace muster::cli
