// From a plan to what the host takes: the program is looked for and checked here.
#pragma once

#include <string>

#include "agent/host/core/host_core.h"
#include "agent/host/launch_plan.h"
#include "agent/machine/interpreter.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

struct Launch {
  host::HostOptions host;
  host::LaunchPlan plan;
  machine::Interpreter interpreter;
  machine::ProgramCheck check;  // if it failed, the job is told; a job of one node ends at once
};

// Whether what is to be run can be; without a script only whether the interpreter can.
machine::ProgramCheck CheckProgramOf(const RunPlan& run, const machine::Interpreter& interpreter,
                                     const Environment& environment, const machine::FileProbe& probe);

// probe: for tests. called_as: argv[0].
Launch PrepareLaunch(const RunPlan& run, const Environment& environment, const std::string& host_id,
                     const std::string& called_as, const machine::FileProbe& probe);

}  // namespace muster::cli
