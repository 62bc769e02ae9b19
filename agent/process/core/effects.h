// What an agent core has its shell do. Plain data; the shell carries the effects out in their order.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/core/note.h"
#include "muster/v1/host.pb.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

// Listen on the primary's port, which only one process of this machine can do. Answered by OnPortClaimed.
struct ClaimPort {};
struct FreePort {};  // listen no more
// Prepare the session to the coordinator, which is in this process if it serves. Comes before the first Connect,
// and once more when a member becomes the primary.
struct TakeRole {
  bool serves = false;
  bool was_in_job = false;  // this node has reached the job's coordinator before, perhaps by an earlier agent
};
struct SendToCoordinator {
  v1::AgentStatus status;
};
struct SendToHost {
  v1::HostDirective directive;
};
struct Connect {};     // open a session; answered by OnConnected or OnDisconnected
struct Disconnect {};  // close the session in order; not answered
// The host is dead or does not respond: send it SIGKILL if it lives, wait for its end, and end everything that it
// started (base/proc/orphans.h has the evidence). Answered by OnHostSwept or OnHostNotSwept.
struct EndHost {
  std::vector<v1::Worker> workers;
  bool kill_first = false;
};
// Find out whether the former holder of a place, or a process that it left behind, is alive. What it left behind
// is ended. Answered by OnProbed.
struct Probe {
  std::string process;  // Holder.process
};
struct ExitAgent {
  int exit_code = 0;
  std::string reason;
  bool at_once = false;  // like a kill: no message is waited for
};
using Effect = std::variant<ClaimPort, FreePort, TakeRole, SendToCoordinator, SendToHost, Connect, Disconnect,
                            EndHost, Probe, ExitAgent, Note>;
using Effects = std::vector<Effect>;

}  // namespace muster::agent
