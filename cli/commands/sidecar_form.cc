#include "cli/commands/sidecar_form.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/platform/discovery/sources.h"
#include "agent/process/sidecar.h"
#include "base/console/log.h"
#include "base/core/status_macros.h"
#include "base/io/unix_socket.h"
#include "base/proc/process_setup.h"
#include "base/wire/sidecar.h"
#include "cli/commands/help.h"
#include "cli/options/exit_codes.h"
#include "cli/options/log_level.h"
#include "cli/options/option_table.h"
#include "cli/options/read_settings.h"
#include "cli/plan/machine.h"
#include "cli/plan/run_plan.h"
#include "cli/plan/token.h"
#include "cli/plan/version.h"
#include "rendezvous/transport/credential_files.h"

namespace muster::cli {
namespace {

constexpr char kOption[] = "host-socket";
constexpr char kHostnameVariable[] = "HOSTNAME";
constexpr const char* kOfEvents[] = {"events", "on-event", "on-event-filter"};
constexpr size_t kSidecarIdBytes = 8;
constexpr absl::Duration kFirstWait = absl::Minutes(10);   // for the host, unless --join-timeout says otherwise
constexpr absl::Duration kProblemWait = absl::Minutes(1);  // to tell the host what is wrong here

bool IsOwn(const std::string& variable) { return variable.starts_with("MUSTER_"); }

// The host has its own host name: that of the pod, or of another container.
bool DescribesTheJob(const std::string& variable) {
  if (variable == kHostnameVariable) return false;
  return IsOwn(variable) || variable.starts_with("PET_") || discovery::IsPlatformVariable(variable);
}

// The files are in this container.
bool IsOfSidecarAlone(const std::string& variable) {
  for (const char* own :
       {kTokenVariable, kTokenFileVariable, kHostSocketVariable, kTlsCertVariable, kTlsKeyVariable, kTlsCaVariable,
        kTlsNameVariable, kEventsVariable, kOnEventVariable, kOnEventFilterVariable}) {
    if (variable == own) return true;
  }
  return false;
}

// The option or variable by itself: without it no host can be told of anything.
absl::Status CheckSocket(const absl::StatusOr<CommandLine>& line, const std::string& socket) {
  CommandLine alone;
  if (line.ok() && line->given.contains(kOption)) alone.given[kOption] = socket;
  RETURN_IF_ERROR(ReadSettings(alone, {{kHostSocketVariable, socket}}).status());
  return UnixAddress(socket).status();
}

absl::Status CheckSidecar(const absl::StatusOr<CommandLine>& line, const Environment& environment) {
  RETURN_IF_ERROR(line.status());
  if (!line->script.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        line->script, ": with --host-socket the program is given to muster host, in the training container"));
  }
  RETURN_IF_ERROR(LogLevel(environment).status());
  return ReadSettings(*line, environment).status();
}

// The same for certificates. The agents check them: only they know the run id.
absl::Status TakeCertificates(const MembershipSettings& s, bool has_tokens, std::vector<std::string>* warnings) {
  if (!s.tls_cert) return absl::OkStatus();
  if (has_tokens)
    return Fault(*s.tls_cert, absl::StrCat("a token is set, too (", kTokenVariable,
                                           "): unset it, or leave out --tls-cert, --tls-key and --tls-ca"));
  const auto take = [warnings](const Setting<std::string>& file, FileKind kind,
                               const char* variable) -> absl::Status {
    ASSIGN_OR_RETURN(const SecretFile content,
                     ReadNamedFile(file, kind, rendezvous::kMaxCertificateFileBytes, ReadSecretFile));
    if (!content.warning.empty()) warnings->push_back(content.warning);
    setenv(variable, content.path.c_str(), 1);
    return absl::OkStatus();
  };
  setenv(kTlsNameVariable, s.tls_name->value.c_str(), 1);
  RETURN_IF_ERROR(take(*s.tls_cert, FileKind::kPublic, kTlsCertVariable));
  RETURN_IF_ERROR(take(*s.tls_key, FileKind::kSecret, kTlsKeyVariable));
  return take(*s.tls_ca, FileKind::kPublic, kTlsCaVariable);
}

// Options were checked. The agents of this sidecar find the files' names in their environment.
absl::Status TakeTokens(const Settings& settings, const Environment& environment, agent::SidecarOptions* options,
                        std::vector<std::string>* warnings) {
  ASSIGN_OR_RETURN(const OwnTokens own, TokensOf(settings.membership.token_file, environment, ReadSecretFile));
  options->tokens = absl::StrJoin(own.tokens, "\n");
  options->token_file = own.file;
  *warnings = own.warnings;
  setenv(kTokenFileVariable, own.file.c_str(), 1);
  return TakeCertificates(settings.membership, !own.tokens.empty(), warnings);
}

// A command for events may have a secret in it, which the workers need not know.
std::vector<std::string> WithoutEvents(const std::vector<std::string>& arguments) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), arguments, "muster run");
  if (!line.ok()) return {};  // the host hears why
  size_t own = 0;
  for (const char* option : kOfEvents) own += line->given.erase(option);
  if (own == 0) return arguments;
  std::vector<std::string> rest;
  for (const auto& [name, value] : line->given) {
    const bool is_switch = FindOption(RunOptions(), name)->is_switch();
    rest.push_back(is_switch ? absl::StrCat("--", name) : absl::StrCat("--", name, "=", value));
  }
  return rest;
}

void LeaveForAgents(const OutputSettings& s) {
  setenv(kEventsVariable, ValueOr<std::string>(s.events, "").c_str(), 1);
  setenv(kOnEventVariable, ValueOr<std::string>(s.on_event, "").c_str(), 1);
  const std::vector<std::string> names = s.on_event_filter ? s.on_event_filter->value : std::vector<std::string>();
  setenv(kOnEventFilterVariable, absl::StrJoin(names, ",").c_str(), 1);
}

}  // namespace

std::string HostSocketOf(const absl::StatusOr<CommandLine>& line, const std::vector<std::string>& arguments,
                         const Environment& environment) {
  if (line.ok()) {
    const auto given = line->given.find(kOption);
    if (given != line->given.end()) return given->second;
  } else {
    const std::string word = absl::StrCat("--", kOption), prefix = word + "=";
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].starts_with(prefix)) return arguments[i].substr(prefix.size());
      const bool valued = i + 1 < arguments.size() && !arguments[i + 1].starts_with("-");
      if (arguments[i] == word && valued) return arguments[i + 1];
    }
  }
  const auto variable = environment.find(kHostSocketVariable);
  return variable == environment.end() ? "" : variable->second;
}

v1::AgentHello HelloOf(const std::vector<std::string>& arguments, const Environment& environment,
                       const std::string& version, const std::string& sidecar_id) {
  v1::AgentHello hello;
  hello.set_protocol(kSplitProtocol);
  hello.set_version(version);
  hello.set_sidecar_id(sidecar_id);
  for (const std::string& argument : WithoutEvents(arguments)) hello.add_arguments(argument);
  for (const auto& [name, value] : environment) {
    if (IsOfSidecarAlone(name)) continue;
    if (DescribesTheJob(name)) (*hello.mutable_variables())[name] = value;
  }
  return hello;
}

absl::StatusOr<CommandLine> OptionsFrom(const v1::AgentHello& hello) {
  absl::StatusOr<CommandLine> line =
      ParseCommandLine(RunOptions(), {hello.arguments().begin(), hello.arguments().end()}, "muster run");
  if (line.ok()) {
    for (const char* own : {kTokenFileOption, "tls-cert", "tls-key", "tls-ca", "tls-name"}) line->given.erase(own);
  }
  return line;
}

Environment PlanningEnvironment(const Environment& own, const v1::AgentHello& hello) {
  Environment environment;
  for (const auto& [name, value] : own) {
    if (!IsOwn(name)) environment[name] = value;
  }
  for (const auto& [name, value] : hello.variables()) environment[name] = value;
  return environment;
}

int RunAsSidecar(const absl::StatusOr<CommandLine>& line, const Environment& environment,
                 const Invocation& invocation, const std::string& socket) {
  if (const absl::Status usable = CheckSocket(line, socket); !usable.ok()) return Complain(usable);
  agent::SidecarOptions options{
      .socket = socket,
      .hello = HelloOf(invocation.arguments, environment, Version(), RandomHex(kSidecarIdBytes)),
      .first_wait = kFirstWait};
  absl::Status problem = CheckSidecar(line, environment);
  std::vector<std::string> warnings;
  if (problem.ok()) problem = TakeTokens(*ReadSettings(*line, environment), environment, &options, &warnings);
  LogOptions log;
  if (problem.ok()) {
    const Settings settings = *ReadSettings(*line, environment);
    options.first_wait = ValueOr(settings.times.join_timeout, kFirstWait);
    LeaveForAgents(settings.output);
    log.level = *LogLevel(environment);
    log.json = settings.output.log_json && settings.output.log_json->value;
  } else {
    Complain(problem);
    std::fprintf(stderr,
                 "muster: waiting for the training container at %s, to end it with the same error; at most %s\n",
                 socket.c_str(), absl::FormatDuration(kProblemWait).c_str());
    options.hello.set_problem(std::string(AsStd(problem.message())));
    options.hello.set_exit_code(ExitCodeOf(problem));
    options.first_wait = kProblemWait;
  }
  PrepareProcess();
  const bool has_certificates = std::getenv(kTlsKeyVariable) != nullptr;
  if (!options.tokens.empty() || has_certificates) KeepMemoryPrivate();
  InitLog(log);
  for (const std::string& warning : warnings) Log(Severity::kWarning, "sidecar", warning);
  const int code = agent::RunSidecar(std::move(options));
  return problem.ok() ? code : ExitCodeOf(problem);
}

}  // namespace muster::cli
