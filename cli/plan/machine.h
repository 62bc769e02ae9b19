// Reads the facts of this machine that a plan needs, and random numbers. The only file here that reads /proc.
#pragma once

#include <cstddef>
#include <string>

#include "cli/plan/program.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

Environment ReadEnvironment();

// The same, and erases the token from what /proc shows of this process to every other one of its user. For a
// process that lives on.
Environment TakeEnvironment();

std::string Hostname();  // "unknown" if the kernel does not tell

std::string NewToken();

std::string RandomHex(size_t bytes);  // of the kernel's random bytes, two digits for each

// environment must outlive the machine.
Machine ReadMachine(const Environment& environment);

// environment: what workers inherit; it must outlive the facts.
ProcessFacts ReadProcess(const Environment& environment, const std::string& called_as);

}  // namespace muster::cli
