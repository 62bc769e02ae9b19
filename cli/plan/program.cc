#include "cli/plan/program.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/crypto/whereabouts.h"
#include "base/text/text.h"
#include "cli/plan/debugger.h"
#include "cli/plan/line_prefix.h"
#include "cli/plan/preloading.h"

namespace muster::cli {
namespace {

machine::ProgramKind KindOf(const RunPlan& plan) {
  if (plan.no_python) return machine::ProgramKind::kProgram;
  return IsOn(plan.settings.program.module) ? machine::ProgramKind::kModule : machine::ProgramKind::kScript;
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
std::vector<std::string> WorkerArguments(const RunPlan& plan, int local_rank,
                                         const std::vector<std::string>& debugger) {
  const ProgramSettings& s = plan.settings.program;
  const std::string script = SubstituteLocalRank(plan.launch.program, local_rank);
  std::vector<std::string> argv = {plan.no_python ? script : plan.launch.file};
  if (!plan.no_python) {
    argv.emplace_back("-u");
    argv.insert(argv.end(), debugger.begin(), debugger.end());
    if (IsOn(s.run_path) && debugger.empty()) {
      argv.emplace_back("-c");
      argv.emplace_back(kRunPath);
    } else if (IsOn(s.module)) {
      argv.emplace_back("-m");
    }
    argv.push_back(script);
  }
  if (s.pass_local_rank) argv.push_back(absl::StrCat("--", s.pass_local_rank->value, "=", local_rank));
  for (const std::string& argument : plan.script_arguments) {
    argv.push_back(SubstituteLocalRank(argument, local_rank));
  }
  return argv;
}

std::vector<std::vector<std::string>> CommandsOf(const RunPlan& plan, const std::vector<std::string>& debugger) {
  std::vector<std::vector<std::string>> argv;
  for (int i = 0; i < plan.host.config.slots(); ++i) argv.push_back(WorkerArguments(plan, i, debugger));
  return argv;
}

bool IsStandardInput(const std::string& script) {
  return script == "-" || script == "/dev/stdin" || script == "/dev/fd/0" || script == "/proc/self/fd/0";
}

// muster's own variables that neither workers nor the agent get: it has the token from the host.
Environment Inheritable(Environment environment) {
  for (const char* const name : {kTokenVariable, kPrefixVariable, kRedrawsVariable, kStreamsVariable}) {
    environment.erase(name);
  }
  return environment;
}

v1::Failure CannotStart(const RunPlan& plan, absl::Time now) {
  const v1::NodeConfig& config = plan.host.config;
  v1::Failure failure;
  failure.set_exit_code(plan.check.exit_code);
  failure.set_error_text(CutUtf8(OneLine(plan.check.problem), host::kMaxErrorText));
  failure.set_host(config.hostname());
  if (config.has_place()) failure.set_node_rank(config.place());
  failure.set_wall_time_s(absl::ToUnixSeconds(now));
  return failure;
}

// For a node on which no round will run: nothing is prepared for one.
void PrepareNothing(host::HostOptions* host) {
  host->setup_timeout = host->preflight_timeout = host->gpu_release_timeout = absl::ZeroDuration();
  host->preload = {};
}

void PlanDebugged(const Environment& environment, const Setting<DebugChoice>& debug, RunPlan* plan) {
  plan->launch.debugged = {.rank = debug.value.rank,
                           .port = debug.value.port,
                           .option = ShownWithValue(debug.source, debug.text),
                           .hostname = plan->host.config.hostname(),
                           .keyboard_is_elsewhere = environment.contains(kRedrawsVariable)};
  plan->launch.debugged_argv = CommandsOf(*plan, DebuggerArguments(debug.value));
}

}  // namespace

machine::ProgramCheck CheckProgramOf(const RunPlan& plan, const machine::Interpreter& interpreter,
                                     const Environment& environment, const machine::FileProbe& probe) {
  if (plan.launch.program.empty()) {
    return plan.no_python
               ? machine::ProgramCheck{}
               : machine::CheckProgram(machine::ProgramKind::kModule, "", interpreter, environment, probe);
  }
  const Given<DebugChoice>& debug = plan.settings.workers.debug;
  if (debug && IsStandardInput(plan.launch.program)) {
    return {kExitUsage,
            absl::StrCat("the script ", plan.launch.program, " is standard input, which no debugger can show (",
                         debug->source, "): save it as a file"),
            ""};
  }
  if (!plan.no_python && IsStandardInput(plan.launch.program) && plan.host.config.slots() > 1) {
    return {kExitUsage,
            absl::StrCat("the script ", plan.launch.program, " is standard input, which ",
                         plan.host.config.slots(), " workers cannot all read: save it as a file"),
            ""};
  }
  const std::string script = SubstituteLocalRank(plan.launch.program, 0);
  machine::ProgramCheck check = machine::CheckProgram(KindOf(plan), script, interpreter, environment, probe);
  if (check.exit_code != 0) return check;
  machine::ProgramCheck debugged = CheckDebuggedScript(plan.settings, script, probe);
  return debugged.exit_code != 0 ? debugged : check;
}

void PlanProgram(const ProcessFacts& process, RunPlan* plan) {
  host::HostOptions& host = plan->host;
  host::LaunchPlan& launch = plan->launch;
  host.host_pid = process.pid;
  *host.config.mutable_whereabouts() = WhereaboutsOf(host.config.boot_id(), host.config.pid_namespace(),
                                                     process.user, static_cast<pid_t>(process.pid));
  launch.inherited = Inheritable(process.environment);
  if (host.config.role() == v1::ROLE_OBSERVER) return PrepareNothing(&host);  // it starts no worker
  if (!plan->no_python) {
    const machine::InterpreterOptions options = {ValueOr<std::string>(plan->settings.program.python, ""),
                                                 process.called_as};
    plan->interpreter = machine::ChooseInterpreter(process.environment, options, process.probe);
  }
  plan->check = CheckProgramOf(*plan, plan->interpreter, process.environment, process.probe);
  launch.file = plan->check.path.empty() ? launch.program : plan->check.path;
  if (!plan->no_python) host.python = plan->check.path;
  if (plan->check.exit_code != 0) {
    *host.config.mutable_cannot_start() = CannotStart(*plan, process.now);
    PrepareNothing(&host);
  } else {
    launch.learned =
        LearnedModulesOf(process.environment, launch.file, process.folder, launch.program, process.probe);
  }
  launch.preloads = host.preload.learns || !host.preload.modules.empty();
  launch.argv = CommandsOf(*plan, {});
  if (const auto& debug = plan->settings.workers.debug) PlanDebugged(process.environment, *debug, plan);
}

}  // namespace muster::cli
