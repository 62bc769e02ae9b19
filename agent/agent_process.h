// The agent process: one node's part in the job. Its loop carries out what the agent core decides, and, where this
// node is the primary, holds the coordinator.
#pragma once

namespace muster::agent {

// fd: the link to the host. Does not return before the agent is to exit; the exit code. Call while there is one
// thread. May die at any moment: the host starts another and hands it the memory.
int RunAgent(int fd);

}  // namespace muster::agent
