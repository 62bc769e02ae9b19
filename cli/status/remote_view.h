// Asks the coordinator of a job over the network. Blocks within kViewLimit. To be called before the first gRPC
// object of the process, while that has one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/options/values.h"
#include "muster/v1/control.pb.h"

namespace muster::cli {

// tokens: the job's; the first that is let in counts. run_id: the job's, without which a token opens nothing.
// Unauthenticated: neither fits; other errors: those of the connection.
absl::StatusOr<v1::JobView> ViewAt(const HostPort& endpoint, const std::string& run_id,
                                   const std::vector<std::string>& tokens, const v1::Question& question);

}  // namespace muster::cli
