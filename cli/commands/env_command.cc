// `muster env` prints the plan of `muster run` with the origin of each value, or with --check the problems found.
// Starts nothing.
#include <cstdio>
#include <optional>
#include <utility>

#include "base/core/status_macros.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/commands/launcher_line.h"
#include "cli/commands/node_start.h"
#include "cli/env/env_check.h"
#include "cli/env/env_probe.h"
#include "cli/env/env_report.h"
#include "cli/options/exit_codes.h"
#include "cli/options/option_table.h"
#include "cli/plan/machine.h"
#include "cli/plan/make_plan.h"
#include "cli/plan/program.h"

namespace muster::cli {

const std::vector<OptionSpec>& EnvOptions() {
  static const auto* const table =
      WithRunOptions({{"json", "", Group::kOther, kOwn, "Print one JSON object instead of a table."},
                      {"check", "", Group::kOther, kOwn, "Look for problems, and print only these checks."}});
  return *table;
}

std::string EnvHelp() {
  std::string out = R"(Usage: muster env [--json] [--check] [options of muster run] [SCRIPT]

Shows what muster run would do here with the same options: the platform that was
found, the primary (the node to which the others connect), the rank of this
node, the Python interpreter, the accelerators, each setting with its origin,
and the environment of the workers. Starts nothing and, without --check,
connects to nothing. Values of variables whose names look like secrets are
masked.

  muster env                                the settings, as a table
  muster env --nproc-per-node gpu --lease 5s
                                            with these options of muster run
  muster env --check train.py               the problems, for this script

--check looks for problems: it resolves the primary's name, connects to its port
and compares its clock, compares the numbers of workers and accelerators, looks
for torch in the workers' Python, and checks /dev/shm and what the kernel kills
when memory runs out.
)";
  AppendGroup(EnvOptions(), Group::kOther, "In addition to the options of muster run", &out);
  out += R"(
Exit codes:
  0    no problem found
  1    a problem was found, other than those below
  64   wrong command line
  65   wrong environment: a variable, what the platform provides, or a file of
       tokens, certificates or hosts that is missing or wrong
  69   with --check: the primary cannot be reached, or refuses this node
)";
  return out;
}

int EnvCommand(const Invocation& invocation) {
  auto command_line = ParseCommandLine(EnvOptions(), invocation.arguments, "muster env");
  if (!command_line.ok()) return Complain(command_line.status());
  if (command_line->help) return Print(EnvHelp());

  Environment environment = ReadEnvironment();
  const absl::StatusOr<std::optional<InnerLauncher>> launcher = LauncherIn(*command_line);
  if (!launcher.ok()) return Complain(launcher.status());
  if (*launcher) {
    absl::StatusOr<JoinedLine> joined = TakeOver(**launcher, *command_line, &environment);
    if (!joined.ok()) return Complain(joined.status());
    for (const std::string& note : joined->notes) std::fprintf(stderr, "muster: %s\n", note.c_str());
    command_line = std::move(joined->line);
  }
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
  machine::ProgramCheck program = CheckProgramOf(*plan, interpreter, environment, machine::ProbeFile);
  for (const char* own : {"check", "json"}) command_line->given.erase(own);  // the line to type is of muster run
  if (const absl::Status other = CheckNoLauncherInside(*command_line, *plan); !other.ok())
    program = {kExitUsage, std::string(AsStd(other.message())), ""};
  const std::vector<Finding> findings = CheckNode(report, program, SystemCheckProbe());
  const int printed = Print(json ? EnvJson(report, &findings) : CheckTable(findings));
  return printed != 0 ? printed : ExitCodeOf(findings);
}

}  // namespace muster::cli
