// The options of `muster run` as typed values, each with its origin. Read once (read_settings.h); all later code
// uses the values, not the text. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/options/command_line.h"
#include "cli/options/output_values.h"
#include "cli/options/values.h"

namespace muster::cli {

using Environment = std::map<std::string, std::string>;

enum class Origin { kFlag, kMusterVariable, kTorchrunVariable, kPlatform, kDefault };

template <typename T>
struct Setting {
  T value{};
  Origin origin = Origin::kDefault;
  std::string source;  // "--nnodes", "MUSTER_NNODES", "PET_NNODES", "vertex", "default"
  std::string text;    // as it was given
};

template <typename T>
using Given = std::optional<Setting<T>>;

// One line of `muster env`.
struct SettingLine {
  std::string name;
  std::string value;
  std::string origin;  // "--lease", "MUSTER_LEASE", "PET_...", "vertex", "default"
};

// In the records below nullopt means: not given, and the option table has no default; the default depends on the
// platform or on other options, and the plan adds it.

// Which nodes are in the job, and which of them this one is.
struct MembershipSettings {
  Given<NodeRange> nnodes;
  Given<int> node_rank;
  Given<std::string> master_addr;
  Given<uint16_t> master_port;
  Given<HostPort> rdzv_endpoint;
  Given<HostPort> coordinator;
  Given<std::string> rdzv_id;
  Given<bool> standalone;
  Given<bool> all_pools;
  Given<std::string> instance_groups;
  Given<std::string> hostfile;
  Given<std::string> include;
  Given<std::string> exclude;
  std::vector<std::string> hosts = {};  // by rank; empty: not known
  Given<std::string> source;            // source of the membership
  Given<std::string> token_file;
  Given<std::string> tls_cert;
  Given<std::string> tls_key;
  Given<std::string> tls_ca;
  Given<std::string> tls_name;
  Given<std::string> local_addr;
  std::optional<bool> is_host;  // from --rdzv-conf: whether this node is the primary
  bool rank_is_hint = false;    // --node-rank is, as under torchrun with the c10d backend
  bool nested = false;          // muster runs inside a worker of another launcher
  bool as_torchrun = false;     // see CommandLine
};

// The smallest number of nodes that the options allow; torchrun alone lets a job of one node have MIN:MAX.
int LeastNodes(const MembershipSettings& s);

// torchrun ignores the rank of an only node.
std::string NodeRankIsIgnored(const Setting<int>& node_rank);

// The workers of this node.
struct WorkerSettings {
  Given<std::string> host_socket;
  Given<SlotCount> nproc_per_node;
  Given<PortRange> worker_port;
  Given<StdinChoice> stdin_choice;
  Given<DebugChoice> debug;
  Given<ModuleNames> preload;
  Given<std::string> role;
  Given<bool> virtual_local_rank;
  Given<std::string> numa_binding;
};

// When the group restarts, and with which nodes.
struct RestartSettings {
  Given<int> max_restarts;
  Given<absl::Duration> restart_window;
  Given<std::string> progress_file;
  Given<std::string> preflight;
  Given<absl::Duration> preflight_timeout;
  Given<absl::Duration> gpu_release_timeout;
  Given<int> node_unit;
};

// How long nodes wait for each other, and for workers to end.
struct TimeSettings {
  Given<absl::Duration> join_timeout;
  Given<absl::Duration> last_call_timeout;
  Given<absl::Duration> rejoin_timeout;
  Given<absl::Duration> coordinator_timeout;
  Given<absl::Duration> lease;
  Given<absl::Duration> heartbeat_interval;
  Given<absl::Duration> reconnect_grace;
  Given<absl::Duration> shutdown_timeout;
};

// What asks this node to leave the job, and how it does so.
struct LeavingSettings {
  Given<SignalChoice> signals_to_handle;
  Given<absl::Duration> termination_grace;
  Given<int> retryable_exit_code;
  Given<NoticeChoice> preemption_notice;
  Given<absl::Duration> stop_before;
  Given<absl::Time> deadline;
};

// Commands that a node runs beside its workers.
struct HookSettings {
  Given<std::string> node_setup;
  Given<std::string> on_success;
  Given<std::string> on_failure;
  Given<absl::Duration> hook_timeout;
};

// The program that each worker executes.
struct ProgramSettings {
  Given<bool> module;
  Given<bool> no_python;
  Given<bool> run_path;
  Given<std::string> python;
  Given<bool> hyperparameters_as_args;
  Given<std::string> pass_local_rank;  // the option's name, without dashes
};

// The output of the workers and of muster itself.
struct OutputSettings {
  Given<std::string> log_dir;
  Given<StreamChoice> redirects;
  Given<StreamChoice> tee;
  Given<std::vector<int>> local_ranks_filter;
  Given<std::vector<std::string>> stdout_filters;
  Given<std::vector<std::string>> stderr_filters;
  Given<std::string> line_prefix;
  Given<GroupLines> group_lines;
  Given<int64_t> log_max_size;
  Given<bool> log_json;
  Given<bool> log_split;
  Given<std::string> report;
  Given<bool> report_on_all;
  Given<std::string> events;
  Given<std::string> on_event;
  Given<std::vector<std::string>> on_event_filter;
  Given<HostPort> http;
  Given<std::string> http_token_file;
};

// Options of torchrun that affect muster only through other settings.
struct TorchrunSettings {
  Given<std::string> rdzv_backend;
  Given<std::string> rdzv_conf;
};

// The given options, by the part of the program that reads them.
struct Settings {
  MembershipSettings membership;
  WorkerSettings workers;
  RestartSettings restarts;
  TimeSettings times;
  LeavingSettings leaving;
  ProgramSettings program;
  HookSettings hooks;
  OutputSettings output;
  TorchrunSettings torchrun;
  v1::NodeConfig config;                  // options that only the agent or the coordinator reads
  std::vector<SettingLine> config_lines;  // of these options, in the order of the table
  std::vector<std::string> notes;         // info lines, e.g. on options without effect
  std::vector<std::string> warnings;
};

template <typename T>
T ValueOr(const Given<T>& given, T fallback) {
  return given ? given->value : std::move(fallback);
}
inline bool IsOn(const Given<bool>& given) { return given && given->value; }

// The error for a setting, in one line: "--nnodes" or "MUSTER_NNODES", the value, the reason. InvalidArgument (64)
// for an option, FailedPrecondition (65) for a variable. The value is escaped and shortened; an empty one is shown
// as '', nullopt (a switch) not at all.
absl::Status Fault(Origin origin, const std::string& source, const std::optional<std::string>& text,
                   const std::string& reason);
template <typename T>
absl::Status Fault(const Setting<T>& setting, const std::string& reason) {
  return Fault(setting.origin, setting.source, setting.text, reason);
}
inline absl::Status Fault(const Setting<bool>& setting, const std::string& reason) {
  const bool word = setting.origin == Origin::kFlag && setting.text == kSwitchGiven;
  return Fault(setting.origin, setting.source, word ? std::nullopt : std::optional(setting.text), reason);
}

// The error for an invalid value. For a variable, which was not typed just now, it adds what to do.
template <typename T>
absl::Status WrongValue(const Setting<T>& setting, const std::string& reason) {
  return Fault(setting, setting.origin == Origin::kFlag ? reason : reason + "; correct it, or unset it");
}

// "--nnodes 0", "--role 'a\nb'"
std::string ShownWithValue(const std::string& source, const std::string& text);

}  // namespace muster::cli
