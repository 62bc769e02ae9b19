// `muster run`, also by the name of another launcher: becomes the host of a node, or the sidecar of one.
#include <unistd.h>

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "agent/host/init.h"
#include "agent/platform/machine/machine_probe.h"
#include "base/core/status_macros.h"
#include "base/proc/process_setup.h"
#include "cli/commands/commands.h"
#include "cli/commands/completion.h"
#include "cli/commands/help.h"
#include "cli/commands/node_start.h"
#include "cli/commands/sidecar_form.h"
#include "cli/commands/startup_signals.h"
#include "cli/options/deepspeed.h"
#include "cli/options/option_table.h"
#include "cli/plan/machine.h"
#include "rendezvous/transport/address.h"

namespace muster::cli {
namespace {

constexpr char kVisibleDevices[] = "CUDA_VISIBLE_DEVICES";
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

std::vector<std::string> DeepspeedEnvFiles(const Environment& environment) {
  const auto named = environment.find("DS_ENV_FILE"), home = environment.find("HOME");
  const std::string name = named == environment.end() || named->second.empty() ? ".deepspeed_env" : named->second;
  if (name.front() == '/' || home == environment.end()) return {name};
  return {absl::StrCat(home->second, "/", name), name};
}

DeepspeedMachine ThisMachine(const Environment& environment, const std::string& hostname) {
  return {.read_file = machine::ReadRegularFile,
          .is_here =
              [hostname](const std::string& host) {
                // A pod's name in DNS appears only after its start, and its host name has no domain.
                const bool is_named = host == hostname || host.starts_with(hostname + ".");
                return is_named || rendezvous::IsLocalAddress(host).value_or(false);
              },
          .count_devices =
              [&environment] { return machine::CountAccelerators(environment, machine::SystemProbe()).count; },
          .env_files = DeepspeedEnvFiles(environment)};
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
  const Environment environment = TakeEnvironment();
  const std::string socket = HostSocketOf(command_line, invocation.arguments, environment);
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
  return RunLine(*command_line, environment, {}, invocation, inherited, &startup_signals);
}

int DeepspeedCommand(const Invocation& invocation) {
  if (getpid() == 1) return host::RunInit(invocation.argv);
  const Inherited inherited = PrepareProcess();
  StartupSignals startup_signals(inherited);
  Environment environment = TakeEnvironment();
  const absl::StatusOr<DeepspeedLine> read =
      ReadDeepspeedLine(invocation.arguments, ThisMachine(environment, ReadMachine(environment).hostname));
  if (!read.ok()) return Complain(read.status());
  if (read->line.help) return Print(DeepspeedHelp());
  for (const auto& [name, value] : read->variables) environment[name] = value;
  if (!read->visible_devices.empty()) environment[kVisibleDevices] = read->visible_devices;
  return RunLine(read->line, environment, read->notes, invocation, inherited, &startup_signals);
}

}  // namespace muster::cli
