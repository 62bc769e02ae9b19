// The host as a process: the event loop around HostCore, which decides everything. The loop carries out the core's
// effects in order and reports events to it.
#pragma once

#include "absl/status/statusor.h"
#include "agent/host/conclusion.h"
#include "agent/host/core/host_core.h"
#include "agent/host/core/report.h"
#include "agent/host/launch_plan.h"
#include "base/console/writer.h"

namespace muster::host {

// The fields of a report that describe this node; `started` is the present time.
JobEnd AboutThisNode(const v1::NodeConfig& config, const std::string& program);

// Number of descriptors that a node must be able to open to start: see CheckDescriptors().
int LeastDescriptors(const LaunchPlan& plan, bool single_node);

// Runs one node's host to its end and returns how the process must end. Blocks. The calling thread must be the
// process's first. Call before it, in this order: PrepareProcess(), the writer's constructor, InitLog() with the
// writer. No other thread may outlast LaunchPlan::before_start. Errors: the machine lacks what a host needs;
// nothing was started.
absl::StatusOr<HostEnd> RunHost(HostOptions options, LaunchPlan plan, Writer* writer);

}  // namespace muster::host
