#include "agent/host/launch_plan.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace muster::host {

bool GetsStdin(const StdinRule& rule, int rank, int slots, bool keyboard) {
  switch (rule.kind) {
    case StdinRule::kDefault:
      return slots == 1 || keyboard;
    case StdinRule::kAll:
      return true;
    case StdinRule::kNone:
      return false;
    case StdinRule::kRank:
      return rank == rule.rank;
  }
  return false;
}

EnvironmentMap EnvironmentOfNode(const LaunchPlan& plan, const std::string& marker, std::optional<int> place) {
  WorkerEnvironmentOptions options = plan.environment;
  options.marker = marker;
  return NodeEnvironment(options, place, plan.inherited);
}

PreloadCommand MakePreloadCommand(const LaunchPlan& plan, const std::string& marker) {
  const auto shorter = [](const std::vector<std::string>& a, const std::vector<std::string>& b) {
    return absl::StrJoin(a, " ").size() < absl::StrJoin(b, " ").size();
  };
  WorkerEnvironmentOptions options = plan.environment;
  options.marker = marker;
  return {.file = plan.file,
          .argv = *std::max_element(plan.argv.begin(), plan.argv.end(), shorter),
          .environment = CommonEnvironment(options, plan.inherited),
          .per_worker = VariablesOfAWorker(options)};
}

}  // namespace muster::host
