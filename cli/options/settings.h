// The options of `muster run` as typed values, each with where it came from. Read once; everything after this
// works on values, never on text. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
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

// What was said; an option that nobody gave is empty. Defaults are the plan's business: they depend on the
// platform.
struct Settings {
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
  Given<std::string> source;  // whom to ask for the place
  Given<std::string> local_addr;
  Given<SlotCount> nproc_per_node;
  Given<PortRange> worker_port;
  Given<StdinChoice> stdin_choice;
  Given<std::string> role;
  Given<int> max_restarts;
  Given<LossBudget> max_node_losses;
  Given<absl::Duration> restart_window;
  Given<absl::Duration> restart_delay;
  Given<std::string> progress_file;
  Given<int> max_membership_changes;
  Given<int> exclude_after;
  Given<absl::Duration> exclude_for;
  Given<std::string> preflight;
  Given<absl::Duration> preflight_timeout;
  Given<absl::Duration> gpu_release_timeout;
  Given<absl::Duration> join_settle;
  Given<v1::NodeConfig::ScaleUp> scale_up;
  Given<int> node_unit;
  Given<absl::Duration> join_timeout;
  Given<absl::Duration> last_call_timeout;
  Given<absl::Duration> rejoin_timeout;
  Given<absl::Duration> coordinator_timeout;
  Given<absl::Duration> lease;
  Given<absl::Duration> heartbeat_interval;
  Given<absl::Duration> reconnect_grace;
  Given<absl::Duration> shutdown_timeout;
  Given<absl::Duration> termination_grace;
  Given<int> retryable_exit_code;
  Given<NoticeChoice> preemption_notice;
  Given<absl::Duration> stop_before;
  Given<absl::Time> deadline;
  Given<bool> hyperparameters_as_args;
  Given<bool> module;
  Given<bool> no_python;
  Given<bool> run_path;
  Given<std::string> python;
  Given<std::string> pass_local_rank;  // the option's name, without dashes
  Given<SignalChoice> signals_to_handle;
  Given<bool> virtual_local_rank;
  Given<std::string> numa_binding;
  Given<std::string> log_dir;
  Given<StreamChoice> redirects;
  Given<StreamChoice> tee;
  Given<std::vector<int>> local_ranks_filter;
  Given<std::vector<std::string>> stdout_filters;
  Given<std::vector<std::string>> stderr_filters;
  Given<std::string> line_prefix;
  Given<int64_t> log_max_size;
  Given<bool> log_json;
  Given<bool> log_split;
  Given<std::string> report;
  std::optional<bool> is_host;     // of --rdzv-conf: this node is, or is not, the primary
  std::vector<std::string> notes;  // what was taken and needs nothing, one line each
  std::vector<std::string> warnings;
  bool nested = false;  // we run inside a worker of another launcher
};

// "--nnodes" or "MUSTER_NNODES", then the value, then the reason: the one line of every error.
// A flag's fault is InvalidArgument (64), a variable's FailedPrecondition (65).
// The value is shown escaped and cut, an empty one as ''; none at all for a switch.
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

// A value that is wrong in itself. Who sees the fault of a variable did not type it just now, and is told what to
// do.
template <typename T>
absl::Status WrongValue(const Setting<T>& setting, const std::string& reason) {
  return Fault(setting, setting.origin == Origin::kFlag ? reason : reason + "; correct it, or unset it");
}

// "--nnodes 0", "--role 'a\nb'"
std::string ShownWithValue(const std::string& source, const std::string& text);

// Command line, then MUSTER_*, then PET_* for what torchrun has. An empty variable is one not set; so is an empty
// value of those options of which torchrun takes one.
absl::StatusOr<Settings> ReadSettings(const CommandLine& command_line, const Environment& environment);

}  // namespace muster::cli
