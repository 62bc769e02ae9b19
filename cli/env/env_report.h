// What `muster env` prints. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/platform/machine/accelerators.h"
#include "agent/platform/machine/interpreter.h"
#include "cli/env/finding.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

struct EnvReport {
  const RunPlan& plan;
  const machine::Interpreter& interpreter;
  const machine::Accelerators& accelerators;
  const Environment& environment;
};

// Who may join the job: "token", and where it comes from; "none", and what that means.
struct ShownProtection {
  std::string kind;
  std::string origin;
};
ShownProtection ShowProtection(const v1::NodeConfig& config);

// What was read and the settings that follow from it, as sentences that need no knowledge of the variables.
std::vector<std::string> Explanation(const RunPlan& plan);

std::string EnvTable(const EnvReport& report);
// One indented object. Keys never change; new ones may be added.
std::string EnvJson(const EnvReport& report, const std::vector<Finding>* findings = nullptr);

}  // namespace muster::cli
