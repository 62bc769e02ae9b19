// The agent process: one node's part in the job. Its loop carries out the decisions of the agent core and, on the
// primary, runs the coordinator.
#pragma once

namespace muster::agent {

// fd: the link to the host. Returns the exit code when the agent should exit. Call while the process has one
// thread. An agent may die at any moment: the host starts another one and passes the memory to it.
int RunAgent(int fd);

}  // namespace muster::agent
