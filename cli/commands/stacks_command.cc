// `muster stacks`: where do the workers of a running job stand?
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/text/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/commands/job_question.h"
#include "cli/options/command_line.h"
#include "cli/status/stacks_text.h"
#include "cli/status/status_text.h"

namespace muster::cli {
namespace {

constexpr char kJson[] = "json", kRanks[] = "ranks";

}  // namespace

const std::vector<OptionSpec>& StacksOptions() {
  static const auto* const table = [] {
    auto* const own = new std::vector<OptionSpec>{
        {kRanks, "RANKS", Group::kOther, kOwn, "Only the places where one of these ranks stands: 3 or 0-7,12."},
        {kJson, "", Group::kOther, kOwn, "Print one JSON object (docs/hangs.md) instead of lines for people."}};
    own->insert(own->end(), JobOptions().begin(), JobOptions().end());
    return own;
  }();
  return *table;
}

std::string StacksHelp() {
  std::string out = R"(Usage: muster stacks [--ranks RANKS] [--json] [ID]
       muster stacks --endpoint HOST:PORT --rdzv-id ID [--token-file FILE]

Says where the workers of a running job stand: ranks that stand at the same
place are one group, and those that differ from all others come first. Asks all
nodes of the job, for at most 9 s; no worker is stopped. To be called where a
node of the job runs, by its user or root. Python stacks need py-spy on the
nodes (pip install py-spy).
)";
  AppendGroup(StacksOptions(), Group::kOther, "Options", &out);
  out += R"(
Exit codes:
  0    every node has answered
  1    no workers run, none of these ranks is there, or some nodes have not
       answered
  2    it cannot be told: no job is here, or its coordinator does not answer
  64   wrong command line
)";
  return out;
}

int StacksCommand(const Invocation& invocation) {
  const auto line = ParseQuestion(StacksOptions(), invocation.arguments, "muster stacks");
  if (!line.ok()) return Complain(line.status());
  if (line->help) return Print(StacksHelp());
  absl::StatusOr<std::vector<RankPair>> ranks = std::vector<RankPair>();
  if (const auto given = line->given.find(kRanks); given != line->given.end())
    ranks = ParseRankRanges(given->second);
  if (!ranks.ok()) return Complain(ranks.status());
  absl::StatusOr<v1::JobView> view = AskForStacks(*line);
  if (!view.ok()) return CannotTell(view.status());
  KeepPlacesOf(*ranks, view->mutable_stacks());
  const int printed = Print(line->given.contains(kJson) ? StacksJson(*view) : StacksText(*view));
  return printed != 0 ? printed : CodeOfStacks(*view);
}

}  // namespace muster::cli
