#include "cli/plan/launch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/crypto/whereabouts.h"
#include "base/io/namespaces.h"
#include "base/text/text.h"
#include "cli/plan/debugger.h"
#include "cli/plan/line_prefix.h"
#include "cli/plan/preloading.h"

namespace muster::cli {
namespace {

machine::ProgramKind KindOf(const RunPlan& run) {
  if (run.no_python) return machine::ProgramKind::kProgram;
  return IsOn(run.settings.program.module) ? machine::ProgramKind::kModule : machine::ProgramKind::kScript;
}

// The streams of `muster local` that are terminals, from its variable.
host::Streams RedrawsPass(const Environment& environment) {
  const auto found = environment.find(kRedrawsVariable);
  unsigned streams = 0;
  if (found == environment.end() || !absl::SimpleAtoi(found->second, &streams)) return host::Streams::kNone;
  return static_cast<host::Streams>(streams & static_cast<unsigned>(host::Streams::kBoth));
}

// The files behind the streams of `muster local`, from its variable; malformed entries are skipped.
std::vector<host::StreamFile> OuterStreams(const Environment& environment) {
  std::vector<host::StreamFile> streams;
  const auto found = environment.find(kStreamsVariable);
  if (found == environment.end()) return streams;
  for (const absl::string_view each : absl::StrSplit(found->second, ',')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(each, ':');
    host::StreamFile stream;
    const bool good = fields.size() == 3 && absl::SimpleAtoi(fields[0], &stream.fd) &&
                      absl::SimpleAtoi(fields[1], &stream.device) && absl::SimpleAtoi(fields[2], &stream.inode) &&
                      (stream.fd == STDOUT_FILENO || stream.fd == STDERR_FILENO);
    if (good) streams.push_back(stream);
  }
  return streams;
}

// torchrun's --run-path: runs the script as __main__ of the interpreter, whatever its suffix.
constexpr char kRunPath[] = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')";

// Replaces $local_rank, ${local_rank} and $$ like Python's string.Template; other dollars are kept.
std::string SubstituteLocalRank(std::string_view text, int local_rank) {
  constexpr std::string_view kBraced = "${local_rank}", kBare = "$local_rank";
  const auto continues_a_name = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::string result;
  while (!text.empty()) {
    size_t taken = 1;
    if (text.starts_with("$$")) {
      result += '$';
      taken = 2;
    } else if (text.starts_with(kBraced)) {
      absl::StrAppend(&result, local_rank);
      taken = kBraced.size();
    } else if (text.starts_with(kBare) && (text.size() == kBare.size() || !continues_a_name(text[kBare.size()]))) {
      absl::StrAppend(&result, local_rank);
      taken = kBare.size();
    } else {
      result += text[0];
    }
    text.remove_prefix(taken);
  }
  return result;
}

// argv as torchrun builds it: a program gets the name that was typed as argv[0], an interpreter its path and -u;
// ${local_rank} is replaced in the script's arguments. debugger: see DebuggerArguments; empty: none. It runs a
// file of any name, as --run-path does.
std::vector<std::string> WorkerArguments(const RunPlan& run, const std::string& path, int local_rank,
                                         const std::vector<std::string>& debugger) {
  std::vector<std::string> argv = {run.no_python ? SubstituteLocalRank(run.script, local_rank) : path};
  if (!run.no_python) {
    argv.emplace_back("-u");
    argv.insert(argv.end(), debugger.begin(), debugger.end());
    if (IsOn(run.settings.program.run_path) && debugger.empty()) {
      argv.emplace_back("-c");
      argv.emplace_back(kRunPath);
    } else if (IsOn(run.settings.program.module)) {
      argv.emplace_back("-m");
    }
    argv.push_back(SubstituteLocalRank(run.script, local_rank));
  }
  const Given<std::string>& option = run.settings.program.pass_local_rank;
  if (option) argv.push_back(absl::StrCat("--", option->value, "=", local_rank));
  for (const std::string& argument : run.script_arguments) {
    argv.push_back(SubstituteLocalRank(argument, local_rank));
  }
  return argv;
}

host::StdinRule StdinOf(const RunPlan& run) {
  const Given<DebugChoice>& debug = run.settings.workers.debug;
  if (UsesTerminal(debug)) return {host::StdinRule::kRank, debug->value.rank};
  const Given<StdinChoice>& choice = run.settings.workers.stdin_choice;
  if (!choice) return {};
  switch (choice->value.kind) {
    case StdinChoice::kAll:
      return {host::StdinRule::kAll, 0};
    case StdinChoice::kNone:
      return {host::StdinRule::kNone, 0};
    case StdinChoice::kRank:
      return {host::StdinRule::kRank, choice->value.rank};
  }
  return {};
}

bool IsStandardInput(const std::string& script) {
  return script == "-" || script == "/dev/stdin" || script == "/dev/fd/0" || script == "/proc/self/fd/0";
}

bool LeadToOneFile(int a, int b) {
  struct stat first = {}, second = {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// of_local: this is a node of `muster local`.
host::DebuggedRank DebuggedOf(const RunPlan& run, const Setting<DebugChoice>& debug, bool of_local) {
  return {.rank = debug.value.rank,
          .port = debug.value.port,
          .option = ShownWithValue(debug.source, debug.text),
          .hostname = run.config.hostname(),
          .keyboard_is_elsewhere = of_local};
}

// What muster sees of the workers' output even where it changes nothing. A terminal stays the workers' own. The
// end of standard error is kept, for the report of a failure, and standard output where its lines stand among
// those; signs of life show in both.
void ChoosePipes(bool watches_activity, host::OutputPlan* output) {
  output->keeps_lines = watches_activity;
  const bool out = isatty(STDOUT_FILENO) == 0, err = isatty(STDERR_FILENO) == 0;
  output->merged = err && LeadToOneFile(STDOUT_FILENO, STDERR_FILENO);
  const bool takes_out = out && (watches_activity || output->merged);
  output->piped = takes_out && err ? host::Streams::kBoth
                  : takes_out      ? host::Streams::kOut
                  : err            ? host::Streams::kErr
                                   : host::Streams::kNone;
}

}  // namespace

machine::ProgramCheck CheckProgramOf(const RunPlan& run, const machine::Interpreter& interpreter,
                                     const Environment& environment, const machine::FileProbe& probe) {
  if (run.script.empty()) {
    return run.no_python
               ? machine::ProgramCheck{}
               : machine::CheckProgram(machine::ProgramKind::kModule, "", interpreter, environment, probe);
  }
  const Given<DebugChoice>& debug = run.settings.workers.debug;
  if (debug && IsStandardInput(run.script)) {
    return {kExitUsage,
            absl::StrCat("the script ", run.script, " is standard input, which no debugger can show (",
                         debug->source, "): save it as a file"),
            ""};
  }
  if (!run.no_python && IsStandardInput(run.script) && run.config.slots() > 1) {
    return {kExitUsage,
            absl::StrCat("the script ", run.script, " is standard input, which ", run.config.slots(),
                         " workers cannot all read: save it as a file"),
            ""};
  }
  const std::string script = SubstituteLocalRank(run.script, 0);
  machine::ProgramCheck check = machine::CheckProgram(KindOf(run), script, interpreter, environment, probe);
  if (check.exit_code != 0) return check;
  machine::ProgramCheck debugged = CheckDebuggedScript(run.settings, script, probe);
  return debugged.exit_code != 0 ? debugged : check;
}

Launch PrepareLaunch(const RunPlan& run, const Environment& environment, const std::string& host_id,
                     const std::string& called_as, const machine::FileProbe& probe) {
  Launch launch;
  launch.host.host_id = host_id;
  launch.host.host_pid = getpid();
  launch.host.config = run.config;
  *launch.host.config.mutable_whereabouts() =
      WhereaboutsOf(run.config.boot_id(), run.config.pid_namespace(), geteuid(), getpid());
  launch.host.termination_grace = run.termination_grace;
  launch.host.retryable_exit_code = run.retryable_exit_code;
  launch.host.stop_before = run.stop_before;
  launch.host.leave_signals = {run.leave_signals.numbers.begin(), run.leave_signals.numbers.end()};
  launch.host.local_rank_option = ValueOr<std::string>(run.settings.program.pass_local_rank, "");

  launch.plan.program = run.script;
  launch.plan.environment.slots = run.config.slots();
  launch.plan.environment.role_name = run.config.role_name();
  launch.plan.environment.run_id = run.config.run_id();
  launch.plan.environment.signals_to_handle = run.leave_signals_text;
  launch.plan.environment.virtual_local_rank = IsOn(run.settings.workers.virtual_local_rank);
  launch.plan.environment.visible_devices_variable = run.visible_variable;
  for (size_t i = 0; i < run.own_devices.size(); ++i) {
    launch.plan.environment.visible_devices[static_cast<int>(i)] = run.own_devices[i];
  }
  launch.plan.cpus = run.cpus;
  launch.plan.output = run.output;
  launch.plan.report = run.report;
  launch.plan.watches_activity = run.config.hang_timeout_ms() != 0;
  ChoosePipes(launch.plan.watches_activity, &launch.plan.output);
  launch.plan.environment.unbuffered = launch.plan.watches_activity;
  launch.plan.progress_file = ValueOr<std::string>(run.settings.restarts.progress_file, "");
  launch.plan.on_success = ValueOr<std::string>(run.settings.hooks.on_success, "");
  launch.plan.on_failure = ValueOr<std::string>(run.settings.hooks.on_failure, "");
  launch.plan.last_command_limits = {run.hook_timeout, run.termination_grace};
  launch.plan.inherited = environment;
  // Does not overwrite: an empty value counts as set.
  launch.plan.inherited.insert(run.view.for_workers.begin(), run.view.for_workers.end());
  launch.plan.inherited.erase(kTokenVariable);  // the agent has it from the host
  launch.plan.inherited.erase(kPrefixVariable);
  launch.plan.inherited.erase(kRedrawsVariable);
  launch.plan.inherited.erase(kStreamsVariable);
  launch.plan.report.outer_streams = OuterStreams(environment);
  if (environment.count(kStreamsVariable) > 0) launch.plan.report.stream_mark = std::string(1, kBareLine);
  launch.plan.stdin_rule = StdinOf(run);
  const auto coordinator_port = static_cast<uint16_t>(run.config.single_node() ? 0 : run.config.primary().port());
  launch.plan.worker_ports = {run.worker_port.low, run.worker_port.high, coordinator_port};
  const auto prefix = environment.find(kPrefixVariable);
  if (prefix != environment.end()) {
    launch.plan.output.prefix_template = prefix->second;
    launch.plan.output.prefix_all = true;
    launch.plan.output.redraws_pass = RedrawsPass(environment);
    const bool of_local = environment.count(kRedrawsVariable) > 0;
    if (of_local) {  // all nodes share one output, and one of them prints
      launch.plan.report.told_elsewhere = run.config.place() != 0;
      launch.plan.report.report_on = host::ReportOn::kAll;
    }
  }

  if (run.config.role() == v1::ROLE_OBSERVER) return launch;  // it starts no worker
  if (!run.no_python) {
    launch.interpreter = machine::ChooseInterpreter(
        environment, {ValueOr<std::string>(run.settings.program.python, ""), called_as}, probe);
  }
  launch.check = CheckProgramOf(run, launch.interpreter, environment, probe);
  if (launch.check.exit_code != 0) {
    v1::Failure* failure = launch.host.config.mutable_cannot_start();
    failure->set_exit_code(launch.check.exit_code);
    failure->set_error_text(CutUtf8(OneLine(launch.check.problem), host::kMaxErrorText));
    failure->set_host(run.config.hostname());
    if (run.config.has_place()) failure->set_node_rank(run.config.place());
    failure->set_wall_time_s(absl::ToUnixSeconds(absl::Now()));
  }
  const std::string path = launch.check.path.empty() ? run.script : launch.check.path;
  launch.plan.file = path;
  if (launch.check.exit_code == 0) {  // otherwise there will be no round
    launch.plan.setup = ValueOr<std::string>(run.settings.hooks.node_setup, "");
    if (!launch.plan.setup.empty()) launch.host.setup_timeout = run.hook_timeout;
    launch.plan.preflight = ValueOr<std::string>(run.settings.restarts.preflight, "");
    launch.host.preflight_timeout = run.preflight_timeout;
    if (!run.settings.workers.debug) launch.host.preload = PreloadOf(run.settings);
    launch.plan.preloads = launch.host.preload.learns || !launch.host.preload.modules.empty();
    std::error_code unknown;
    launch.plan.learned =
        LearnedModulesOf(environment, path, std::filesystem::current_path(unknown).string(), run.script, probe);
    launch.host.gpu_release_timeout = run.gpu_release_timeout;
    launch.host.driver_pids =
        run.config.pid_namespace() == kFirstPidNamespace;  // in which drivers see all processes
  }
  for (int i = 0; i < run.config.slots(); ++i) launch.plan.argv.push_back(WorkerArguments(run, path, i, {}));
  if (const Given<DebugChoice>& debug = run.settings.workers.debug) {
    launch.plan.debugged = DebuggedOf(run, *debug, environment.count(kRedrawsVariable) > 0);
    launch.plan.environment.waits_for_debugger = true;
    for (int i = 0; i < run.config.slots(); ++i) {
      launch.plan.debugged_argv.push_back(WorkerArguments(run, path, i, DebuggerArguments(debug->value)));
    }
  }
  return launch;
}

}  // namespace muster::cli
