// `muster hostfile`: prints the nodes of the job that `muster run` would join as a DeepSpeed hostfile.
#include "agent/platform/discovery/hostfile_view.h"
#include "base/core/status_macros.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/options/option_table.h"
#include "cli/options/settings.h"
#include "cli/options/values.h"
#include "cli/plan/machine.h"
#include "cli/plan/make_plan.h"

namespace muster::cli {

const std::vector<OptionSpec>& HostfileCommandOptions() {
  static const auto* const table =
      WithRunOptions({{"slots", "N", Group::kOther, kOwn,
                       "Slots of each host. Default: those of the hostfile that is read, else "
                       "the number of workers that this node would start."}});
  return *table;
}

std::string HostfileHelp() {
  std::string out = R"(Usage: muster hostfile [--slots N] [options of muster run]

Prints the nodes of the job that `muster run` would join as a DeepSpeed
hostfile, in the order of their ranks. Starts nothing.
)";
  AppendGroup(HostfileCommandOptions(), Group::kOther, "In addition to the options of muster run", &out);
  return out;
}

int HostfileCommand(const Invocation& invocation) {
  auto command_line = ParseCommandLine(HostfileCommandOptions(), invocation.arguments, "muster hostfile");
  if (!command_line.ok()) return Complain(command_line.status());
  if (command_line->help) return Print(HostfileHelp());
  const Environment environment = ReadEnvironment();
  const Machine machine = ReadMachine(environment);
  // --slots holds for every node, whatever accelerators this one has.
  const auto slots = command_line->given.find("slots");
  int count = 0;
  if (slots != command_line->given.end()) {
    const absl::StatusOr<SlotCount> given = ParseSlotCount(slots->second);
    if (!given.ok()) {
      return Complain(
          Fault(Origin::kFlag, "--slots", slots->second, std::string(AsStd(given.status().message()))));
    }
    count = given->kind == SlotCount::kNumber ? given->number : 0;
    command_line->given["nproc-per-node"] = slots->second;
  }
  absl::StatusOr<RunPlan> plan = Plan(*command_line, environment, machine);
  if (!plan.ok()) return Complain(plan.status());
  if (slots != command_line->given.end()) plan->view.slots.clear();
  if (count == 0) count = plan->host.config.slots();
  if (count == 0) {
    return Complain(absl::FailedPreconditionError(
        "--slots is missing: this node does not train and has no workers to count; give the number of workers of "
        "each node"));
  }
  const absl::StatusOr<std::string> text = discovery::WriteHostfile(plan->view, count);
  return text.ok() ? Print(*text) : Complain(absl::FailedPreconditionError(text.status().message()));
}

}  // namespace muster::cli
