// Membership: the nodes of the job and the rank of this one, from options or else from the platform. Pure.
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
  bool rank_is_hint = false;
  std::string nodes_source = "default";  // origin of the number of nodes
  std::string ignored_sources;           // log line that names platforms found here but not read; empty: none
  std::string platform;                  // platform of this machine, whether read or not; empty: unknown
};

absl::StatusOr<Membership> FindMembership(const MembershipSettings& settings, const Environment& environment,
                                          const Machine& machine);

}  // namespace muster::cli
