// `muster run`: plans, checks the program, logs the plan and becomes the host.
#include <unistd.h>

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "agent/host/host_process.h"
#include "agent/host/init.h"
#include "agent/host/report/job_end.h"
#include "agent/machine/machine_probe.h"
#include "agent/machine/node_facts.h"
#include "agent/notice/notice_watch.h"
#include "base/console/log.h"
#include "base/proc/process_setup.h"
#include "base/status_macros.h"
#include "cli/commands/commands.h"
#include "cli/commands/completion.h"
#include "cli/commands/help.h"
#include "cli/commands/startup_signals.h"
#include "cli/options/deepspeed.h"
#include "cli/options/exit_codes.h"
#include "cli/options/known_launchers.h"
#include "cli/options/log_level.h"
#include "cli/options/option_table.h"
#include "cli/plan/container.h"
#include "cli/plan/launch.h"
#include "cli/plan/machine.h"
#include "rendezvous/transport/address.h"

namespace muster::cli {
namespace {

constexpr char kPart[] = "host";
constexpr char kVisibleDevices[] = "CUDA_VISIBLE_DEVICES";
constexpr char kTerminationLog[] = "/dev/termination-log";  // Kubernetes' default path of a termination message

absl::Status CheckScriptIsGiven(const RunPlan& plan, const std::string& command) {
  if (!plan.script.empty() || plan.config.role() == v1::ROLE_OBSERVER) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("no SCRIPT was given (see ", command, " --help)"));
}

// Refuses `muster run python train.py` and the like, with the line to type instead.
absl::Status CheckNoLauncherInside(const CommandLine& line, const RunPlan& plan) {
  if (plan.no_python || IsOn(plan.settings.program.module)) return absl::OkStatus();
  const std::optional<std::string> instead =
      LineInstead(line, access(line.script.c_str(), F_OK) == 0 && line.script.find('/') == std::string::npos);
  if (!instead) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(line.script, ": muster starts the workers itself; type: ", *instead));
}

absl::StatusOr<host::HostEnd> RunWithLog(const RunPlan& plan, Launch launch, Severity level) {
  Writer writer;
  RETURN_IF_ERROR(writer.status());
  LogOptions log;
  log.level = level;
  log.json = plan.config.log_json();
  log.quiet_fd = plan.config.log_split() ? STDOUT_FILENO : STDERR_FILENO;
  log.run_id = plan.config.run_id();
  log.host = plan.config.hostname();
  if (plan.config.has_place()) SetLogContext({.node = plan.config.place()});
  log.writer = &writer;
  InitLog(log);
  Log(Severity::kInfo, kPart, Summary(plan));
  for (const std::string& note : plan.notes) Log(Severity::kInfo, kPart, note);
  for (const std::string& warning : plan.view.warnings) Log(Severity::kWarning, kPart, warning);
  if (!plan.slots_reason.empty()) Log(Severity::kInfo, kPart, plan.slots_reason);
  if (!launch.interpreter.reason.empty()) Log(Severity::kInfo, kPart, launch.interpreter.reason);
  if (launch.check.exit_code != 0) Log(Severity::kError, kPart, launch.check.problem);
  absl::StatusOr<host::HostEnd> end = host::RunHost(std::move(launch.host), std::move(launch.plan), &writer);
  if (!end.ok()) writer.Flush(kFlushLimit);  // otherwise the host has flushed it
  LogOptions direct;
  direct.level = level;
  direct.json = plan.config.log_json();
  InitLog(direct);  // the writer is destroyed on return
  return end;
}

int BecomeHost(const RunPlan& plan, Launch launch, const Inherited& inherited, Severity level,
               StartupSignals* startup_signals) {
  const absl::Status enough = CheckDescriptors(host::LeastDescriptors(launch.plan, plan.config.single_node()));
  if (!enough.ok()) return Complain(enough);
  launch.plan.process = inherited;
  launch.plan.before_start = [startup_signals] { startup_signals->Stop(); };
  const absl::StatusOr<host::HostEnd> end = RunWithLog(plan, std::move(launch), level);
  if (!end.ok()) return Complain(absl::ResourceExhaustedError(end.status().message()));
  std::fflush(nullptr);
  if (end->signal != 0) EndBySignal(end->signal);
  return end->exit_code;
}

// The given options that this node ignores because it uses a separate coordinator.
std::string IgnoredOptions(const CommandLine& line) {
  std::vector<std::string> names;
  for (const auto& [name, value] : line.given) {
    if (IsCoordinatorsOption(name)) names.push_back("--" + name);
  }
  return absl::StrJoin(names, ", ");
}

// Collects facts that should be the same on all nodes; the coordinator names nodes that differ.
void TakeFacts(const Environment& environment, const machine::MachineProbe& probe, RunPlan* plan) {
  if (plan->config.single_node() || plan->config.role() == v1::ROLE_OBSERVER) return;
  machine::Facts facts = machine::MachineFacts(environment, probe);
  facts["the program"] = machine::ArgumentsFact(plan->script, plan->script_arguments);
  for (const SettingLine& setting : plan->lines) {
    const bool of_the_job = IsRestartPolicyOption(setting.name) || setting.name == "lease";
    // With --coordinator the nodes' values are ignored.
    if (!of_the_job || plan->config.coordinator_alone()) continue;
    facts["--" + setting.name] = machine::FactValue(setting.value);
  }
  plan->config.mutable_facts()->insert(facts.begin(), facts.end());
}

// Writes an error before the start to the platform's failure file, too, which its console shows.
void ReportToPlatform(const Environment& environment, const absl::Status& status) {
  const discovery::ContainerConventions* const container = ContainerHere(environment);
  if (container == nullptr) return;
  const std::string file = FailureFile(*container, environment);
  const absl::Status written = host::FillFile(file, absl::StrCat("muster: ", status.message(), "\n"));
  // The default folder is missing only if the platform's files are tried out on another machine.
  if (absl::IsNotFound(written) && file == container->failure_file) return;
  if (!written.ok()) Complain(written);
}

absl::Status TakeNoticeFile(RunPlan* plan) {
  v1::NoticeSource* const notice = plan->config.mutable_notice();
  absl::Status usable = agent::TakeFileAsItIs(notice);
  if (usable.ok()) return usable;
  for (const SettingLine& line : plan->lines) {
    if (line.name != "preemption-notice") continue;
    return Fault(line.origin.starts_with("--") ? Origin::kFlag : Origin::kMusterVariable, line.origin, line.value,
                 std::string(AsStd(usable.message())));
  }
  return usable;
}

// notes: logged in addition to those of the plan.
int RunLine(const CommandLine& command_line, const Environment& environment, const std::vector<std::string>& notes,
            const Invocation& invocation, const Inherited& inherited, StartupSignals* startup_signals) {
  Machine machine = ReadMachine(environment);
  machine.on_retryable_exit_code = [startup_signals](int code) { startup_signals->SetRetryableExitCode(code); };
  absl::StatusOr<RunPlan> plan = Plan(command_line, environment, machine);
  if (!plan.ok()) {
    ReportToPlatform(environment, plan.status());
    return Complain(plan.status());
  }
  if (invocation.command == kLocalCommand) plan->view.source = kLocalCommand;  // which made its CLUSTER_SPEC
  if (const absl::Status sane = CheckNoLauncherInside(command_line, *plan); !sane.ok()) return Complain(sane);
  plan->notes.insert(plan->notes.end(), notes.begin(), notes.end());
  if (const std::string names = IgnoredOptions(command_line); plan->config.coordinator_alone() && !names.empty()) {
    plan->view.warnings.push_back(names + ": ignored with --coordinator; set it on muster coordinator");
  }
  if (const absl::Status given = CheckScriptIsGiven(*plan, invocation.command); !given.ok())
    return Complain(given);
  const absl::StatusOr<Severity> level = LogLevel(environment);
  if (!level.ok()) return Complain(level.status());

  if (const absl::Status usable = TakeNoticeFile(&*plan); !usable.ok()) return Complain(usable);
  TakeFacts(environment, machine::SystemProbe(), &*plan);
  Launch launch = PrepareLaunch(*plan, environment, machine.host_id, invocation.called_as, machine::ProbeFile);
  launch.plan.ends_orphans = plan->config.run_id() != machine.random_run_id;
  if (access(kTerminationLog, W_OK) == 0) launch.plan.report.termination_log = kTerminationLog;
  if (launch.check.exit_code != 0 && plan->config.single_node()) {
    Complain(absl::NotFoundError(launch.check.problem));
    host::JobEnd end = host::AboutThisNode(plan->config, launch.plan.program);
    end.exit_code = launch.check.exit_code;
    end.origin = "muster";
    end.reason = launch.check.problem;
    end.ended = end.started;
    host::WriteReports(launch.plan.report, end);
    return launch.check.exit_code;
  }
  return BecomeHost(*plan, std::move(launch), inherited, *level, startup_signals);
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
                return host == hostname || rendezvous::IsLocalAddress(host).value_or(false);
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
  if (command != "muster run")
    out += "\nmuster, called by this name, takes the options of torchrun and its own.\n";
  out += absl::StrReplaceAll(R"(
Runs this node's workers of a job. All arguments after SCRIPT are passed to it;
in them, as with torchrun, $local_rank is replaced, and $$ becomes $.

  COMMAND train.py                              in a container on every node
  COMMAND --nproc-per-node gpu train.py         on one machine, all its GPUs
  COMMAND --nnodes 2 --node-rank 1 --master-addr A train.py
                          on node 1 of 2; A is the name or address of node 0
  COMMAND --nnodes 2:4 --rdzv-endpoint A:29400 --rdzv-id job1 train.py
                          on each of 2 to 4 nodes; A is one of them

The nodes connect to one of them, the primary. When enough nodes are ready, it
starts the workers of all of them; each such start is a round. A node that is
ready but not needed in the round is a spare, and replaces a lost node.
)",
                             {{"COMMAND", AsAbsl(command)}});
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
  const auto command_line = ParseCommandLine(RunOptions(), invocation.arguments, invocation.command);
  if (!command_line.ok()) return Complain(command_line.status());
  if (command_line->help) return Print(RunHelp(invocation.command));
  if (const auto shell = command_line->given.find("print-completion"); shell != command_line->given.end()) {
    const absl::StatusOr<std::string> script = CompletionScript(shell->second);
    if (script.ok()) return Print(*script);
    return Complain(
        Fault(Origin::kFlag, "--print-completion", shell->second, std::string(AsStd(script.status().message()))));
  }
  const Inherited inherited = PrepareProcess();
  StartupSignals startup_signals(inherited);
  return RunLine(*command_line, ReadEnvironment(), {}, invocation, inherited, &startup_signals);
}

int DeepspeedCommand(const Invocation& invocation) {
  if (getpid() == 1) return host::RunInit(invocation.argv);
  const Inherited inherited = PrepareProcess();
  StartupSignals startup_signals(inherited);
  Environment environment = ReadEnvironment();
  const absl::StatusOr<DeepspeedLine> read =
      ReadDeepspeedLine(invocation.arguments, ThisMachine(environment, ReadMachine(environment).hostname));
  if (!read.ok()) return Complain(read.status());
  if (read->line.help) return Print(DeepspeedHelp());
  for (const auto& [name, value] : read->variables) environment[name] = value;
  if (!read->visible_devices.empty()) environment[kVisibleDevices] = read->visible_devices;
  return RunLine(read->line, environment, read->notes, invocation, inherited, &startup_signals);
}

}  // namespace muster::cli
