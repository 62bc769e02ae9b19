// The plan of `muster run`, computed from the command line, the environment and the machine. Pure: the machine is
// read through the functions in Machine.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/core/host_options.h"
#include "agent/host/launch_plan.h"
#include "agent/platform/discovery/discover.h"
#include "agent/platform/machine/accelerators.h"
#include "agent/platform/machine/interpreter.h"
#include "cli/options/settings.h"
#include "cli/options/values.h"
#include "cli/plan/secret_reader.h"
#include "muster/v1/host.pb.h"

namespace muster::cli {

inline constexpr char kDefault[] = "default";  // origin of a value
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
  std::string host_secret;    // of this host's Identity, new
  std::string random_run_id;  // for a single-node job
  std::string version;
  bool nvidia_driver = false;                           // the NVIDIA driver is loaded and has a GPU
  bool first_process = false;                           // this is process 1 of a container, or its child
  bool dialogue = false;                                // HasDialogue
  bool out_is_terminal = false;                         // its own standard output
  bool err_is_terminal = false;                         // and error
  bool streams_are_one = false;                         // both lead to one file
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
  // Receives HostOptions::retryable_exit_code as soon as it is known, before accelerators are counted. May be
  // empty.
  std::function<void(int code)> on_retryable_exit_code = {};
};

// A value that nobody has given.
struct Fallback {
  std::string origin = kDefault;
  std::string shown = {};  // in place of the value; empty: the value
};

// What a part of a plan tells people.
struct PlanLines {
  std::vector<SettingLine> lines;  // of `muster env`: each setting with the origin of its value
  std::vector<std::string> notes;
  std::vector<std::string> warnings;

  // Adds the line of a setting; returns the given value, or else the fallback.
  template <typename T>
  T Pick(const char* name, const Given<T>& given, T value, const Fallback& fallback = {}) {
    if (given) return Pick(name, given);
    Add(name, fallback.shown.empty() ? ShowValue(value) : fallback.shown, fallback.origin);
    return value;
  }

  // The same for a setting that has its default from the option table, or was given.
  template <typename T>
  T Pick(const char* name, const Given<T>& setting) {
    Add(name, ShowValue(setting->value), setting->source);
    return setting->value;
  }

  // Adds the line only if the setting was given.
  template <typename T>
  void AddGiven(const char* name, const Given<T>& given) {
    if (given) Add(name, given->text, given->source);
  }

  void Add(const char* name, std::string value, std::string origin) {
    lines.push_back({name, std::move(value), std::move(origin)});
  }

  // Adds the lines of options that are in the configuration already, except names that have a line.
  void AddConfigured(const Settings& settings, std::initializer_list<std::string_view> names) {
    for (const SettingLine& line : settings.config_lines) {
      if (std::find(names.begin(), names.end(), line.name) != names.end()) AddUnlessThere(line);
    }
  }
  void AddUnlessThere(const SettingLine& line) {
    const auto is_it = [&](const SettingLine& other) { return other.name == line.name; };
    if (std::none_of(lines.begin(), lines.end(), is_it)) lines.push_back(line);
  }

  void Append(const PlanLines& part) {
    lines.insert(lines.end(), part.lines.begin(), part.lines.end());
    notes.insert(notes.end(), part.notes.begin(), part.notes.end());
    warnings.insert(warnings.end(), part.warnings.begin(), part.warnings.end());
  }
};

struct RunPlan {
  Settings settings;            // as given
  discovery::ClusterView view;  // of the platform, changed by the options; its warnings are in `shown`
  host::HostOptions host;       // its `config` goes to agent and coordinator
  host::LaunchPlan launch;
  machine::WorkerCount counted;  // why this number of workers; no reason: it was given
  bool no_python = false;
  std::vector<std::string> script_arguments;  // of launch.program, the script
  machine::Interpreter interpreter;           // from PlanProgram(), like `check`
  machine::ProgramCheck check;                // a failure is reported to the job; a single-node job ends at once
  PlanLines shown;                            // to people; notes are info lines, e.g. on options without effect
  std::vector<std::string> credential_warnings;  // of those in `shown`
};

}  // namespace muster::cli
