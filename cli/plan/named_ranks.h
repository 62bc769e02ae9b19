// Whether the ranks that options name are there: --stdin, --local-ranks-filter, --redirects and --tee. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/options/settings.h"
#include "muster/v1/host.pb.h"

namespace muster::cli {

// of_local: the node is one of `muster local`. Appends to warnings which options name some ranks that are not
// there, as a line does that is the same on nodes of several sizes.
//
// InvalidArgument, or FailedPrecondition for a variable: an option names no rank that is there, so it would do
// nothing, or hide everything.
absl::Status CheckNamedRanks(const Settings& settings, const v1::NodeConfig& config, bool of_local,
                             std::vector<std::string>* warnings);

}  // namespace muster::cli
