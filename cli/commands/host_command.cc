// `muster host`: the host of a node whose agent runs in a sidecar.
#include <unistd.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/host/agent_socket.h"
#include "agent/host/init.h"
#include "base/console/log.h"
#include "base/core/status_macros.h"
#include "base/exit_codes.h"
#include "base/io/health.h"
#include "base/proc/pod.h"
#include "base/wire/sidecar.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/commands/node_start.h"
#include "cli/commands/sidecar_form.h"
#include "cli/options/exit_codes.h"
#include "cli/options/option_table.h"
#include "cli/plan/machine.h"
#include "cli/plan/token.h"

namespace muster::cli {
namespace {

constexpr char kPart[] = "host";
constexpr char kSocket[] = "socket";
constexpr absl::Duration kSidecarWait = absl::Minutes(10);  // for the first sidecar

// The node that the sidecar's options describe, with this container's program.
absl::StatusOr<ReadyNode> PlanFor(const v1::AgentHello& hello, const CommandLine& own,
                                  const Invocation& invocation, StartupSignals* startup_signals) {
  const Environment environment = ReadEnvironment();
  absl::StatusOr<CommandLine> line = OptionsFrom(hello);
  if (!line.ok()) return line.status();
  line->given["no-python"] = kSwitchGiven;
  line->script = own.script;
  line->script_arguments = own.script_arguments;
  return MakeReady(
      {.line = *line, .environment = PlanningEnvironment(environment, hello), .workers_inherit = environment},
      invocation, startup_signals);
}

// Says where an option of `muster run` belongs.
absl::Status WithPlaceOfOption(const absl::Status& wrong, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const bool is_option = word.starts_with("--") && word != "--";
    if (!is_option || !absl::StrContains(wrong.message(), word)) continue;
    const std::string name = word.substr(2, word.find('=') - 2);
    if (FindOption(RunOptions(), name) == nullptr || FindOption(HostCommandOptions(), name) != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": give it to muster run --host-socket, in the sidecar, which has all options"));
  }
  return wrong;
}

// Ends the sidecar, too.
int RefuseAndEnd(int connection, int exit_code, const std::string& why) {
  host::Refuse(connection, exit_code, why);
  return exit_code;
}

// The node that has come of the first sidecar's options; otherwise the exit code.
std::variant<ReadyNode, int> ReadyFor(const host::Visitor& sidecar, const CommandLine& own,
                                      const Invocation& invocation, StartupSignals* startup_signals) {
  const int connection = sidecar.connection.get();
  if (!sidecar.hello.problem().empty()) {
    Complain(absl::UnknownError(absl::StrCat("the sidecar's options are wrong: ", sidecar.hello.problem())));
    return RefuseAndEnd(connection, sidecar.hello.exit_code(), sidecar.hello.problem());
  }
  absl::StatusOr<ReadyNode> node = PlanFor(sidecar.hello, own, invocation, startup_signals);
  if (!node.ok()) {
    return RefuseAndEnd(connection, Complain(node.status()), std::string(AsStd(node.status().message())));
  }
  if (EndsUnstarted(*node)) {
    return RefuseAndEnd(connection, EndUnstarted(*node), node->plan.check.problem);
  }
  if (const absl::Status room = CheckRoom(*node); !room.ok()) {
    return RefuseAndEnd(connection, Complain(room), std::string(AsStd(room.message())));
  }
  return *std::move(node);
}

// The tokens of which each sidecar must have one; none: none is demanded.
absl::StatusOr<OwnTokens> TakeTokens(const CommandLine& own, const Environment& environment) {
  Given<std::string> file;
  const auto given = own.given.find(kTokenFileOption);
  const auto variable = environment.find(kTokenFileVariable);
  if (given != own.given.end()) {
    file = {given->second, Origin::kFlag, "--token-file", given->second};
  } else if (variable != environment.end() && !variable->second.empty()) {
    file = {variable->second, Origin::kMusterVariable, kTokenFileVariable, variable->second};
  }
  return TokensOf(file, environment, ReadSecretFile);
}

int Serve(const std::string& path, const CommandLine& own, const Invocation& invocation) {
  const Inherited inherited = PrepareProcess();
  StartupSignals startup_signals(inherited);
  const absl::StatusOr<OwnTokens> tokens = TakeTokens(own, TakeEnvironment());
  if (!tokens.ok()) return Complain(tokens.status());
  for (const std::string& warning : tokens->warnings) Log(Severity::kWarning, kPart, warning);
  if (!tokens->tokens.empty()) KeepMemoryPrivate();
  const std::string demanded = absl::StrJoin(tokens->tokens, "\n");
  absl::StatusOr<OwnedFd> listener = host::ListenForAgent(path);
  if (!listener.ok()) return Complain(listener.status());
  absl::Cleanup remove_socket = [&path] { unlink(path.c_str()); };
  Log(Severity::kInfo, kPart,
      absl::StrCat("waiting for the sidecar at ", path, ", for at most ", absl::FormatDuration(kSidecarWait)));
  OwnedFd health = ListenForHealth();
  absl::StatusOr<host::Visitor> sidecar =
      host::AwaitFirstAgent(listener->get(), health.get(), demanded, kSidecarWait);
  if (!sidecar.ok()) {
    Complain(sidecar.status());
    return kExitUnavailable;
  }
  std::variant<ReadyNode, int> ready = ReadyFor(*sidecar, own, invocation, &startup_signals);
  if (const int* const exit_code = std::get_if<int>(&ready)) return *exit_code;
  ReadyNode node = std::get<ReadyNode>(std::move(ready));
  host::HostOptions& host = node.plan.host;
  host::LaunchPlan& launch = node.plan.launch;
  host.config.set_split(true);
  launch.health = std::move(health);
  launch.report.result_file = ResultPath(path);
  launch.report.host_id = host.host_id;
  launch.report.pod = PodHere();
  v1::HostHello welcome;
  welcome.set_host_id(host.host_id);
  welcome.set_retryable_exit_code(host.retryable_exit_code);
  launch.socket = host::AgentSocket{.path = path,
                                    .listener = *std::move(listener),
                                    .tokens = demanded,
                                    .token_file = tokens->file,
                                    .first = std::move(sidecar->connection),
                                    .accepted = std::move(sidecar->hello),
                                    .welcome = std::move(welcome)};
  std::move(remove_socket).Cancel();  // AgentDoor does it
  return BecomeHost(std::move(node), inherited, &startup_signals);
}

}  // namespace

const std::vector<OptionSpec>& HostCommandOptions() {
  static const auto* const table = new std::vector<OptionSpec>{
      {kSocket, "PATH", Group::kOther, kOwn,
       "Unix socket to listen on, in a folder that the sidecar shares. Default: MUSTER_HOST_SOCKET."},
      {kTokenFileOption, "FILE", Group::kOther, kOwn,
       "File that holds the job's token: only a sidecar with the same token is served. It may hold two and may be "
       "replaced, as for muster run. Default: "
       "MUSTER_TOKEN_FILE, else the variable MUSTER_TOKEN, else none."}};
  return *table;
}

std::string HostHelp() {
  std::string out = R"(Usage: muster host --socket PATH [--] PROGRAM [ARGS]

Runs the workers of a node whose agent is a sidecar, in another container of the
same pod: muster run --host-socket PATH, which has all other options. PROGRAM is
executed as it is, as with --no-python. The sidecar may start first or last, and
may be restarted at any time: the workers go on.

  muster host --socket /run/muster/host.sock -- python train.py
  muster run --host-socket /run/muster/host.sock --nnodes 2      the sidecar
)";
  AppendGroup(HostCommandOptions(), Group::kOther, "Options", &out);
  return out;
}

int HostCommand(const Invocation& invocation) {
  if (getpid() == 1) return host::RunInit(invocation.argv);
  const auto line = ParseCommandLine(HostCommandOptions(), invocation.arguments, "muster host");
  if (!line.ok()) return Complain(WithPlaceOfOption(line.status(), invocation.arguments));
  if (line->help) return Print(HostHelp());
  const Environment environment = ReadEnvironment();
  const auto given = line->given.find(kSocket);
  const std::string path =
      given != line->given.end() ? given->second : HostSocketOf(CommandLine(), {}, environment);
  if (path.empty()) {
    return Complain(absl::InvalidArgumentError(
        "--socket is missing: expected the path that muster run --host-socket names in the sidecar"));
  }
  if (line->script.empty()) {
    return Complain(absl::InvalidArgumentError("no PROGRAM was given (see muster host --help)"));
  }
  return Serve(path, *line, invocation);
}

}  // namespace muster::cli
