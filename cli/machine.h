// Asks this machine what a plan needs to know of it. The only file here that reads /proc.
#pragma once

#include "cli/run_plan.h"

namespace muster::cli {

Environment ReadEnvironment();

// environment must outlive the machine.
Machine ReadMachine(const Environment& environment);

const char* Version();         // "0.1.0 (a1b2c3d)", for people
const char* ReleaseVersion();  // "0.1.0", what two nodes compare

}  // namespace muster::cli
