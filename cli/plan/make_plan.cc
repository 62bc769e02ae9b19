#include "cli/plan/make_plan.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/core/status_macros.h"
#include "base/crypto/digest.h"
#include "base/crypto/identity.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "base/wire/ids.h"
#include "base/wire/loopback.h"
#include "cli/options/read_settings.h"
#include "cli/plan/debugger.h"
#include "cli/plan/line_prefix.h"
#include "cli/plan/parts.h"
#include "cli/plan/preloading.h"

namespace muster::cli {
namespace {

// In a job of one node nobody asks who the host is. To make a key pair would be half of what the plan computes.
Identity IdentityOf(const Machine& machine, bool single_node) {
  if (!single_node) return IdentityFrom(machine.host_secret);
  return {.id = ShortHash(machine.host_secret), .public_key = "", .secret = ""};
}

// Docker names a container after its id, which nobody knows it by; the platform's name of the node is better.
std::string NameForPeople(const std::string& hostname, const discovery::ClusterView& view) {
  constexpr size_t kIdDigits = 12;
  const bool is_id =
      hostname.size() == kIdDigits && hostname.find_first_not_of("0123456789abcdef") == std::string::npos;
  const auto place = static_cast<size_t>(view.node_rank);
  if (!is_id || view.node_rank < 0 || place >= view.nodes.size()) return hostname;
  const std::string given = view.nodes[place].substr(0, view.nodes[place].rfind(':'));
  const bool is_address = given.starts_with('[') || given.find_first_not_of("0123456789.") == std::string::npos;
  return is_address || IsLoopback(given) ? hostname : given;
}

void DescribeMachine(const Machine& machine, const Membership& membership, host::HostOptions* host) {
  const Identity identity = IdentityOf(machine, membership.single_node);
  const std::string name = NameForPeople(machine.hostname, membership.view);
  v1::NodeConfig& config = host->config;
  config.set_hostname(ToUtf8(name, name.size()));
  config.set_version(machine.version);
  config.set_host_key(identity.secret);
  config.set_boot_id(machine.boot_id);
  config.set_pid_namespace(machine.pid_namespace);
  host->host_id = identity.id;
}

// Strings in protobuf messages must be UTF-8. A name that is not is refused: converted, it would be another name.
// Options are checked when they are read.
absl::Status CheckText(const v1::NodeConfig& config) {
  for (const std::string* text : {&config.run_id(), &config.primary().host()}) {
    const std::string shown = ToUtf8(*text, text->size());
    if (shown != *text) return absl::FailedPreconditionError(absl::StrCat("'", shown, "': expected UTF-8"));
  }
  return absl::OkStatus();
}

absl::Status CheckDebugging(const PlanInput& in, const RunPlan& plan) {
  if (plan.host.config.slots() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckPreload(in.settings, plan.no_python, plan.launch.program));
  RETURN_IF_ERROR(CheckDebugOptions(in.settings, plan.no_python, in.is_of_local()));
  // With several nodes only the one that gets the rank needs the keyboard.
  const bool is_elsewhere = in.is_of_local() || !plan.host.config.single_node();
  return CheckDebugKeyboard(in.settings, is_elsewhere || in.machine.dialogue);
}

// The order is that of the lines of `muster env`, and of errors if there are several. Membership and the number of
// workers come first, because other parts read them.
absl::Status PlanParts(const PlanInput& in, RunPlan* plan) {
  host::HostOptions* const host = &plan->host;
  host::LaunchPlan* const launch = &plan->launch;
  v1::NodeConfig* const config = &host->config;
  const auto take = [plan](const absl::StatusOr<PlanLines>& part) {
    if (part.ok()) plan->shown.Append(*part);
    return part.status();
  };
  plan->shown.notes = in.settings.notes;
  RETURN_IF_ERROR(take(PlanMembership(in, &plan->view, config)));
  ASSIGN_OR_RETURN(const PlanLines credentials, PlanCredentials(in, config));
  plan->shown.Append(credentials);
  plan->credential_warnings = credentials.warnings;
  RETURN_IF_ERROR(CheckText(*config));
  RETURN_IF_ERROR(take(PlanSlots(in, &plan->counted, config, launch)));
  RETURN_IF_ERROR(take(PlanRestarts(in, config, launch)));
  RETURN_IF_ERROR(take(PlanFitness(in, plan->counted.nvidia, host, launch)));
  RETURN_IF_ERROR(take(PlanHooks(in, host, launch)));
  RETURN_IF_ERROR(take(PlanGrowth(in, config)));
  RETURN_IF_ERROR(take(PlanNotices(in, host)));
  RETURN_IF_ERROR(take(PlanTimes(in, config)));
  RETURN_IF_ERROR(take(PlanLeaving(in, host, launch)));
  if (const std::string& note = in.membership.ignored_sources; !note.empty()) plan->shown.notes.push_back(note);
  plan->shown.Append({.lines = {}, .notes = {}, .warnings = in.settings.warnings});
  RETURN_IF_ERROR(take(PlanWorkers(in, host, launch)));
  RETURN_IF_ERROR(take(PlanOutput(in, config, launch)));
  RETURN_IF_ERROR(take(PlanWeb(in, config)));
  RETURN_IF_ERROR(take(PlanDebugger(in, config)));
  for (const SettingLine& line : in.settings.config_lines) plan->shown.AddUnlessThere(line);
  RETURN_IF_ERROR(CheckDebugging(in, *plan));
  RETURN_IF_ERROR(CheckNamedRanks(in.settings, *config, in.is_of_local(), &plan->shown.warnings));
  RETURN_IF_ERROR(TakeContainer(in, plan));
  launch->environment.platform = plan->view.for_workers;
  return absl::OkStatus();
}

// An option that decides how many workers run, and where, which the script gets, and muster does not; empty: none.
std::string OwnOptionOfScript(const CommandLine& line) {
  static constexpr std::string_view kMistaken[] = {"nproc-per-node", "nnodes",       "node-rank", "master-addr",
                                                   "rdzv-endpoint",  "max-restarts", "rdzv-id"};
  for (const std::string& word : line.script_arguments) {
    std::string name = absl::StrReplaceAll(word.substr(0, word.find('=')), {{"_", "-"}});
    for (const std::string_view mistaken : kMistaken) {
      if (name == absl::StrCat("--", AsAbsl(mistaken)) && !line.given.contains(std::string(mistaken))) return name;
    }
  }
  return "";
}

// Source of the membership for the summary: the platform, "from the command line" or "from MUSTER_NNODES". Empty
// for a single-node job that no platform describes.
std::string SourceShown(const RunPlan& plan) {
  const std::string& source = plan.view.source;
  const bool from_options = source == discovery::kFromOptions;
  if (plan.host.config.single_node() && (from_options || source == discovery::kSingleNode)) return "";
  if (!from_options) return source;
  for (const SettingLine& line : plan.shown.lines) {
    if (line.name == "nnodes" && !line.origin.starts_with("--")) return "from " + line.origin;
  }
  return "from the command line";
}

}  // namespace

std::string ValueOf(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

const discovery::Traits& PlanInput::platform() const { return discovery::TraitsOf(membership.platform); }

std::string PlanInput::PlatformOrDefault() const {
  return membership.on_platform ? membership.view.source : kDefault;
}

bool PlanInput::is_of_local() const { return environment.contains(kRedrawsVariable); }

absl::StatusOr<RunPlan> Plan(const CommandLine& command_line, const Environment& environment,
                             const Machine& machine) {
  RunPlan plan;
  ASSIGN_OR_RETURN(plan.settings, ReadSettings(command_line, environment));
  const Settings& settings = plan.settings;
  const Given<int>& retry_code = settings.leaving.retryable_exit_code;
  const auto report_retry_code = [&machine](int code) {
    if (machine.on_retryable_exit_code) machine.on_retryable_exit_code(code);
  };
  if (retry_code) report_retry_code(retry_code->value);
  ASSIGN_OR_RETURN(const Membership membership, FindMembership(settings.membership, environment, machine));
  const PlanInput in = {settings, environment, machine, membership};
  if (!retry_code) report_retry_code(DefaultRetryCode(in).first);
  plan.host.config = settings.config;
  // As in torchrun, --run-path overrides --no-python.
  plan.no_python = !IsOn(settings.program.run_path) && IsOn(settings.program.no_python);
  plan.host.local_rank_option = ValueOr<std::string>(settings.program.pass_local_rank, "");
  plan.launch.program = command_line.script;
  plan.script_arguments = command_line.script_arguments;
  DescribeMachine(machine, membership, &plan.host);
  RETURN_IF_ERROR(PlanParts(in, &plan));
  if (const std::string own = OwnOptionOfScript(command_line); !own.empty() && !command_line.as_torchrun) {
    plan.shown.notes.push_back(
        absl::StrCat(own, " stands behind ", OneLine(command_line.script),
                     ", so the script gets it: muster's own options stand before the script"));
  }
  if (plan.host.config.hostname() != machine.hostname)
    plan.shown.notes.push_back(
        absl::StrCat("the host name of ", plan.host.config.hostname(), " is ", machine.hostname));
  return plan;
}

std::string Summary(const RunPlan& plan) {
  const v1::NodeConfig& config = plan.host.config;
  std::string text;
  if (config.role() == v1::ROLE_OBSERVER) {
    text =
        absl::StrCat(plan.view.self, ", which does not train, in a job of ", plan.view.nnodes, " training nodes");
  } else if (config.single_node()) {
    text = "single-node job";
  } else {
    const bool range = config.min_nodes() != config.max_nodes();
    const bool is_spare = config.has_place() && config.place() >= config.max_nodes();
    text = absl::StrCat(is_spare             ? absl::StrCat("place ", config.place(), " (may be a spare) of a job")
                        : config.has_place() ? absl::StrCat("node ", config.place())
                                             : "node with no rank yet",
                        " of ", range ? absl::StrCat(config.min_nodes(), " to ") : "", config.max_nodes());
  }
  const std::string source = SourceShown(plan);
  if (!source.empty()) absl::StrAppend(&text, " (", source, ")");
  if (!config.single_node()) {
    absl::StrAppend(&text, config.coordinator_alone() ? ", coordinator " : ", primary ",
                    ToString(config.primary()));
  }
  if (config.slots() > 0)
    absl::StrAppend(&text, ", ", config.slots(), config.slots() == 1 ? " worker" : " workers");
  return absl::StrCat(text, ", run id: ", config.run_id() == discovery::kNoRunName ? "not set" : config.run_id());
}

}  // namespace muster::cli
