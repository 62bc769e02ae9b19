// `muster env` prints the plan of `muster run` with the origin of each value, or with --check the problems found.
// Starts nothing.
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/env/env_check.h"
#include "cli/env/env_probe.h"
#include "cli/env/env_report.h"
#include "cli/plan/launch.h"
#include "cli/plan/machine.h"

namespace muster::cli {

int EnvCommand(const Invocation& invocation) {
  const auto command_line = ParseCommandLine(EnvOptions(), invocation.arguments, "muster env");
  if (!command_line.ok()) return Complain(command_line.status());
  if (command_line->help) return Print(EnvHelp());

  const Environment environment = ReadEnvironment();
  const Machine machine = ReadMachine(environment);
  const absl::StatusOr<RunPlan> plan = Plan(*command_line, environment, machine);
  if (!plan.ok()) return Complain(plan.status());
  const machine::Interpreter interpreter =
      machine::ChooseInterpreter(environment, {plan->python, invocation.called_as}, machine::ProbeFile);
  const machine::Accelerators accelerators = machine.accelerators();
  const EnvReport report{*plan, interpreter, accelerators, environment};
  const bool json = command_line->given.count("json") > 0;
  if (command_line->given.count("check") == 0) return Print(json ? EnvJson(report) : EnvTable(report));
  const machine::ProgramCheck program = CheckProgramOf(*plan, interpreter, environment, machine::ProbeFile);
  const std::vector<Finding> findings = CheckNode(report, program, SystemCheckProbe());
  const int printed = Print(json ? EnvJson(report, &findings) : CheckTable(findings));
  return printed != 0 ? printed : ExitCodeOf(findings);
}

}  // namespace muster::cli
