// The plan of `muster run`, computed from the command line, the environment and the machine. Pure: the machine is
// read through the functions in Machine.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/core/host_core.h"
#include "agent/host/core/output_plan.h"
#include "agent/platform/discovery/discover.h"
#include "agent/platform/machine/accelerators.h"
#include "cli/options/command_line.h"
#include "cli/options/settings.h"
#include "cli/plan/token.h"
#include "muster/v1/host.pb.h"

namespace muster::cli {

inline constexpr absl::Duration kJoinTimeout = absl::Minutes(10);
inline constexpr absl::Duration kRejoinTimeout = absl::Seconds(1800);
inline constexpr absl::Duration kCoordinatorTimeout = absl::Seconds(900);
// Both timeouts where the platform replaces no node, and waiting nodes hold their GPUs.
inline constexpr absl::Duration kNoReplacementWait = absl::Minutes(5);
inline constexpr absl::Duration kReconnectGrace = absl::Seconds(2);
inline constexpr int kLeastBeatsPerLease = 4;
inline constexpr absl::Duration kLastCall = absl::Seconds(30);
inline constexpr absl::Duration kPlatformLastCall = absl::Seconds(5);
inline constexpr absl::Duration kGpuReleaseTimeout = absl::Seconds(30);
inline constexpr int kPlatformMaxRestarts = 3;
// Defaults of --termination-grace if the platform has none of its own: the time to SIGKILL, less a reserve.
inline constexpr absl::Duration kContainerGrace = absl::Seconds(8);    // of the usual 10
inline constexpr absl::Duration kSpotGrace = absl::Seconds(10);        // of the 15 that GKE gives ordinary pods
inline constexpr absl::Duration kKubernetesGrace = absl::Seconds(25);  // of the usual 30
inline constexpr absl::Duration kPlainGrace = absl::Seconds(30);

struct Machine {
  std::string hostname;
  std::string boot_id;
  std::string pid_namespace;
  std::string host_id;        // of host_key
  std::string host_key;       // the secret of this host's Identity
  std::string random_run_id;  // for a single-node job
  std::string version;
  bool nvidia_driver = false;                           // the NVIDIA driver is loaded and has a GPU
  bool first_process = false;                           // this is process 1 of a container, or its child
  bool dialogue = false;                                // HasDialogue
  std::function<machine::Accelerators()> accelerators;  // may take seconds
  // kind: "auto", "gpu", ...; empty: the default on a platform.
  std::function<absl::StatusOr<machine::WorkerCount>(const std::string& kind)> count_workers;
  // May wait a few seconds for a file that the platform is about to write.
  std::function<absl::StatusOr<discovery::ClusterView>(const Environment&, const discovery::DiscoverOptions&)>
      discover;
  std::function<std::vector<std::string>(const Environment&, const discovery::DiscoverOptions&)> sources_here;
  // Text of a small file; nullopt: it cannot be read.
  std::function<std::optional<std::string>(const std::string& path)> read_file;
  SecretReader read_secret;
  // Whether a node can begin with the certificates of its configuration. Errors name the option.
  std::function<absl::Status(const v1::NodeConfig& config)> check_certificates;
  // CPUs near each of these GPUs; mode: a value of --numa-binding.
  std::function<absl::StatusOr<std::vector<std::set<int>>>(const std::string& mode, const std::vector<int>& gpus)>
      bind_to_cpus;
  // Receives RunPlan::retryable_exit_code as soon as it is known, before accelerators are counted. May be empty.
  std::function<void(int code)> on_retryable_exit_code = {};
};

struct RunPlan {
  Settings settings;            // as given; the launch reads those of which the plan makes nothing
  discovery::ClusterView view;  // of the platform, changed by the options
  std::string slots_reason;     // why this number of workers; empty: it was given
  bool on_platform = false;     // the membership comes from the platform, not from options
  std::string platform;         // platform of this machine, even if the membership comes from options; empty: none
  v1::NodeConfig config;
  absl::Duration termination_grace;
  int retryable_exit_code = 0;  // replaces 69 and 75; 0: none
  std::optional<host::StopBefore> stop_before;
  PortRange worker_port;
  host::OutputPlan output;
  host::ReportPlan report;
  absl::Duration hook_timeout;
  absl::Duration preflight_timeout;
  absl::Duration gpu_release_timeout;    // zero: GPUs are not checked
  SignalChoice leave_signals;            // none: the defaults
  std::string leave_signals_text;        // as torchrun passes it to workers
  std::string visible_variable;          // set to each worker's own device; empty: every worker sees all
  std::vector<std::string> own_devices;  // its values, by local rank
  std::vector<std::set<int>> cpus;       // of --numa-binding, by local rank; empty: not bound
  bool no_python = false;
  std::string script;
  std::vector<std::string> script_arguments;
  std::vector<SettingLine> lines;
  std::vector<std::string> credential_warnings;  // of those in `view`
  std::vector<std::string> notes;                // info lines, e.g. on options without effect
};

// Errors: see exit_codes.h. The script is not checked and may be absent.
absl::StatusOr<RunPlan> Plan(const CommandLine& command_line, const Environment& environment,
                             const Machine& machine);

// "node 1 of 3 (vertex), primary host:2222, 2 workers, run id: 123", for one info line.
std::string Summary(const RunPlan& plan);

}  // namespace muster::cli
