// `muster coordinator`: a coordinator alone, beside the one in the primary's agent. It keeps nothing on disk:
// killed and started again it learns the job from the agents, and no worker notices if that is within the lease.
#pragma once

#include "muster/v1/host.pb.h"
#include "proto/base/note.h"

namespace muster::agent {

// config: the job's settings; where to listen stands in `primary`. Does not return before the job is over and
// every node has heard so, or a signal ends it. The exit code: the verdict's; 75 after SIGTERM, 130 after SIGINT;
// 69 where it cannot listen. Call while there is one thread.
int RunCoordinator(const v1::NodeConfig& config, Severity log_level);

}  // namespace muster::agent
