// `muster coordinator`: a coordinator alone, beside the one in the primary's agent. It keeps nothing on disk:
// killed and started again it learns the job from the agents, and no worker notices if that is within the lease.
#pragma once

#include "base/note.h"
#include "muster/v1/host.pb.h"

namespace muster::rendezvous {

struct CoordinatorEnd {
  int exit_code = 0;
  int signal = 0;  // not 0: the process is to end by this signal (EndBySignal), as which the code is shown
};

// config: the job's settings; where to listen stands in `primary`. Does not return before the job is over and
// every node has heard so, or a signal ends it. The exit code: the verdict's; 75 after SIGTERM, 130 after SIGINT,
// which is also the signal to end by; 69 where it cannot listen. Call while there is one thread.
CoordinatorEnd RunCoordinator(const v1::NodeConfig& config, Severity log_level);

}  // namespace muster::rendezvous
