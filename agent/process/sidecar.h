// The agent's side of a node whose workers run in another container (`muster run --host-socket`). This process
// finds the host's socket, tells the host the configuration, and starts an agent over the connection, again and
// again until the job has ended. The agent is a process of its own, so that its death disturbs nothing.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "muster/v1/host.pb.h"

namespace muster::agent {

struct SidecarOptions {
  std::string socket;
  v1::AgentHello hello;
  std::string tokens = {};      // one a line, for a host that demands one; empty: none
  std::string token_file = {};  // where they came from; empty: no file
  absl::Duration first_wait;    // how long the host may take to come
};

// Runs to the end of the job, and returns its exit code: that of the host. Call it after PrepareProcess(), while
// the process has one thread.
int RunSidecar(SidecarOptions options);

}  // namespace muster::agent
