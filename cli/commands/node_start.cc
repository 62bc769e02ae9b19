#include "cli/commands/node_start.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/host/host_process.h"
#include "agent/host/report/job_end.h"
#include "agent/platform/machine/machine_probe.h"
#include "agent/platform/machine/node_facts.h"
#include "agent/platform/notice/notice_watch.h"
#include "base/core/status_macros.h"
#include "base/io/bounded_call.h"
#include "base/io/health.h"
#include "base/io/whole_file.h"
#include "base/proc/run_program.h"
#include "base/wire/facts.h"
#include "cli/commands/launcher_line.h"
#include "cli/launchers/inner_launcher.h"
#include "cli/options/exit_codes.h"
#include "cli/options/log_level.h"
#include "cli/options/option_table.h"
#include "cli/plan/debugger.h"
#include "cli/plan/machine.h"
#include "cli/plan/make_plan.h"
#include "cli/plan/parts.h"
#include "cli/plan/token.h"

namespace muster::cli {
namespace {

constexpr char kPart[] = "host";
constexpr absl::Duration kDebugpySearchLimit = absl::Seconds(10);  // then the worker itself shows what is wrong
constexpr absl::Duration kFactLimit = absl::Seconds(1);            // to read what one fact is made from
constexpr size_t kMaxScriptBytes = 1 << 20;                        // a larger one is not compared
constexpr char kTerminationLog[] = "/dev/termination-log";  // Kubernetes' default path of a termination message

absl::Status CheckScriptIsGiven(const RunPlan& plan, const std::string& command) {
  if (!plan.launch.program.empty() || plan.host.config.role() == v1::ROLE_OBSERVER) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("no SCRIPT was given (see ", command, " --help)"));
}

absl::StatusOr<host::HostEnd> RunWithLog(RunPlan plan, Severity level) {
  Writer writer;
  RETURN_IF_ERROR(writer.status());
  LogOptions log;
  log.level = level;
  log.json = plan.host.config.log_json();
  log.quiet_fd = plan.host.config.log_split() ? STDOUT_FILENO : STDERR_FILENO;
  log.run_id = plan.host.config.run_id();
  log.host = plan.host.config.hostname();
  if (plan.host.config.has_place()) SetLogContext({.node = plan.host.config.place()});
  log.writer = &writer;
  InitLog(log);
  Log(Severity::kInfo, kPart, Summary(plan));
  for (const std::string& note : plan.shown.notes) Log(Severity::kInfo, kPart, note);
  for (const std::string& warning : plan.shown.warnings) Log(Severity::kWarning, kPart, warning);
  if (!plan.counted.reason.empty()) Log(Severity::kInfo, kPart, plan.counted.reason);
  if (!plan.interpreter.reason.empty()) Log(Severity::kInfo, kPart, plan.interpreter.reason);
  if (plan.check.exit_code != 0) Log(Severity::kError, kPart, plan.check.problem);
  LogOptions direct;
  direct.level = level;
  direct.json = plan.host.config.log_json();
  absl::StatusOr<host::HostEnd> end = host::RunHost(std::move(plan.host), std::move(plan.launch), &writer);
  if (!end.ok()) writer.Flush(kFlushLimit);  // otherwise the host has flushed it
  InitLog(direct);                           // the writer is destroyed on return
  return end;
}

// The given options that this node ignores because it uses a separate coordinator.
std::string IgnoredOptions(const CommandLine& line) {
  std::vector<std::string> names;
  for (const auto& [name, value] : line.given) {
    if (HasFlag(name, kDecides)) names.push_back("--" + name);
  }
  return absl::StrJoin(names, ", ");
}

// Adds what identifies the workers' Python and the script. If a file system does not answer in time, its fact is
// left out, and the worker shows what is wrong.
void TakeFactsOfProgram(const RunPlan& plan, machine::Facts* facts) {
  if (plan.no_python || plan.check.exit_code != 0) return;
  const auto target = CallWithin(kFactLimit, [python = plan.check.path] {
    std::error_code error;
    return std::filesystem::canonical(python, error).string();
  });
  if (const std::string python = target ? machine::PythonFact(plan.check.path, *target) : ""; !python.empty())
    (*facts)[kPythonFact] = python;
  if (IsOn(plan.settings.program.module) || !plan.launch.setup.empty()) return;  // --node-setup may fetch it
  const auto script = CallWithin(
      kFactLimit, [script = plan.launch.program] { return machine::ReadRegularFile(script, kMaxScriptBytes); });
  if (script && script->ok()) (*facts)[kScriptFact] = machine::ContentFact(**script);
}

// Collects facts that should be the same on all nodes; the coordinator names nodes that differ.
void TakeFacts(const Environment& environment, const machine::MachineProbe& probe, RunPlan* plan) {
  if (plan->host.config.single_node() || plan->host.config.role() == v1::ROLE_OBSERVER) return;
  machine::Facts facts = machine::MachineFacts(environment, probe);
  facts["the program"] = machine::ArgumentsFact(plan->launch.program, plan->script_arguments);
  TakeFactsOfProgram(*plan, &facts);
  // Each node acts on its own, so the primary's value does not count for all.
  if (const auto& debug = plan->settings.workers.debug)
    facts["the rank of --debug"] = machine::FactValue(debug->text);
  for (const SettingLine& setting : plan->shown.lines) {
    const bool is_ignored = plan->host.config.coordinator_alone() && HasFlag(setting.name, kDecides);
    if (is_ignored || !HasFlag(setting.name, kCompared)) continue;
    facts["--" + setting.name] = machine::FactValue(setting.value);
  }
  plan->host.config.mutable_facts()->insert(facts.begin(), facts.end());
}

// Writes an error before the start to the platform's failure file, too, which its console shows.
void ReportToPlatform(const Environment& environment, const absl::Status& status) {
  const discovery::ContainerConventions* const container = ContainerHere(environment, machine::ProbeFile);
  if (container == nullptr) return;
  const std::string file = FailureFile(*container, environment);
  const absl::Status written = FillFile(file, absl::StrCat("muster: ", status.message(), "\n"));
  // The default folder is missing only if the platform's files are tried out on another machine.
  if (absl::IsNotFound(written) && file == container->failure_file) return;
  if (!written.ok()) Complain(written);
}

// A fault of this option's value, wherever it comes from.
absl::Status FaultOf(std::string_view option, const RunPlan& plan, const absl::Status& why) {
  if (why.ok()) return why;
  for (const SettingLine& line : plan.shown.lines) {
    if (line.name != option) continue;
    return Fault(line.origin.starts_with("--") ? Origin::kFlag : Origin::kMusterVariable, line.origin, line.value,
                 std::string(AsStd(why.message())));
  }
  return why;
}

absl::Status TakeNoticeFile(RunPlan* plan) {
  return FaultOf("preemption-notice", *plan, agent::TakeFileAsItIs(plan->host.config.mutable_notice()));
}

// Else a job would run for days, and its report would be lost.
absl::Status CheckReport(const RunPlan& plan) {
  return FaultOf("report", plan, host::CheckReportFolder(plan.launch.report.report_file));
}

}  // namespace

absl::Status CheckNoLauncherInside(const CommandLine& line, const RunPlan& plan, std::string_view command) {
  RETURN_IF_ERROR(CheckNoLauncherIn(line));
  if (plan.no_python || IsOn(plan.settings.program.module)) return absl::OkStatus();
  const bool is_file = IsFileHere(line.script);
  if (const std::optional<std::string> instead = LineInstead(line, is_file, command)) {
    return absl::InvalidArgumentError(
        absl::StrCat(line.script, ": muster starts the workers itself; type: ", *instead));
  }
  if (const std::optional<std::string> instead = ShellLineInstead(line, is_file, command)) {
    return absl::InvalidArgumentError(
        absl::StrCat(line.script, ": expected a Python script; for a program of its own type: ", *instead));
  }
  return absl::OkStatus();
}

absl::StatusOr<ReadyNode> MakeReady(const NodeSource& source, const Invocation& invocation,
                                    StartupSignals* startup_signals) {
  const auto& [line, environment, workers_inherit, notes] = source;
  Machine machine = ReadMachine(environment);
  machine.on_retryable_exit_code = [startup_signals](int code) { startup_signals->SetRetryableExitCode(code); };
  absl::StatusOr<RunPlan> plan = Plan(line, environment, machine);
  if (!plan.ok()) {
    ReportToPlatform(environment, plan.status());
    return plan.status();
  }
  if (invocation.command == kLocalCommand) plan->view.source = kLocalCommand;  // which made its CLUSTER_SPEC
  RETURN_IF_ERROR(CheckNoLauncherInside(line, *plan));
  plan->shown.notes.insert(plan->shown.notes.end(), notes.begin(), notes.end());
  if (const std::string names = IgnoredOptions(line); plan->host.config.coordinator_alone() && !names.empty()) {
    plan->shown.warnings.push_back(names + ": ignored with --coordinator; set it on muster coordinator");
  }
  RETURN_IF_ERROR(CheckScriptIsGiven(*plan, invocation.command));
  ASSIGN_OR_RETURN(const Severity level, LogLevel(environment));
  RETURN_IF_ERROR(TakeNoticeFile(&*plan));
  RETURN_IF_ERROR(CheckReport(*plan));
  PlanProgram(ReadProcess(workers_inherit, invocation.called_as), &*plan);
  TakeFacts(environment, machine::SystemProbe(), &*plan);
  plan->launch.ends_orphans = plan->host.config.run_id() != machine.random_run_id;
  if (plan->host.config.single_node()) TakeDebugpy(&*plan);
  if (access(kTerminationLog, W_OK) == 0) plan->launch.report.termination_log = kTerminationLog;
  return ReadyNode{*std::move(plan), level};
}

void TakeDebugpy(RunPlan* plan) {
  const Given<DebugChoice>& debug = plan->settings.workers.debug;
  if (plan->check.exit_code != 0 || !debug || !debug->value.port || plan->launch.argv.empty()) return;
  const std::string interpreter = plan->check.path;
  const auto found = RunProgram(FindDebugpy(interpreter), kDebugpySearchLimit);
  if (found.ok() && found->exit_code == kNoModule) plan->check = WithoutDebugpy(*debug, interpreter);
}

bool EndsUnstarted(const ReadyNode& node) {
  return node.plan.check.exit_code != 0 && node.plan.host.config.single_node();
}

int EndUnstarted(const ReadyNode& node) {
  const machine::ProgramCheck& check = node.plan.check;
  Complain(absl::NotFoundError(check.problem));
  host::JobEnd end = host::AboutThisNode(node.plan.host.config, node.plan.launch.program);
  end.exit_code = check.exit_code;
  end.origin = "muster";
  end.reason = check.problem;
  end.ended = end.started;
  host::WriteReports(node.plan.launch.report, end);
  return check.exit_code;
}

absl::Status CheckRoom(const ReadyNode& node) {
  return CheckDescriptors(host::LeastDescriptors(node.plan.launch, node.plan.host.config.single_node()));
}

int BecomeHost(ReadyNode node, const Inherited& inherited, StartupSignals* startup_signals) {
  RunPlan& plan = node.plan;
  host::LaunchPlan& launch = plan.launch;
  if (const absl::Status room = CheckRoom(node); !room.ok()) return Complain(room);
  if (HasCredentials(plan.host.config)) KeepMemoryPrivate();
  launch.process = inherited;
  if (!launch.health.valid()) launch.health = ListenForHealth();
  launch.before_start = [startup_signals] { startup_signals->Stop(); };
  const absl::StatusOr<host::HostEnd> end = RunWithLog(std::move(plan), node.level);
  if (!end.ok()) return Complain(absl::ResourceExhaustedError(end.status().message()));
  std::fflush(nullptr);
  if (end->signal != 0) EndBySignal(end->signal);
  return end->exit_code;
}

}  // namespace muster::cli
