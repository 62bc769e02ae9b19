#include "cli/settings.h"

#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/host/utf8.h"
#include "proto/base/check.h"
#include "proto/base/duration.h"
#include "proto/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr char kOwnPrefix[] = "MUSTER_";
constexpr char kTorchrunPrefix[] = "PET_";

// Variables of these options, left by the launcher whose worker we run in, speak of its job and not of ours.
bool TellsOfTheOuterJob(const OptionSpec& spec) {
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
      status_ = Fault(*found, std::string(AsStd(value.status().message())));
      return;
    }
    *out = Setting<T>{std::move(value).value(), found->origin, found->source, found->text};
  }

  void Duration(std::string_view name, Given<absl::Duration>* out, absl::Duration least) {
    Read<absl::Duration>(name, out, [least](const std::string& text) -> absl::StatusOr<absl::Duration> {
      absl::StatusOr<absl::Duration> value = ParseDuration(text);
      if (!value.ok()) return absl::InvalidArgumentError("expected a time in seconds, or 500ms, 20s, 5m, 1h");
      if (*value < least) return absl::InvalidArgumentError("expected at least " + muster::FormatDuration(least));
      return value;
    });
  }

  void Integer(std::string_view name, Given<int>* out, int low, int high) {
    Read<int>(name, out, [low, high](const std::string& text) { return ParseInteger(text, low, high); });
  }

  void Text(std::string_view name, Given<std::string>* out) {
    Read<std::string>(name, out, [](const std::string& text) -> absl::StatusOr<std::string> {
      if (text.empty()) return absl::InvalidArgumentError("expected a value");
      if (text.find_first_of("\n\r") != std::string::npos || text.find('\0') != std::string::npos) {
        return absl::InvalidArgumentError("expected one line");
      }
      if (host::ToUtf8(text, text.size()) != text) return absl::InvalidArgumentError("expected UTF-8");
      return text;
    });
  }

  void Switch(std::string_view name, Given<bool>* out) {
    Read<bool>(name, out, [](const std::string& text) { return ParseBoolean(text); });
  }

  const absl::Status& status() const { return status_; }

 private:
  std::optional<Setting<std::string>> Find(std::string_view name) const {
    const OptionSpec* spec = FindOption(RunOptions(), name);
    MUSTER_CHECK(spec != nullptr, "an option that is not in the table");
    const auto given = command_line_.given.find(std::string(name));
    if (given != command_line_.given.end()) {
      return Setting<std::string>{{}, Origin::kFlag, absl::StrCat("--", AsAbsl(name)), given->second};
    }
    if (nested_ && TellsOfTheOuterJob(*spec)) return std::nullopt;
    if (auto own = Variable(kOwnPrefix, name, Origin::kMusterVariable)) return own;
    if (spec->torchrun) return Variable(kTorchrunPrefix, name, Origin::kTorchrunVariable);
    return std::nullopt;
  }

  std::optional<Setting<std::string>> Variable(const char* prefix, std::string_view name, Origin origin) const {
    const std::string variable = VariableName(prefix, name);
    const auto found = environment_.find(variable);
    if (found == environment_.end() || found->second.empty()) return std::nullopt;
    // Kubernetes sets such a one for a Service that happens to be named like us ("muster-master").
    if (absl::StartsWith(found->second, "tcp://")) return std::nullopt;
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

absl::StatusOr<std::string> ParseBackend(const std::string& text) {
  if (text == "static" || text == "c10d") return text;
  return absl::InvalidArgumentError("muster needs no such store; leave the option out");
}

// torchrun's timeouts by their keys. Options of their own come first.
absl::Status TakeConf(const Given<std::string>& conf, Settings* settings) {
  if (!conf) return absl::OkStatus();
  const auto pairs = ParseRendezvousConf(conf->text);
  if (!pairs.ok()) return Fault(*conf, std::string(AsStd(pairs.status().message())));
  for (const auto& [key, value] : *pairs) {
    Given<absl::Duration>* out = key == "join_timeout" || key == "timeout" ? &settings->join_timeout
                                 : key == "last_call_timeout"              ? &settings->last_call_timeout
                                                                           : nullptr;
    if (out == nullptr || *out) continue;
    const absl::StatusOr<absl::Duration> time = ParseDuration(value);
    if (!time.ok()) return Fault(*conf, absl::StrCat(key, " is not a time in seconds"));
    *out = Setting<absl::Duration>{*time, conf->origin, conf->source, value};
  }
  return absl::OkStatus();
}

// What must hold between two options.
absl::Status CheckRelations(const Settings& s) {
  if (s.module && s.module->value && s.no_python && s.no_python->value) {
    return Fault(s.no_python->origin, s.no_python->source, "", "cannot be used with -m (--module)");
  }
  if (s.standalone && s.standalone->value && s.nnodes && s.nnodes->value.max > 1) {
    return Fault(*s.nnodes, "--standalone is one node");
  }
  const int max_nodes = s.nnodes ? s.nnodes->value.max : 0;
  if (s.node_rank && s.nnodes && s.node_rank->value >= max_nodes) {
    return Fault(*s.node_rank, absl::StrCat("must be less than the number of nodes, ", max_nodes));
  }
  return absl::OkStatus();
}

bool IsNested(const Environment& environment) {
  return environment.count("LOCAL_RANK") > 0 && environment.count("TORCHELASTIC_RUN_ID") > 0;
}

}  // namespace

absl::Status Fault(Origin origin, const std::string& source, const std::string& text, const std::string& reason) {
  const std::string line = absl::StrCat(source, text.empty() ? "" : " ", text, ": ", reason);
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
  reader.Text("rdzv-id", &s.rdzv_id);
  reader.Switch("standalone", &s.standalone);
  reader.Read<bool>("pools", &s.all_pools, ParsePools);
  reader.Read<std::string>("local-addr", &s.local_addr, ParseHost);
  reader.Read<SlotCount>("nproc-per-node", &s.nproc_per_node, ParseSlotCount);
  reader.Read<PortRange>("worker-port", &s.worker_port, ParsePortRange);
  reader.Read<StdinChoice>("stdin", &s.stdin_choice, ParseStdinChoice);
  reader.Text("role", &s.role);
  reader.Integer("max-restarts", &s.max_restarts, 0, kMaxRestarts);
  reader.Integer("max-node-losses", &s.max_node_losses, 0, kMaxRestarts);
  reader.Duration("join-timeout", &s.join_timeout, absl::ZeroDuration());
  reader.Duration("last-call-timeout", &s.last_call_timeout, absl::ZeroDuration());
  reader.Duration("rejoin-timeout", &s.rejoin_timeout, absl::ZeroDuration());
  reader.Duration("coordinator-timeout", &s.coordinator_timeout, absl::ZeroDuration());
  reader.Duration("lease", &s.lease, absl::Seconds(1));
  reader.Duration("heartbeat-interval", &s.heartbeat_interval, absl::Milliseconds(10));
  reader.Duration("reconnect-grace", &s.reconnect_grace, absl::ZeroDuration());
  reader.Duration("shutdown-timeout", &s.shutdown_timeout, absl::ZeroDuration());
  reader.Duration("termination-grace", &s.termination_grace, absl::ZeroDuration());
  reader.Switch("module", &s.module);
  reader.Switch("no-python", &s.no_python);
  reader.Text("python", &s.python);
  Given<std::string> conf;
  reader.Text("rdzv-conf", &conf);
  Given<std::string> ignored;
  reader.Read<std::string>("rdzv-backend", &ignored, ParseBackend);
  RETURN_IF_ERROR(reader.status());
  RETURN_IF_ERROR(TakeConf(conf, &s));
  RETURN_IF_ERROR(CheckRelations(s));
  return s;
}

}  // namespace muster::cli
