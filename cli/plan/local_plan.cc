#include "cli/plan/local_plan.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/platform/discovery/sources.h"
#include "base/core/status_macros.h"
#include "base/text/duration.h"
#include "base/text/problem.h"
#include "cli/options/option_table.h"
#include "cli/options/settings.h"
#include "cli/options/values.h"
#include "cli/plan/debugger.h"
#include "cli/plan/line_prefix.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {
namespace {

// Whether `muster local` sets this option itself: all membership options of a node, not those of the job.
bool SetByLocal(const OptionSpec& spec) { return spec.group == Group::kMembership && !spec.has(kJob); }

// Whether the variable belongs to another job, of an outer launcher or a platform.
bool IsForeign(const std::string& name) {
  static constexpr std::string_view kOfLaunchers[] = {"RANK",        "WORLD_SIZE",       "LOCAL_RANK",
                                                      "GROUP_RANK",  "LOCAL_WORLD_SIZE", "NODE_RANK",
                                                      "MASTER_ADDR", "MASTER_PORT"};
  return std::find(std::begin(kOfLaunchers), std::end(kOfLaunchers), name) != std::end(kOfLaunchers) ||
         absl::StartsWith(name, "TORCHELASTIC_") || discovery::IsJobVariable(name);
}

std::string Address(int node, uint16_t port) { return absl::StrCat("127.0.0.", node + 1, ":", port); }

std::string ClusterSpec(int nodes, int node, uint16_t port) {
  nlohmann::json cluster;
  cluster["workerpool0"] = {Address(0, port)};
  for (int i = 1; i < nodes; ++i) cluster["workerpool1"].push_back(Address(i, port));
  const nlohmann::json task = {{"type", node == 0 ? "workerpool0" : "workerpool1"},
                               {"index", node == 0 ? 0 : node - 1}};
  return nlohmann::json{{"cluster", cluster}, {"task", task}, {"environment", "cloud"}}.dump();
}

// The node's contiguous share; the first nodes get the remainder. It may be empty.
std::string Share(const std::vector<std::string>& all, int nodes, int node) {
  const size_t n = static_cast<size_t>(nodes);
  const size_t i = static_cast<size_t>(node);
  const size_t each = all.size() / n;
  const size_t more = all.size() % n;
  const auto begin = all.begin() + static_cast<ptrdiff_t>(i * each + std::min(i, more));
  return absl::StrJoin(begin, begin + static_cast<ptrdiff_t>(each + (i < more ? 1 : 0)), ",");
}

// Whether --debug gives the keyboard to one rank. An invalid value is reported later.
bool PdbReads(const CommandLine& command_line, const Environment& environment) {
  const auto option = command_line.given.find(kDebugOption);
  const auto variable = environment.find(VariableName("MUSTER_", kDebugOption));
  const std::string text = option != command_line.given.end() ? option->second
                           : variable != environment.end()    ? variable->second
                                                              : "";
  const absl::StatusOr<DebugChoice> choice = ParseDebugChoice(text);
  return choice.ok() && !choice->port;
}

Environment NodeEnvironment(int nodes, int node, const Environment& outer, const LocalFacts& facts,
                            bool pdb_reads) {
  Environment environment;
  for (const auto& [name, value] : outer) {
    if (!IsForeign(name)) environment.emplace(name, value);
  }
  for (const OptionSpec& spec : RunOptions()) {
    if (!SetByLocal(spec)) continue;
    environment.erase(VariableName("MUSTER_", spec.name));
    environment.erase(VariableName("PET_", spec.name));
  }
  // Whatever platform this machine belongs to.
  environment[VariableName("MUSTER_", "source")] = discovery::kVertex;
  // Turns off the defaults of Vertex AI, unless they are set.
  environment.emplace(VariableName("MUSTER_", "retryable-exit-code"), "0");
  environment.emplace(VariableName("MUSTER_", "log-streams"), "stderr");
  environment.emplace(VariableName("MUSTER_", "termination-grace"),
                      muster::FormatDuration(facts.first_process ? kContainerGrace : kPlainGrace));
  environment["CLUSTER_SPEC"] = ClusterSpec(nodes, node, facts.port);
  environment["CLOUD_ML_JOB_ID"] = facts.run_id;
  environment[VariableName("MUSTER_", "local-addr")] = absl::StrCat("127.0.0.", node + 1);
  // The nodes are in background process groups of their own and cannot see that the terminal is ours.
  std::string& stdin_choice = environment[VariableName("MUSTER_", "stdin")];
  if (stdin_choice.empty() && !pdb_reads) stdin_choice = facts.keyboard ? "all" : "none";
  environment[kPrefixVariable] = std::string(1, kRankBegin) + "${rank}" + kRankEnd;
  environment[kRedrawsVariable] = absl::StrCat(static_cast<unsigned>(facts.terminals));
  environment[kStreamsVariable] =
      absl::StrJoin(facts.streams, ",", [](std::string* text, const host::StreamFile& stream) {
        absl::StrAppend(text, stream.fd, ":", stream.device, ":", stream.inode);
      });
  if (!facts.accelerators.visible_variable.empty() && facts.accelerators.count > 0) {
    environment[facts.accelerators.visible_variable] = Share(facts.accelerators.visible, nodes, node);
  }
  return environment;
}

std::vector<std::string> NodeArguments(const CommandLine& command_line) {
  std::vector<std::string> arguments;
  for (const auto& [name, value] : command_line.given) {
    const OptionSpec* spec = FindOption(RunOptions(), name);
    if (spec == nullptr) continue;  // --nodes
    arguments.push_back(spec->is_switch() ? absl::StrCat("--", name) : absl::StrCat("--", name, "=", value));
  }
  arguments.emplace_back("--");
  arguments.push_back(command_line.script);
  arguments.insert(arguments.end(), command_line.script_arguments.begin(), command_line.script_arguments.end());
  return arguments;
}

}  // namespace

absl::StatusOr<int> LocalNodeCount(const CommandLine& command_line) {
  for (const OptionSpec& spec : RunOptions()) {
    const auto given = command_line.given.find(std::string(spec.name));
    if (SetByLocal(spec) && given != command_line.given.end()) {
      const std::string flag = absl::StrCat("--", AsAbsl(spec.name));
      return absl::InvalidArgumentError(absl::StrCat(spec.is_switch() ? flag : ShownWithValue(flag, given->second),
                                                     ": muster local sets this itself; leave it out"));
    }
  }
  const auto given = command_line.given.find("nodes");
  if (given == command_line.given.end()) {
    return absl::InvalidArgumentError("--nodes is missing: expected the number of nodes to start on this machine");
  }
  const absl::StatusOr<int> nodes = ParseInteger(given->second, kLocalNodeCounts);
  if (!nodes.ok()) return WithContext(nodes.status(), ShownWithValue("--nodes", given->second));
  const auto nnodes = command_line.given.find("nnodes");
  if (nnodes != command_line.given.end() && *nodes > 1) {
    const absl::StatusOr<NodeRange> range = ParseNodeRange(nnodes->second);
    if (range.ok() && (range->max == 1 || range->max > *nodes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--nnodes ", Shown(nnodes->second), ": does not fit --nodes ", *nodes));
    }
  }
  if (command_line.script.empty()) {
    return absl::InvalidArgumentError("no SCRIPT was given (see muster local --help)");
  }
  return *nodes;
}

std::vector<LocalNode> PlanLocal(int nodes, const CommandLine& command_line, const Environment& environment,
                                 const LocalFacts& facts) {
  std::vector<LocalNode> result;
  const bool pdb_reads = PdbReads(command_line, environment);
  for (int node = 0; node < nodes; ++node) {
    result.push_back({NodeArguments(command_line), NodeEnvironment(nodes, node, environment, facts, pdb_reads)});
  }
  return result;
}

}  // namespace muster::cli
