// The host as a process: the event loop around HostCore, which decides everything. Carries out its effects in
// their order and tells it what happened.
#pragma once

#include "absl/status/statusor.h"
#include "agent/host/core/host_core.h"
#include "agent/host/core/report.h"
#include "agent/host/launch_plan.h"
#include "base/console/writer.h"

namespace muster::host {

// What a report says of this node, begun now.
JobEnd AboutThisNode(const v1::NodeConfig& config, const std::string& program);

// Descriptors that a node needs to start: see CheckDescriptors().
int LeastDescriptors(const LaunchPlan& plan, bool single_node);

struct HostEnd {
  int exit_code = 0;
  int signal = 0;  // not 0: the process is to end by this signal (EndBySignal), as which the code is shown
};

// Runs one node's host to its end on the calling thread, which must be the process's first, and returns how the
// process is to end. Before it: PrepareProcess(), then the writer, then InitLog() with it; no thread that outlasts
// LaunchPlan::before_start. Errors: the machine lacks what a host needs, and nothing was started.
absl::StatusOr<HostEnd> RunHost(HostOptions options, LaunchPlan plan, Writer* writer);

}  // namespace muster::host
