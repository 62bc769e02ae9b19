// All platforms in one order: the first that fits says what this node's place is, and any other that fits must
// agree.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "agent/discovery/cluster_view.h"
#include "agent/discovery/vertex.h"

namespace muster::discovery {

struct DiscoverOptions {
  VertexOptions vertex;
  std::string platform;  // read this one alone, whatever else is there: "vertex"; empty: look at all
};

// The place that the environment gives this node, for callers to whom the user gave none. Where no platform is
// found it is a job of one node (source "single"). InvalidArgument with one line: a reading that is wrong, two
// platforms that disagree, or an unknown options.platform.
absl::StatusOr<ClusterView> Discover(const Environment& environment, const DiscoverOptions& options);

}  // namespace muster::discovery
