// Turns a plan into the host's options and launch plan; finds and checks the program.
#pragma once

#include <string>

#include "agent/host/core/host_core.h"
#include "agent/host/launch_plan.h"
#include "agent/platform/machine/interpreter.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

struct Launch {
  host::HostOptions host;
  host::LaunchPlan plan;
  machine::Interpreter interpreter;
  machine::ProgramCheck check;  // a failure is reported to the job; a single-node job ends at once
};

// Whether the script can be run; without a script, only whether the interpreter can.
machine::ProgramCheck CheckProgramOf(const RunPlan& run, const machine::Interpreter& interpreter,
                                     const Environment& environment, const machine::FileProbe& probe);

// called_as: argv[0]. probe: replaced in tests.
Launch PrepareLaunch(const RunPlan& run, const Environment& environment, const std::string& host_id,
                     const std::string& called_as, const machine::FileProbe& probe);

}  // namespace muster::cli
