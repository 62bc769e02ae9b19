// The agent process: one node's part in the job. Its loop carries out the decisions of the agent core and, on the
// primary, runs the coordinator.
#pragma once

#include "rendezvous/transport/listen_address.h"

namespace muster::agent {

struct AgentStart {
  int fd = -1;           // the link to the host
  int host_end_fd = -1;  // readable once every process of a host in another container has ended; -1: none
  int tokens_fd = -1;    // a sidecar's tokens, one a line, to the end of a socket; -1: no sidecar has started it
  // A sidecar has started it. Not what the host says of itself: then it could have the agent dial without the
  // credentials that are the sidecar's.
  bool by_sidecar = false;
  rendezvous::InheritedSockets sockets = {};  // for the coordinator's port
};

// Returns the exit code when the agent should exit. Call while the process has one thread. An agent may die at any
// moment: the host starts another one and passes the memory to it.
int RunAgent(const AgentStart& start);

}  // namespace muster::agent
