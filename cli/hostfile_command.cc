// `muster hostfile`: the nodes that `muster run` would meet, as DeepSpeed's hostfile.
#include "agent/discovery/hostfile_view.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/machine.h"
#include "cli/option_table.h"
#include "proto/base/status_macros.h"

namespace muster::cli {

int HostfileCommand(const Invocation& invocation) {
  auto command_line = ParseCommandLine(HostfileCommandOptions(), invocation.arguments, "muster hostfile");
  if (!command_line.ok()) return Complain(command_line.status());
  if (command_line->help) return Print(HostfileHelp());
  const Environment environment = ReadEnvironment();
  const Machine machine = ReadMachine(environment);
  // They are then those of every place, whatever this one has.
  const auto slots = command_line->given.find("slots");
  if (slots != command_line->given.end()) command_line->given["nproc-per-node"] = slots->second;
  absl::StatusOr<RunPlan> plan = Plan(*command_line, environment, machine);
  if (!plan.ok()) return Complain(plan.status());
  if (slots != command_line->given.end()) plan->view.slots.clear();
  const absl::StatusOr<std::string> text = discovery::WriteHostfile(plan->view, plan->config.slots());
  return text.ok() ? Print(*text) : Complain(absl::FailedPreconditionError(text.status().message()));
}

}  // namespace muster::cli
