// Reads the sources in the order of their table. The first one that fits determines this node's place. Any other
// one that fits must agree with it, unless the first one implies it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/platform/discovery/cluster_view.h"
#include "agent/platform/discovery/sources.h"

namespace muster::discovery {

// Determines this node's place from the evidence, if the user has not set it by options. If no source fits, it is
// a job of one node (source "single"). primary_host is empty if no source names the primary. Errors have one line.
// InvalidArgument: invalid evidence, two sources that disagree, or options.source is unknown or does not fit.
// Unavailable: a file of the platform is not written yet; retry.
absl::StatusOr<ClusterView> Discover(const Evidence& evidence, const DiscoverOptions& options);

// Names of the sources that fit (or have an error) here, for callers that got the place in another way.
std::vector<std::string> SourcesHere(const Evidence& evidence, const DiscoverOptions& options);

}  // namespace muster::discovery
