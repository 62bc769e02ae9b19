// What `muster env` prints. Pure.
#pragma once

#include <string>

#include "agent/accelerators.h"
#include "agent/interpreter.h"
#include "cli/run_plan.h"

namespace muster::cli {

struct EnvReport {
  const RunPlan& plan;
  const agent::Interpreter& interpreter;
  const agent::Accelerators& accelerators;
  const Environment& environment;
};

std::string EnvTable(const EnvReport& report);
std::string EnvJson(const EnvReport& report);  // one object, indented

}  // namespace muster::cli
