// What `muster env` prints. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/machine/accelerators.h"
#include "agent/machine/interpreter.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

struct EnvReport {
  const RunPlan& plan;
  const machine::Interpreter& interpreter;
  const machine::Accelerators& accelerators;
  const Environment& environment;
};

struct Finding;  // env_check.h

// What was read and what follows from it, in sentences for people who do not know the variables.
std::vector<std::string> Explanation(const RunPlan& plan);

std::string EnvTable(const EnvReport& report);
// One object, indented. Keys stay what they are; new ones may come.
std::string EnvJson(const EnvReport& report, const std::vector<Finding>* findings = nullptr);

}  // namespace muster::cli
