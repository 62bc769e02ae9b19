// Reads the facts of this machine that a plan needs. The only file here that reads /proc.
#pragma once

#include "cli/plan/run_plan.h"

namespace muster::cli {

Environment ReadEnvironment();

// environment must outlive the machine.
Machine ReadMachine(const Environment& environment);

}  // namespace muster::cli
