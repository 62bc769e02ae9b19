// `muster env` prints the plan of `muster run` with the origin of each value, or with --check the problems found.
// Starts nothing.
#include "cli/commands/commands.h"
#include "cli/env/env_check.h"
#include "cli/env/env_probe.h"
#include "cli/env/env_report.h"
#include "cli/plan/launch.h"
#include "cli/plan/machine.h"

namespace muster::cli {

const std::vector<OptionSpec>& EnvOptions() {
  static const auto* const table =
      WithRunOptions({{"json", "", Group::kOther, kOwn, "Print one JSON object."},
                      {"check", "", Group::kOther, kOwn, "Check this node for problems."}});
  return *table;
}

std::string EnvHelp() {
  return R"(Usage: muster env [--json] [--check] [options of muster run]

Prints what was found and where, and the settings that follow from it: platform,
primary, rank of this node, interpreter, accelerators, and each setting with its
origin. Starts nothing and connects to nothing. Values of variables whose names
look like secrets are masked. --json prints one JSON object.

--check looks for problems: it resolves the primary's name, connects to its port
and compares its clock, compares the numbers of workers and accelerators, and
checks /dev/shm and what the kernel kills when memory runs out. Exit codes: 0 no
problem found; 69 the primary cannot be reached or refuses this node; 64 wrong
command line; 65 what the platform provides cannot be read; 1 other problems.
)";
}

int EnvCommand(const Invocation& invocation) {
  const auto command_line = ParseCommandLine(EnvOptions(), invocation.arguments, "muster env");
  if (!command_line.ok()) return Complain(command_line.status());
  if (command_line->help) return Print(EnvHelp());

  const Environment environment = ReadEnvironment();
  const Machine machine = ReadMachine(environment);
  const absl::StatusOr<RunPlan> plan = Plan(*command_line, environment, machine);
  if (!plan.ok()) return Complain(plan.status());
  const machine::Interpreter interpreter = machine::ChooseInterpreter(
      environment, {ValueOr<std::string>(plan->settings.program.python, ""), invocation.called_as},
      machine::ProbeFile);
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
