#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/core/status_macros.h"
#include "cli/plan/parts.h"

namespace muster::cli {
namespace {

std::string WorkerCount(int64_t count) { return absl::StrCat(count, count == 1 ? " worker" : " workers"); }

// "0", "0 to 7"
std::string RankRange(int64_t count) { return count == 1 ? "0" : absl::StrCat("0 to ", count - 1); }

// Maximum number of workers in the job; nullopt: unknown, since other nodes may have any number of them.
std::optional<int64_t> WorldAtMost(const v1::NodeConfig& config, bool of_local) {
  if (config.single_node()) return config.slots();
  // The first node of `muster local` has the largest share of the machine's accelerators.
  if (of_local && config.place() == 0) return int64_t{config.max_nodes()} * config.slots();
  return std::nullopt;
}

absl::Status CheckStdin(const Setting<StdinChoice>& given, int64_t world) {
  if (given.value.kind != StdinChoice::kRank || given.value.rank < world) return absl::OkStatus();
  return WrongValue(given, absl::StrCat("the job has ", WorkerCount(world), ": expected all, none or a rank, ",
                                        RankRange(world)));
}

absl::Status CheckDebugged(const Setting<DebugChoice>& given, int64_t world) {
  if (given.value.rank < world) return absl::OkStatus();
  return WrongValue(given,
                    absl::StrCat("the job has ", WorkerCount(world), ": expected a rank, ", RankRange(world)));
}

std::vector<int> MissingRanks(const std::vector<int>& named, int slots) {
  std::vector<int> missing;
  std::copy_if(named.begin(), named.end(), std::back_inserter(missing), [&](int rank) { return rank >= slots; });
  return missing;
}

std::string MissingRanksWarning(const std::string& source, const std::vector<int>& missing, int slots) {
  return absl::StrCat(source, ": no local rank ", absl::StrJoin(missing, ", "), ": this node has ",
                      WorkerCount(slots));
}

void WarnOfMissing(const Given<StreamChoice>& given, int slots, std::vector<std::string>* warnings) {
  if (!given) return;
  std::vector<int> named;
  for (const auto& [rank, streams] : given->value.by_rank) named.push_back(rank);
  const std::vector<int> missing = MissingRanks(named, slots);
  if (!missing.empty()) warnings->push_back(MissingRanksWarning(given->source, missing, slots));
}

}  // namespace

absl::Status CheckNamedRanks(const Settings& settings, const v1::NodeConfig& config, bool of_local,
                             std::vector<std::string>* warnings) {
  const int slots = config.slots();
  if (slots == 0) return absl::OkStatus();  // a node without workers has the same command line as the others
  const std::optional<int64_t> world = WorldAtMost(config, of_local);
  if (settings.workers.debug && world) RETURN_IF_ERROR(CheckDebugged(*settings.workers.debug, *world));
  if (settings.workers.stdin_choice && world) RETURN_IF_ERROR(CheckStdin(*settings.workers.stdin_choice, *world));
  if (settings.output.local_ranks_filter) {
    const auto& filter = *settings.output.local_ranks_filter;
    const std::vector<int> missing = MissingRanks(filter.value, slots);
    if (missing.size() == filter.value.size()) {
      return WrongValue(filter, absl::StrCat("would hide all output, since this node has ", WorkerCount(slots),
                                             ": expected local ranks, ", RankRange(slots)));
    }
    if (!missing.empty()) warnings->push_back(MissingRanksWarning(filter.source, missing, slots));
  }
  WarnOfMissing(settings.output.redirects, slots, warnings);
  WarnOfMissing(settings.output.tee, slots, warnings);
  return absl::OkStatus();
}

}  // namespace muster::cli
