// Finds and ends what a host started when the host itself can no longer: by the marker in the environment of every
// worker (see worker_environment.h), which descendants inherit, and by the sessions of the workers.
//
// Used by an agent whose host is dead. Blocks only for as long as reading /proc takes. Any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace muster::host {

struct MarkedReport {
  int alive = 0;      // were found alive and sent SIGKILL: call again until there are none
  std::string stuck;  // SIGKILL is pending but the kernel does not let them go; they count as ended
};

// One pass: SIGKILL to everything that bears the marker of host `host_id`, to all processes of their sessions and
// groups, and to all of `sessions` (pids of the workers as the host last told them). Never to the caller, to the
// caller's session, to process 1, or to a session that a marked process only shares with a stranger's leader.
MarkedReport EndMarked(const std::string& host_id, const std::vector<pid_t>& sessions = {});

bool AnyMarkedAlive(const std::string& host_id);

}  // namespace muster::host
