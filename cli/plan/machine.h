// Reads the facts of this machine that a plan needs, and random numbers. The only file here that reads /proc.
#pragma once

#include <cstddef>
#include <string>

#include "cli/plan/run_plan.h"

namespace muster::cli {

Environment ReadEnvironment();

std::string RandomHex(size_t bytes);  // of the kernel's random bytes, two digits for each

// environment must outlive the machine.
Machine ReadMachine(const Environment& environment);

}  // namespace muster::cli
