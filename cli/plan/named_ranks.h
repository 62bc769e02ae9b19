// Checks that the ranks named by --debug, --stdin, --local-ranks-filter, --redirects and --tee exist. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/options/settings.h"
#include "muster/v1/host.pb.h"

namespace muster::cli {

// of_local: this is a node of `muster local`. If only some of the named ranks do not exist, appends a warning:
// nodes of different sizes may have the same command line.
//
// InvalidArgument, or FailedPrecondition for a variable: none of the named ranks exists, so the option would have
// no effect, or hide all output.
absl::Status CheckNamedRanks(const Settings& settings, const v1::NodeConfig& config, bool of_local,
                             std::vector<std::string>* warnings);

}  // namespace muster::cli
