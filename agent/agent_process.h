// The agent process: one node's part in the job. Its loop carries out the decisions of the agent core and, on the
// primary, runs the coordinator.
#pragma once

namespace muster::agent {

// fd: the link to the host. host_end_fd: readable once every process of a host in another container has ended; -1:
// none. Returns the exit code when the agent should exit. Call while the process has one thread. An agent may die
// at any moment: the host starts another one and passes the memory to it.
int RunAgent(int fd, int host_end_fd = -1);

}  // namespace muster::agent
