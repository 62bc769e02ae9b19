// The host as a process: the event loop around HostCore, which decides everything. Carries out its effects in
// their order and tells it what happened.
#pragma once

#include "agent/host/core/host_core.h"
#include "agent/host/launch_plan.h"
#include "agent/host/writer.h"

namespace muster::host {

// Runs one node's host to its end on the calling thread, which must be the process's first, and returns its exit
// code. Before it: PrepareProcess(), then the writer, then InitLog() with it; no other thread.
int RunHost(HostOptions options, LaunchPlan plan, Writer* writer);

}  // namespace muster::host
