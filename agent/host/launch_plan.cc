#include "agent/host/launch_plan.h"

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
  WorkerEnvironmentOptions options = plan.environment;
  options.marker = marker;
  return {.file = plan.file,
          .argv = plan.argv.front(),
          .environment = CommonEnvironment(options, plan.inherited),
          .per_worker = VariablesOfAWorker(options)};
}

}  // namespace muster::host
