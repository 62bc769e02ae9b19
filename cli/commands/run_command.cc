// `muster run`, also by the name of another launcher or with one in the place of the script: becomes the host of a
// node, or the sidecar of one.
#include <unistd.h>

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "agent/host/init.h"
#include "base/core/status_macros.h"
#include "base/proc/process_setup.h"
#include "cli/commands/commands.h"
#include "cli/commands/completion.h"
#include "cli/commands/help.h"
#include "cli/commands/launcher_line.h"
#include "cli/commands/node_start.h"
#include "cli/commands/sidecar_form.h"
#include "cli/commands/startup_signals.h"
#include "cli/options/deepspeed.h"
#include "cli/options/option_table.h"
#include "cli/plan/machine.h"

namespace muster::cli {
namespace {

constexpr char kAsTorchrun[] = R"(
muster, called by this name, takes the options of torchrun and its own, and
reads them as torchrun does: the job is this node alone without --nnodes, unless
a platform that starts each node names others: CLUSTER_SPEC, SageMaker's file, a
pod's number, a step of srun, a task of PBS, SkyPilot, dstack or Volcengine.
)";
constexpr char kEverywhere[] = "  muster run train.py                              in a container on every node\n";

int RunLine(const CommandLine& line, const Environment& environment, const std::vector<std::string>& notes,
            const Invocation& invocation, const Inherited& inherited, StartupSignals* startup_signals) {
  absl::StatusOr<ReadyNode> node =
      MakeReady({.line = line, .environment = environment, .workers_inherit = environment, .notes = notes},
                invocation, startup_signals);
  if (!node.ok()) return Complain(node.status());
  if (EndsUnstarted(*node)) return EndUnstarted(*node);
  return BecomeHost(*std::move(node), inherited, startup_signals);
}

// `muster run torchrun ...` and the like, as under the launcher's own name.
int RunInnerLauncher(const InnerLauncher& launcher, const CommandLine& line, Environment* environment,
                     Invocation invocation, const Inherited& inherited, StartupSignals* startup_signals) {
  const absl::StatusOr<JoinedLine> joined = TakeOver(launcher, line, environment);
  if (!joined.ok()) return Complain(joined.status());
  invocation.command = launcher.kind == LauncherKind::kDeepspeed ? "deepspeed" : kTorchrun;
  if (joined->line.help)
    return Print(invocation.command == kTorchrun ? RunHelp(invocation.command) : DeepspeedHelp());
  return RunLine(joined->line, *environment, joined->notes, invocation, inherited, startup_signals);
}

void AppendOptions(std::string* out) {
  const auto& table = RunOptions();
  AppendGroup(table, Group::kMembership, "Membership (read from the platform where there is one)", out);
  AppendGroup(table, Group::kWorkers, "Workers of this node", out);
  AppendGroup(table, Group::kRestarts, kRestartsTitle, out);
  AppendGroup(table, Group::kTimes, kTimesTitle, out);
  AppendGroup(table, Group::kProgram, "Program", out);
  AppendGroup(table, Group::kOutput, "Output and report", out);
  AppendGroup(table, Group::kTorchrun, "Options of torchrun, accepted for compatibility", out);
}

}  // namespace

std::string RunHelp() { return RunHelp("muster run"); }

std::string RunHelp(std::string_view command) {
  std::string out = absl::StrCat("Usage: ", AsAbsl(command), " [options] [--] SCRIPT [ARGS]\n");
  const bool as_torchrun = command == kTorchrun;
  if (as_torchrun) out += kAsTorchrun;
  out += absl::StrReplaceAll(R"(
Runs this node's workers of a job. All arguments after SCRIPT are passed to it;
in them, as with torchrun, $local_rank is replaced, and $$ becomes $.

EVERYWHERE  COMMAND --nproc-per-node gpu train.py         on one machine, all its GPUs
  COMMAND --nnodes 2 --node-rank 1 --master-addr A train.py
                          on node 1 of 2; A is the name or address of node 0
  COMMAND --nnodes 2:4 ELASTIC --rdzv-endpoint A:29400 train.py
                          on each of 2 to 4 nodes; A is one of them

SCRIPT may also be the line of torchrun, python -m torch.distributed.run (or
launch), deepspeed, accelerate launch or tune run: muster then does its work.

The nodes connect to one of them, the primary. When enough nodes are ready, it
starts the workers of all of them; each such start is a round. A node that is
ready but not needed in the round is a spare, and replaces a lost node.
)",
                             {{"EVERYWHERE", as_torchrun ? "" : kEverywhere},
                              {"ELASTIC", as_torchrun ? "--rdzv-backend c10d" : "--rdzv-id job1"},
                              {"COMMAND", AsAbsl(command)}});
  out += R"(
Each option can also be set by a variable: --node-rank by MUSTER_NODE_RANK, and
options of torchrun by PET_NODE_RANK, too. The command line takes precedence,
then MUSTER_, then PET_, then the platform. Names of options may be written with
dashes or underscores.
)";
  AppendTimeSyntax(&out);
  AppendOptions(&out);
  AppendSources(&out);
  AppendVariables(&out);
  out += R"(
"muster env" shows the settings that result on this machine, and their origins;
it takes the same options. "muster --help" lists the exit codes.
)";
  return out;
}

std::string DeepspeedHelp() {
  std::string out = R"(Usage: deepspeed [options] SCRIPT [ARGS]

muster, called by this name, takes the options of DeepSpeed. There is no SSH:
for several hosts run the same command on each of them; each host finds its rank
in the hostfile (or set --node_rank). For muster's own options: muster run -h.
)";
  const auto& table = DeepspeedOptions();
  AppendGroup(table, Group::kMembership, "Hosts", &out);
  AppendGroup(table, Group::kWorkers, "Workers", &out);
  AppendGroup(table, Group::kProgram, "Program", &out);
  AppendGroup(table, Group::kOutput, "Output", &out);
  AppendGroup(table, Group::kTorchrun, "Accepted without effect", &out);
  return out;
}

int RunCommand(const Invocation& invocation) {
  if (getpid() == 1) return host::RunInit(invocation.argv);
  auto command_line = ParseCommandLine(RunOptions(), invocation.arguments, invocation.command);
  if (command_line.ok() && command_line->help) return Print(RunHelp(invocation.command));
  absl::StatusOr<std::optional<InnerLauncher>> launcher = std::nullopt;
  if (command_line.ok()) launcher = LauncherIn(*command_line);
  if (!launcher.ok()) return Complain(launcher.status());
  const std::string socket = HostSocketOf(command_line, invocation.arguments, ReadEnvironment());
  // A launcher in Python needs the whole environment, and executes muster again in the end.
  if (socket.empty() && *launcher && (*launcher)->kind == LauncherKind::kPython) {
    return BecomePythonLauncher(**launcher, *command_line, invocation.called_as);
  }
  Environment environment = TakeEnvironment();
  if (!socket.empty()) return RunAsSidecar(command_line, environment, invocation, socket);
  if (!command_line.ok()) return Complain(command_line.status());
  if (const auto shell = command_line->given.find("print-completion"); shell != command_line->given.end()) {
    const absl::StatusOr<std::string> script = CompletionScript(shell->second);
    if (script.ok()) return Print(*script);
    return Complain(
        Fault(Origin::kFlag, "--print-completion", shell->second, std::string(AsStd(script.status().message()))));
  }
  const Inherited inherited = PrepareProcess();
  StartupSignals startup_signals(inherited);
  if (*launcher)
    return RunInnerLauncher(**launcher, *command_line, &environment, invocation, inherited, &startup_signals);
  return RunLine(*command_line, environment, {}, invocation, inherited, &startup_signals);
}

int DeepspeedCommand(const Invocation& invocation) {
  if (getpid() == 1) return host::RunInit(invocation.argv);
  const Inherited inherited = PrepareProcess();
  StartupSignals startup_signals(inherited);
  Environment environment = TakeEnvironment();
  const absl::StatusOr<JoinedLine> read = TakeDeepspeedLine(invocation.arguments, &environment);
  if (!read.ok()) return Complain(read.status());
  if (read->line.help) return Print(DeepspeedHelp());
  return RunLine(read->line, environment, read->notes, invocation, inherited, &startup_signals);
}

}  // namespace muster::cli
