// Who is in the job: decided from the options, or else from the platform. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "cli/options/settings.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

struct Membership {
  discovery::ClusterView view;
  bool on_platform = false;
  bool single_node = false;
  int min_nodes = 1;
  int max_nodes = 1;
  v1::NodeConfig::Serves serves = v1::NodeConfig::SERVES_YES;
  std::string nodes_source = "default";  // who said how many
  std::string silenced;                  // one line: sources that are here and were not asked; empty: none
  std::string platform;  // the source on whose machine this is, asked or not; empty: none that is known
};

absl::StatusOr<Membership> FindMembership(const Settings& settings, const Environment& environment,
                                          const Machine& machine);

}  // namespace muster::cli
