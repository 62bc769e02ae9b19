#include "cli/options/read_settings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/platform/discovery/discover.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/text/utf8.h"
#include "cli/options/nearest.h"
#include "cli/options/option_table.h"
#include "rendezvous/core/options.h"

namespace muster::cli {
namespace {

constexpr char kOwnPrefix[] = "MUSTER_";
constexpr char kTorchrunPrefix[] = "PET_";
// Prefix of the values that Kubernetes sets for a Service whose name begins like ours ("muster-master").
constexpr char kServiceValue[] = "tcp://";

// Whether the variables of this option describe the job of the outer launcher, if muster runs inside its worker.
bool BelongsToOuterJob(const OptionSpec& spec) {
  return spec.group == Group::kMembership || spec.group == Group::kTorchrun;
}

// Finds what was given for an option: a word of the command line, or a variable.
class Finder {
 public:
  Finder(const CommandLine& command_line, const Environment& environment, bool nested)
      : command_line_(command_line), environment_(environment), nested_(nested) {}

  Given<std::string> Find(const OptionSpec& spec) const {
    const auto given = command_line_.given.find(std::string(spec.name));
    if (given != command_line_.given.end()) {
      std::string text = TextOf(spec, given->second);
      if (text.empty() && spec.has(kMayBeEmpty)) return std::nullopt;
      return Setting<std::string>{{}, Origin::kFlag, absl::StrCat("--", AsAbsl(spec.name)), std::move(text)};
    }
    if (nested_ && BelongsToOuterJob(spec)) return std::nullopt;
    if (auto own = Variable(spec, VariableName(kOwnPrefix, spec.name), Origin::kMusterVariable)) return own;
    if (!spec.has(kPet)) return std::nullopt;
    if (spec.has(kNoVariable)) return std::nullopt;
    if (auto pet = Variable(spec, VariableName(kTorchrunPrefix, spec.name), Origin::kTorchrunVariable)) return pet;
    if (spec.torch_variable == nullptr) return std::nullopt;
    return Variable(spec, spec.torch_variable, Origin::kTorchrunVariable);
  }

 private:
  // Like torchrun, whose numbers and addresses may have blanks and newlines around them: YAML often adds one.
  static std::string TextOf(const OptionSpec& spec, const std::string& given) {
    const bool as_it_is = !spec.has(kPet) || spec.has(kKeepsBlanks);
    return as_it_is ? given : std::string(AsStd(absl::StripAsciiWhitespace(given)));
  }

  Given<std::string> Variable(const OptionSpec& spec, const std::string& variable, Origin origin) const {
    const auto found = environment_.find(variable);
    if (found == environment_.end() || absl::StartsWith(found->second, kServiceValue)) return std::nullopt;
    std::string text = TextOf(spec, found->second);
    if (text.empty()) return std::nullopt;
    return Setting<std::string>{{}, origin, variable, std::move(text)};
  }

  const CommandLine& command_line_;
  const Environment& environment_;
  const bool nested_;
};

absl::Status ReadInto(const OptionSpec& spec, const Setting<std::string>& given, Settings* s) {
  const absl::Status read = spec.reader.read(spec.name, given, s);
  if (!read.ok()) return WrongValue(given, std::string(AsStd(read.message())));
  // Values are sent in protobuf messages and shown in log lines.
  if (ToUtf8(given.text, given.text.size()) != given.text ||
      given.text.find_first_of("\r\n") != std::string::npos) {
    return WrongValue(given, "expected one line of UTF-8");
  }
  return absl::OkStatus();
}

// Keys of torch's rendezvous handlers that muster ignores.
constexpr std::string_view kIgnoredConfKeys[] = {
    "backend",
    "cacert",
    "cert",
    "close_timeout",
    "etcd_prefix",
    "heartbeat",
    "heartbeat_timeout",
    "keep_alive_interval",
    "keep_alive_max_attempt",
    "key",
    "max_workers",
    "min_workers",
    "protocol",
    "rank",
    "read_timeout",
    "ssl_cert",
    "ssl_cert_key",
    "ca_cert",
    "store_type",
    "use_agent_store",
    "use_libuv",
};

class ConfReader {
 public:
  ConfReader(const Setting<std::string>& conf, Settings* settings) : conf_(conf), settings_(settings) {}

  absl::Status Run() {
    const auto pairs = ParseRendezvousConf(conf_.text);
    if (!pairs.ok()) return WrongValue(conf_, std::string(AsStd(pairs.status().message())));
    for (const auto& [key, value] : *pairs) RETURN_IF_ERROR(Take(key, value));
    if (!ignored_.empty()) {
      settings_->notes.push_back(
          absl::StrCat(conf_.source, ": keys without effect: ", absl::StrJoin(ignored_, ", ")));
    }
    return absl::OkStatus();
  }

 private:
  // The options --join-timeout and --last-call-timeout take precedence over the keys.
  absl::Status Take(const std::string& key, const std::string& value) {
    TimeSettings& times = settings_->times;
    const bool limits_joining = key == "join_timeout" || (key == "timeout" && !HasDynamicBackend());
    if (limits_joining) return TakeTime(key, value, kJoinTimeouts, &times.join_timeout);
    if (key == "last_call_timeout") return TakeTime(key, value, kTimes, &times.last_call_timeout);
    if (key == "is_host") {
      const absl::StatusOr<bool> is_host = ParseBoolean(absl::AsciiStrToLower(value));
      if (!is_host.ok()) return WrongValue(conf_, "is_host: expected true or false");
      settings_->membership.is_host = *is_host;
      return absl::OkStatus();
    }
    const bool known =
        std::find(std::begin(kIgnoredConfKeys), std::end(kIgnoredConfKeys), key) != std::end(kIgnoredConfKeys);
    if (known || key == "timeout") {
      ignored_.push_back(key);
    } else {
      settings_->warnings.push_back(absl::StrCat(conf_.source, ": unknown key ", Shown(key), " is ignored"));
    }
    return absl::OkStatus();
  }

  // Whose joining join_timeout limits, and timeout does not.
  bool HasDynamicBackend() const {
    const Given<std::string>& backend = settings_->torchrun.rdzv_backend;
    return backend && (backend->value == "c10d" || backend->value == "etcd-v2");
  }

  absl::Status TakeTime(const std::string& key, const std::string& value, Bounds<absl::Duration> bounds,
                        Given<absl::Duration>* out) {
    const absl::StatusOr<absl::Duration> time = ParseTime(value, bounds);
    if (!time.ok()) return WrongValue(conf_, absl::StrCat(key, ": ", time.status().message()));
    if (!*out) *out = Setting<absl::Duration>{*time, conf_.origin, conf_.source, value};
    return absl::OkStatus();
  }

  const Setting<std::string>& conf_;
  Settings* const settings_;
  std::vector<std::string> ignored_;
};

// The checks below are of combinations of options.
constexpr char kDefaultTlsName[] = "muster";

absl::Status CheckCredentials(const MembershipSettings& s) {
  const std::pair<const char*, const Given<std::string>*> files[] = {
      {"--tls-cert", &s.tls_cert}, {"--tls-key", &s.tls_key}, {"--tls-ca", &s.tls_ca}};
  const Given<std::string>* given = s.tls_name->value == kDefaultTlsName ? nullptr : &s.tls_name;
  for (const auto& [name, file] : files) {
    if (*file) given = file;
  }
  if (given == nullptr) return absl::OkStatus();
  for (const auto& [name, file] : files) {
    if (!*file)
      return Fault(**given, absl::StrCat(name, " is missing: --tls-cert, --tls-key and --tls-ca belong together"));
  }
  if (!s.token_file) return absl::OkStatus();
  return Fault(*s.tls_cert, absl::StrCat("cannot be used with ", s.token_file->source,
                                         ": choose tokens or certificates, the same on all nodes"));
}

absl::Status CheckMembership(const CommandLine& command_line, const MembershipSettings& s) {
  for (const char* other : {"--rdzv-endpoint", "--master-addr"}) {
    const bool is_given =
        other == std::string_view("--master-addr") ? s.master_addr.has_value() : s.rdzv_endpoint.has_value();
    if (s.coordinator && is_given) return Fault(*s.coordinator, absl::StrCat("cannot be used with ", other));
  }
  const int max_nodes = s.nnodes ? s.nnodes->value.max : 0;
  if (IsOn(s.standalone) && LeastNodes(s) > 1) return WrongValue(*s.nnodes, "cannot be used with --standalone");
  for (const char* name : {"rdzv-endpoint", "master-addr"}) {
    const auto given = command_line.given.find(name);
    const bool empty = given != command_line.given.end() && given->second.empty();
    if (empty && max_nodes > 1 && !s.rdzv_endpoint && !s.master_addr) {
      return Fault(Origin::kFlag, absl::StrCat("--", name), "",
                   absl::StrCat("expected the primary's address, for a job of ", max_nodes, " nodes"));
    }
  }
  if (s.node_rank && s.nnodes && s.node_rank->value >= max_nodes) {
    return WrongValue(*s.node_rank, absl::StrCat("must be less than the number of nodes, ", max_nodes));
  }
  if (s.hostfile && s.source && s.source->value != discovery::kHostfile) {
    return Fault(*s.hostfile,
                 absl::StrCat("cannot be used with ", ShownWithValue(s.source->source, s.source->text)));
  }
  return absl::OkStatus();
}

absl::Status CheckProgram(const ProgramSettings& s) {
  if (IsOn(s.module) && IsOn(s.no_python) && !IsOn(s.run_path)) {
    return Fault(*s.no_python, "cannot be used with -m (--module)");
  }
  return absl::OkStatus();
}

absl::Status CheckRestarts(const RestartSettings& s) {
  if (s.restart_window && s.max_restarts && s.max_restarts->value > kMaxFailureAges) {
    return WrongValue(*s.max_restarts,
                      absl::StrCat("must be at most ", kMaxFailureAges, " with --restart-window"));
  }
  return absl::OkStatus();
}

// The names of variables after MUSTER_ or PET_.
std::vector<std::string> KnownVariables(const char* prefix) {
  const bool own = std::string_view(prefix) == kOwnPrefix;
  std::vector<std::string> known;
  for (const OptionSpec& spec : RunOptions()) {
    if (own || (spec.has(kPet) && !spec.has(kNoVariable))) known.push_back(VariableName("", spec.name));
  }
  if (!own) return known;
  for (const VariableSpec& variable : OwnVariables()) known.emplace_back(variable.name);
  return known;
}

// A mistyped variable is not read, so the default would be used unnoticed.
void WarnOfMistypedVariables(const Environment& environment, Settings* s) {
  for (const char* prefix : {kOwnPrefix, kTorchrunPrefix}) {
    const std::vector<std::string> known = KnownVariables(prefix);
    for (const auto& [name, value] : environment) {
      if (!absl::StartsWith(name, prefix) || absl::StartsWith(value, kServiceValue)) continue;
      const std::string meant = NearestWord(std::string_view(name).substr(std::string_view(prefix).size()), known);
      if (!meant.empty())
        s->warnings.push_back(absl::StrCat(name, ": no such setting; did you mean ", prefix, meant, "?"));
    }
  }
}

bool IsNested(const Environment& environment) {
  return environment.count("LOCAL_RANK") > 0 && environment.count("TORCHELASTIC_RUN_ID") > 0;
}

// What torchrun makes of a rank and of MIN:MAX.
void ReadAsTorchrun(Settings* s) {
  MembershipSettings& m = s->membership;
  const bool is_one = IsOn(m.standalone) || (m.nnodes && m.nnodes->value.max == 1);
  if (is_one && m.node_rank) {
    if (m.node_rank->value != 0) s->notes.push_back(NodeRankIsIgnored(*m.node_rank));
    m.node_rank.reset();
  }
  const Given<std::string>& backend = s->torchrun.rdzv_backend;
  const bool is_static = !backend || backend->value == "static";
  if (is_one || m.coordinator || !is_static || !m.nnodes || m.nnodes->value.min == m.nnodes->value.max) return;
  m.nnodes->value.min = m.nnodes->value.max;
  s->notes.push_back(absl::StrCat(ShownWithValue(m.nnodes->source, m.nnodes->text), ": the job needs all ",
                                  m.nnodes->value.max,
                                  " nodes, as under torchrun; fewer suffice with --rdzv-backend c10d"));
}

void NoteOptionsWithoutEffect(Settings* s) {
  for (const auto* filters : {&s->output.stdout_filters, &s->output.stderr_filters}) {
    if (*filters && !s->output.tee) s->warnings.push_back((*filters)->source + ": has no effect without --tee");
  }
}

// Both options name the primary. Under the name torchrun the endpoint decides, whatever gives it, as there.
void PreferTypedAddress(MembershipSettings* m) {
  if (!m->rdzv_endpoint || !m->master_addr) return;
  const bool endpoint_is_typed = m->rdzv_endpoint->origin == Origin::kFlag;
  if (m->master_addr->origin == Origin::kFlag && !endpoint_is_typed) m->rdzv_endpoint.reset();
}

// torchrun gives ranks itself unless its backend is static, so the ranks of such a command line may all be equal.
void ReadBackend(bool as_torchrun, Settings* s) {
  const Given<std::string>& backend = s->torchrun.rdzv_backend;
  if (!backend || backend->value == "static") return;
  s->notes.push_back(absl::StrCat(backend->source, " ", backend->value,
                                  ": the nodes meet at the primary by muster's own protocol"));
  Given<int>& rank = s->membership.node_rank;
  s->membership.rank_is_hint = as_torchrun;
  if (!as_torchrun || !rank) return;
  s->notes.push_back(absl::StrCat(ShownWithValue(rank->source, rank->text), ": only a hint with ", backend->source,
                                  " ", backend->value, ", as under torchrun"));
  const bool is_possible = !s->membership.nnodes || rank->value < s->membership.nnodes->value.max;
  if (!is_possible) rank.reset();
}

}  // namespace

absl::StatusOr<Settings> ReadSettings(const CommandLine& command_line, const Environment& environment) {
  Settings s;
  s.membership.as_torchrun = command_line.as_torchrun;
  s.membership.hosts = command_line.hosts;
  s.warnings = command_line.warnings;
  s.membership.nested = IsNested(environment);
  const Finder finder(command_line, environment, s.membership.nested);
  for (const OptionSpec& spec : RunOptions()) {
    Given<std::string> given = finder.Find(spec);
    const std::string fallback(spec.reader.fallback);
    if (!given && !fallback.empty()) given = Setting<std::string>{{}, Origin::kDefault, "default", fallback};
    if (given) RETURN_IF_ERROR(ReadInto(spec, *given, &s));
  }
  NoteOptionsWithoutEffect(&s);
  if (!command_line.as_torchrun) PreferTypedAddress(&s.membership);
  if (command_line.as_torchrun) ReadAsTorchrun(&s);
  ReadBackend(command_line.as_torchrun, &s);
  if (s.torchrun.rdzv_conf) RETURN_IF_ERROR(ConfReader(*s.torchrun.rdzv_conf, &s).Run());
  RETURN_IF_ERROR(CheckProgram(s.program));
  RETURN_IF_ERROR(CheckMembership(command_line, s.membership));
  RETURN_IF_ERROR(CheckCredentials(s.membership));
  RETURN_IF_ERROR(CheckRestarts(s.restarts));
  if (const auto& hostfile = s.membership.hostfile) {
    s.membership.source = {discovery::kHostfile, hostfile->origin, hostfile->source, hostfile->text};
  }
  WarnOfMistypedVariables(environment, &s);
  return s;
}

}  // namespace muster::cli
