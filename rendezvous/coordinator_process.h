// `muster coordinator`: a coordinator in a process of its own, in place of the one in the primary's agent. It
// stores nothing on disk: after a restart it learns the job's state from the agents, and no worker is affected if
// the restart is quick enough for the lease.
#pragma once

#include <signal.h>

#include <functional>
#include <string>

#include "base/core/note.h"
#include "muster/v1/host.pb.h"

namespace muster::rendezvous {

struct CoordinatorEnd {
  int exit_code = 0;
  int signal = 0;  // not 0: the process should end by this signal (EndBySignal) instead of exit_code
};

// The report of a failed job, several lines with a newline each; empty if the verdict has no failed worker.
using ReportOf = std::function<std::string(const v1::Verdict& verdict)>;

// config: the job's settings; `primary` is the address to listen on. Returns when the job has ended and every node
// has been told, or after a signal that is not in `ignored`, once no node needs the coordinator or a second signal
// comes. Exit codes: the verdict's; 75 after SIGTERM, SIGHUP or SIGQUIT; 130 after SIGINT, with `signal` set; 69
// if it cannot listen. Call while the process has one thread. report_of: what is printed before the last line.
CoordinatorEnd RunCoordinator(const v1::NodeConfig& config, Severity log_level, const sigset_t& ignored,
                              ReportOf report_of);

}  // namespace muster::rendezvous
