// The workers' program: finds and checks it, and makes each worker's command. The last step of a plan. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "agent/platform/machine/interpreter.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

// The process that becomes the host.
struct ProcessFacts {
  const Environment& environment;  // what workers and agent inherit
  std::string called_as;           // argv[0]
  std::string folder;              // the current one; empty: not known
  absl::Time now;                  // by the wall clock
  uint32_t user = 0;               // effective
  int64_t pid = 0;
  machine::FileProbe probe;
};

// Whether the script can be run; without a script, only whether the interpreter can.
machine::ProgramCheck CheckProgramOf(const RunPlan& plan, const machine::Interpreter& interpreter,
                                     const Environment& environment, const machine::FileProbe& probe);

void PlanProgram(const ProcessFacts& process, RunPlan* plan);

}  // namespace muster::cli
