#include "cli/options/settings.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/discovery/discover.h"
#include "base/check.h"
#include "base/duration.h"
#include "base/problem.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "cli/options/nearest.h"
#include "rendezvous/core/options.h"

namespace muster::cli {
namespace {

constexpr char kOwnPrefix[] = "MUSTER_";
constexpr char kTorchrunPrefix[] = "PET_";
// Prefix of the values that Kubernetes sets for a Service whose name begins like ours ("muster-master").
constexpr char kServiceValue[] = "tcp://";

constexpr int kMaxExitCode = 255;
constexpr absl::Duration kLeastPreflightTime = absl::Milliseconds(100);

// Variables of torch that set an option but do not begin with PET_.
struct OtherVariable {
  std::string_view option;
  const char* variable;
};
constexpr OtherVariable kOtherVariables[] = {
    {"log-line-prefix-template", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"},
    {"shutdown-timeout", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
};

// torchrun's default of these is empty or None, and it accepts an empty value as that: `--rdzv-conf "$CONF"`.
constexpr std::string_view kEmptyMeansUnset[] = {
    "rdzv-endpoint",
    "rdzv-id",
    "rdzv-conf",
    "role",
    "log-dir",
    "local-addr",
    "local-ranks-filter",
    "duplicate-stdout-filters",
    "master-addr",
    "duplicate-stderr-filters",
};

// Whether the variables of this option describe the job of the outer launcher, if muster runs inside its worker.
bool BelongsToOuterJob(const OptionSpec& spec) {
  return spec.group == Group::kMembership || spec.group == Group::kTorchrun;
}

class Reader {
 public:
  Reader(const CommandLine& command_line, const Environment& environment, bool nested)
      : command_line_(command_line), environment_(environment), nested_(nested) {}

  template <typename T>
  void Read(std::string_view name, Given<T>* out,
            const std::function<absl::StatusOr<T>(const std::string&)>& parse) {
    if (!status_.ok()) return;
    std::optional<Setting<std::string>> found = Find(name);
    if (!found) return;
    absl::StatusOr<T> value = parse(found->text);
    if (!value.ok()) {
      status_ = WrongValue(*found, std::string(AsStd(value.status().message())));
      return;
    }
    // Values are sent in protobuf messages and shown in log lines.
    if (ToUtf8(found->text, found->text.size()) != found->text ||
        found->text.find_first_of("\r\n") != std::string::npos) {
      status_ = WrongValue(*found, "expected one line of UTF-8");
      return;
    }
    *out = Setting<T>{std::move(value).value(), found->origin, found->source, found->text};
  }

  void Duration(std::string_view name, Given<absl::Duration>* out, absl::Duration least = absl::ZeroDuration(),
                absl::Duration most = kMaxTime) {
    Read<absl::Duration>(name, out,
                         [least, most](const std::string& text) { return ParseTime(text, least, most); });
  }

  void Integer(std::string_view name, Given<int>* out, int low, int high) {
    Read<int>(name, out, [low, high](const std::string& text) { return ParseInteger(text, low, high); });
  }

  void Text(std::string_view name, Given<std::string>* out) {
    Read<std::string>(name, out, [](const std::string& text) -> absl::StatusOr<std::string> {
      if (text.empty()) return absl::InvalidArgumentError("expected a value");
      return text;
    });
  }

  // torchrun's variables for switches are numbers; it fails on any other word.
  void Switch(std::string_view name, Given<bool>* out) {
    const std::optional<Setting<std::string>> found = Find(name);
    int number = 0;
    if (found && found->origin == Origin::kTorchrunVariable && !absl::SimpleAtoi(found->text, &number)) {
      if (status_.ok()) status_ = WrongValue(*found, "expected 1 or 0");
      return;
    }
    Read<bool>(name, out, [](const std::string& text) { return ParseBoolean(text); });
  }

  const absl::Status& status() const { return status_; }

 private:
  std::optional<Setting<std::string>> Find(std::string_view name) const {
    const OptionSpec* spec = FindOption(RunOptions(), name);
    MUSTER_CHECK(spec != nullptr, "option is not in the table");
    const auto given = command_line_.given.find(std::string(name));
    if (given != command_line_.given.end()) {
      if (given->second.empty() && IsUnsetWhenEmpty(name)) return std::nullopt;
      return Setting<std::string>{{}, Origin::kFlag, absl::StrCat("--", AsAbsl(name)), given->second};
    }
    if (nested_ && BelongsToOuterJob(*spec)) return std::nullopt;
    if (auto own = Variable(VariableName(kOwnPrefix, name), Origin::kMusterVariable)) return own;
    if (!spec->torchrun) return std::nullopt;
    if (auto pet = Variable(VariableName(kTorchrunPrefix, name), Origin::kTorchrunVariable)) return pet;
    for (const OtherVariable& other : kOtherVariables) {
      if (other.option == name) return Variable(other.variable, Origin::kTorchrunVariable);
    }
    return std::nullopt;
  }

  static bool IsUnsetWhenEmpty(std::string_view name) {
    return std::find(std::begin(kEmptyMeansUnset), std::end(kEmptyMeansUnset), name) != std::end(kEmptyMeansUnset);
  }

  std::optional<Setting<std::string>> Variable(const std::string& variable, Origin origin) const {
    const auto found = environment_.find(variable);
    if (found == environment_.end() || found->second.empty()) return std::nullopt;
    if (absl::StartsWith(found->second, kServiceValue)) return std::nullopt;
    return Setting<std::string>{{}, origin, variable, found->second};
  }

  const CommandLine& command_line_;
  const Environment& environment_;
  const bool nested_;
  absl::Status status_;
};

absl::StatusOr<bool> ParsePools(const std::string& text) {
  if (text == "all") return true;
  if (text == "trainers") return false;
  return absl::InvalidArgumentError("expected trainers or all");
}

absl::StatusOr<std::string> ParseSource(const std::string& text) {
  if (discovery::FindSource(text) != nullptr) return text;
  return absl::InvalidArgumentError("expected one of " + discovery::SourceNames());
}

absl::StatusOr<bool> OneOf(const std::string& text, const char* yes, const char* no) {
  if (text == yes) return true;
  if (text == no) return false;
  return absl::InvalidArgumentError(absl::StrCat("expected ", no, " or ", yes));
}

// torchrun's rendezvous handlers. With each of them the nodes use muster's own rendezvous.
absl::StatusOr<std::string> ParseBackend(const std::string& text) {
  for (const char* known : {"static", "c10d", "etcd", "etcd-v2"}) {
    if (text == known) return text;
  }
  return absl::InvalidArgumentError(
      "expected static, c10d, etcd or etcd-v2; muster needs none: leave the option out");
}

absl::StatusOr<std::string> ParseStartMethod(const std::string& text) {
  if (text == "spawn" || text == "fork" || text == "forkserver") return text;
  return absl::InvalidArgumentError("expected spawn, fork or forkserver");
}

absl::StatusOr<std::string> ParseEventLogHandler(const std::string& text) {
  if (text == "null") return text;
  return absl::InvalidArgumentError("names a Python handler, which muster cannot run; its log has the events");
}

absl::StatusOr<std::string> RefuseLogsSpecs(const std::string& /*text*/) {
  return absl::InvalidArgumentError(
      "names a Python class, which muster cannot run; use --log-dir, --redirects or --tee");
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
    if (key == "join_timeout" || key == "timeout") return TakeTime(key, value, &settings_->join_timeout);
    if (key == "last_call_timeout") return TakeTime(key, value, &settings_->last_call_timeout);
    if (key == "is_host") {
      const absl::StatusOr<bool> is_host = ParseBoolean(absl::AsciiStrToLower(value));
      if (!is_host.ok()) return WrongValue(conf_, "is_host: expected true or false");
      settings_->is_host = *is_host;
      return absl::OkStatus();
    }
    const bool known =
        std::find(std::begin(kIgnoredConfKeys), std::end(kIgnoredConfKeys), key) != std::end(kIgnoredConfKeys);
    if (known) {
      ignored_.push_back(key);
    } else {
      settings_->warnings.push_back(absl::StrCat(conf_.source, ": unknown key ", Shown(key), " is ignored"));
    }
    return absl::OkStatus();
  }

  absl::Status TakeTime(const std::string& key, const std::string& value, Given<absl::Duration>* out) {
    const absl::StatusOr<absl::Duration> time = ParseTime(value, absl::ZeroDuration(), kMaxTime);
    if (!time.ok()) return WrongValue(conf_, absl::StrCat(key, ": ", time.status().message()));
    if (!*out) *out = Setting<absl::Duration>{*time, conf_.origin, conf_.source, value};
    return absl::OkStatus();
  }

  const Setting<std::string>& conf_;
  Settings* const settings_;
  std::vector<std::string> ignored_;
};

bool IsOn(const Given<bool>& given) { return given && given->value; }

// Checks combinations of options.
absl::Status CheckRelations(const CommandLine& command_line, const Settings& s) {
  if (IsOn(s.module) && IsOn(s.no_python) && !IsOn(s.run_path)) {
    return Fault(*s.no_python, "cannot be used with -m (--module)");
  }
  for (const char* other : {"--rdzv-endpoint", "--master-addr"}) {
    const bool is_given =
        other == std::string_view("--master-addr") ? s.master_addr.has_value() : s.rdzv_endpoint.has_value();
    if (s.coordinator && is_given) return Fault(*s.coordinator, absl::StrCat("cannot be used with ", other));
  }
  const int max_nodes = s.nnodes ? s.nnodes->value.max : 0;
  if (IsOn(s.standalone) && max_nodes > 1) return WrongValue(*s.nnodes, "cannot be used with --standalone");
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
  if (s.restart_window && s.max_restarts && s.max_restarts->value > rendezvous::kMaxFailureAges) {
    return WrongValue(*s.max_restarts,
                      absl::StrCat("must be at most ", rendezvous::kMaxFailureAges, " with --restart-window"));
  }
  return absl::OkStatus();
}

// The names of variables after MUSTER_ or PET_.
std::vector<std::string> KnownVariables(const char* prefix) {
  const bool own = std::string_view(prefix) == kOwnPrefix;
  std::vector<std::string> known;
  for (const OptionSpec& spec : RunOptions()) {
    if (own || spec.torchrun) known.push_back(VariableName("", spec.name));
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

void ReadOutput(Reader* reader, Settings* s) {
  reader->Text("log-dir", &s->log_dir);
  reader->Read<StreamChoice>("redirects", &s->redirects, ParseStreams);
  reader->Read<StreamChoice>("tee", &s->tee, ParseStreams);
  reader->Read<std::vector<int>>("local-ranks-filter", &s->local_ranks_filter, ParseLocalRanks);
  reader->Read<std::vector<std::string>>("duplicate-stdout-filters", &s->stdout_filters, ParseFilters);
  reader->Read<std::vector<std::string>>("duplicate-stderr-filters", &s->stderr_filters, ParseFilters);
  reader->Text("log-line-prefix-template", &s->line_prefix);
  for (const auto* filters : {&s->stdout_filters, &s->stderr_filters}) {
    if (*filters && !s->tee) s->warnings.push_back((*filters)->source + ": has no effect without --tee");
  }
  reader->Read<int64_t>("log-max-size", &s->log_max_size, ParseSize);
  reader->Read<bool>("log-format", &s->log_json,
                     [](const std::string& text) { return OneOf(text, "json", "text"); });
  reader->Read<bool>("log-streams", &s->log_split,
                     [](const std::string& text) { return OneOf(text, "split", "stderr"); });
  reader->Text("report", &s->report);
}

// The restart policy: when the group restarts, with which nodes, and when the job ends instead.
void ReadRestarts(Reader* reader, Settings* s) {
  reader->Integer("max-restarts", &s->max_restarts, 0, kMaxRestarts);
  reader->Read<LossBudget>("max-node-losses", &s->max_node_losses, ParseLossBudget);
  reader->Duration("restart-window", &s->restart_window, absl::Seconds(1));
  reader->Duration("restart-delay", &s->restart_delay);
  reader->Text("progress-file", &s->progress_file);
  reader->Integer("max-membership-changes", &s->max_membership_changes, 0, kMaxRestarts);
  reader->Integer("exclude-after", &s->exclude_after, 0, kMaxRestarts);
  reader->Duration("exclude-for", &s->exclude_for, absl::Seconds(1));
  reader->Text("preflight", &s->preflight);
  reader->Duration("preflight-timeout", &s->preflight_timeout, kLeastPreflightTime);
  reader->Duration("gpu-release-timeout", &s->gpu_release_timeout);
  reader->Duration("join-settle", &s->join_settle);
  reader->Read<v1::NodeConfig::ScaleUp>("scale-up", &s->scale_up, ParseScaleUp);
  reader->Integer("node-unit", &s->node_unit, 1, kMaxNodes);
}

// Reads torchrun's options that have no effect. Returns --rdzv-conf, some of whose keys have one.
Given<std::string> ReadTorchrunOptions(Reader* reader, Settings* s) {
  Given<std::string> conf, backend, ignored;
  Given<double> interval;
  reader->Read<std::string>("print-completion", &ignored, ParseShell);
  reader->Text("rdzv-conf", &conf);
  reader->Read<std::string>("rdzv-backend", &backend, ParseBackend);
  reader->Read<std::string>("start-method", &ignored, ParseStartMethod);
  reader->Read<std::string>("event-log-handler", &ignored, ParseEventLogHandler);
  reader->Read<std::string>("logs-specs", &ignored, RefuseLogsSpecs);
  reader->Read<double>("monitor-interval", &interval, [](const std::string& text) -> absl::StatusOr<double> {
    double seconds = 0;
    if (absl::SimpleAtod(text, &seconds) && std::isfinite(seconds) && seconds >= 0) return seconds;
    return absl::InvalidArgumentError("expected a time in seconds");
  });
  if (backend && backend->value != "static") {
    s->notes.push_back(absl::StrCat(backend->source, " ", backend->value,
                                    ": has no effect; the nodes meet at the primary by muster's own protocol"));
  }
  return conf;
}

}  // namespace

std::string ShownWithValue(const std::string& source, const std::string& text) {
  const bool bare = !text.empty() && text.find(' ') == std::string::npos;
  return absl::StrCat(source, bare ? " " : " '", Shown(text), bare ? "" : "'");
}

absl::Status Fault(Origin origin, const std::string& source, const std::optional<std::string>& text,
                   const std::string& reason) {
  const std::string line = absl::StrCat(text ? ShownWithValue(source, *text) : source, ": ", reason);
  return origin == Origin::kFlag ? absl::InvalidArgumentError(line) : absl::FailedPreconditionError(line);
}

absl::StatusOr<Settings> ReadSettings(const CommandLine& command_line, const Environment& environment) {
  Settings s;
  s.nested = IsNested(environment);
  Reader reader(command_line, environment, s.nested);
  reader.Read<NodeRange>("nnodes", &s.nnodes, ParseNodeRange);
  reader.Integer("node-rank", &s.node_rank, 0, kMaxNodes - 1);
  reader.Read<std::string>("master-addr", &s.master_addr, ParseHost);
  reader.Read<uint16_t>("master-port", &s.master_port, ParsePort);
  reader.Read<HostPort>("rdzv-endpoint", &s.rdzv_endpoint, ParseHostPort);
  reader.Read<HostPort>("coordinator", &s.coordinator, ParseCoordinator);
  reader.Text("rdzv-id", &s.rdzv_id);
  reader.Switch("standalone", &s.standalone);
  reader.Read<bool>("pools", &s.all_pools, ParsePools);
  reader.Text("instance-groups", &s.instance_groups);
  reader.Read<std::string>("source", &s.source, ParseSource);
  reader.Text("hostfile", &s.hostfile);
  reader.Text("include", &s.include);
  reader.Text("exclude", &s.exclude);
  reader.Read<std::string>("local-addr", &s.local_addr, ParseHost);
  reader.Read<SlotCount>("nproc-per-node", &s.nproc_per_node, ParseSlotCount);
  reader.Read<PortRange>("worker-port", &s.worker_port, ParsePortRange);
  reader.Read<StdinChoice>("stdin", &s.stdin_choice, ParseStdinChoice);
  reader.Text("role", &s.role);
  ReadRestarts(&reader, &s);
  reader.Duration("join-timeout", &s.join_timeout);
  reader.Duration("last-call-timeout", &s.last_call_timeout);
  reader.Duration("rejoin-timeout", &s.rejoin_timeout);
  reader.Duration("coordinator-timeout", &s.coordinator_timeout);
  reader.Duration("lease", &s.lease, absl::Seconds(1), kMaxLease);
  reader.Duration("heartbeat-interval", &s.heartbeat_interval, absl::Milliseconds(10));
  reader.Duration("reconnect-grace", &s.reconnect_grace);
  reader.Duration("shutdown-timeout", &s.shutdown_timeout);
  reader.Duration("termination-grace", &s.termination_grace);
  reader.Integer("retryable-exit-code", &s.retryable_exit_code, 0, kMaxExitCode);
  reader.Read<NoticeChoice>("preemption-notice", &s.preemption_notice, ParseNotice);
  reader.Duration("stop-before", &s.stop_before);
  reader.Read<absl::Time>("deadline", &s.deadline, ParseDeadline);
  reader.Switch("hyperparameters-as-args", &s.hyperparameters_as_args);
  reader.Switch("module", &s.module);
  reader.Switch("no-python", &s.no_python);
  reader.Text("python", &s.python);
  reader.Switch("run-path", &s.run_path);
  reader.Read<std::string>("pass-local-rank", &s.pass_local_rank, ParseOptionName);
  reader.Read<SignalChoice>("signals-to-handle", &s.signals_to_handle, ParseSignals);
  reader.Switch("virtual-local-rank", &s.virtual_local_rank);
  reader.Read<std::string>("numa-binding", &s.numa_binding, ParseNumaBinding);
  ReadOutput(&reader, &s);
  const Given<std::string> conf = ReadTorchrunOptions(&reader, &s);
  RETURN_IF_ERROR(reader.status());
  if (conf) RETURN_IF_ERROR(ConfReader(*conf, &s).Run());
  RETURN_IF_ERROR(CheckRelations(command_line, s));
  if (s.hostfile) s.source = {discovery::kHostfile, s.hostfile->origin, s.hostfile->source, s.hostfile->text};
  WarnOfMistypedVariables(environment, &s);
  return s;
}

}  // namespace muster::cli
