// Makes the plan of `muster run` from its parts (parts.h). Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/options/command_line.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

// All but the program (PlanProgram in program.h). Errors: see exit_codes.h.
absl::StatusOr<RunPlan> Plan(const CommandLine& command_line, const Environment& environment,
                             const Machine& machine);

// "node 1 of 3 (vertex), primary host:2222, 2 workers, run id: 123", for one info line.
std::string Summary(const RunPlan& plan);

}  // namespace muster::cli
