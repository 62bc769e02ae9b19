// The parts of a plan: for each record of settings a planner. It fills its part of what host, agent and
// coordinator take, and returns the lines that explain it. Pure: files are read through functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/core/host_options.h"
#include "agent/host/launch_plan.h"
#include "agent/platform/discovery/sources.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

// The nodes of the job and the rank of this one, from options or else from the platform.
struct Membership {
  discovery::ClusterView view;
  bool on_platform = false;
  bool single_node = false;
  int min_nodes = 1;
  int max_nodes = 1;
  v1::NodeConfig::Serves serves = v1::NodeConfig::SERVES_YES;
  bool rank_is_hint = false;
  std::string nodes_source = kDefault;  // origin of the number of nodes
  std::string ignored_sources;          // log line that names platforms found here but not read; empty: none
  std::string platform;                 // platform of this machine, whether read or not; empty: unknown
};

absl::StatusOr<Membership> FindMembership(const MembershipSettings& settings, const Environment& environment,
                                          const Machine& machine);

// What every part is made from.
struct PlanInput {
  const Settings& settings;
  const Environment& environment;
  const Machine& machine;
  const Membership& membership;

  const discovery::Traits& platform() const;  // of the machine, even if the membership comes from options
  std::string PlatformOrDefault() const;      // the origin of a default that is another one on platforms
  bool is_of_local() const;                   // this is a node of `muster local`
};

std::string ValueOf(const Environment& environment, const char* name);  // empty: not set

// MembershipSettings. All warnings of PlanCredentials() are about files and variables with secrets.
PlanLines PlanMembership(const PlanInput& in, discovery::ClusterView* view, v1::NodeConfig* config);
absl::StatusOr<PlanLines> PlanCredentials(const PlanInput& in, v1::NodeConfig* config);

// WorkerSettings: the number of workers, and how each is started.
absl::StatusOr<PlanLines> PlanSlots(const PlanInput& in, machine::WorkerCount* counted, v1::NodeConfig* config,
                                    host::LaunchPlan* launch);
absl::StatusOr<PlanLines> PlanWorkers(const PlanInput& in, host::HostOptions* host, host::LaunchPlan* launch);

// RestartSettings: restarts, checks of the node, growth. nvidia: each worker has an NVIDIA GPU.
PlanLines PlanRestarts(const PlanInput& in, v1::NodeConfig* config, host::LaunchPlan* launch);
PlanLines PlanFitness(const PlanInput& in, bool nvidia, host::HostOptions* host, host::LaunchPlan* launch);
absl::StatusOr<PlanLines> PlanGrowth(const PlanInput& in, v1::NodeConfig* config);

PlanLines PlanHooks(const PlanInput& in, host::HostOptions* host, host::LaunchPlan* launch);  // HookSettings
absl::StatusOr<PlanLines> PlanTimes(const PlanInput& in, v1::NodeConfig* config);             // TimeSettings
absl::StatusOr<PlanLines> PlanWeb(const PlanInput& in,
                                  v1::NodeConfig* config);  // --events, --on-event and --http
PlanLines PlanOutput(const PlanInput& in, v1::NodeConfig* config, host::LaunchPlan* launch);  // OutputSettings

// LeavingSettings: when the node leaves by itself, and how it leaves.
absl::StatusOr<PlanLines> PlanNotices(const PlanInput& in, host::HostOptions* host);
PlanLines PlanLeaving(const PlanInput& in, host::HostOptions* host, host::LaunchPlan* launch);
// The exit code at which the platform retries the job, and its origin.
std::pair<int, std::string> DefaultRetryCode(const PlanInput& in);

// --debug: turns off what would end a worker, or the job, while it holds a rank.
PlanLines PlanDebugger(const PlanInput& in, v1::NodeConfig* config);

// The end of this machine is announced (--preemption-notice).
struct NoticePlan {
  v1::NoticeSource source;
  std::string shown = "off";  // "gce, at 169.254.169.254:80"
  std::string why;            // origin of that choice
};

// read_file: returns the text of a small file, nullopt if it cannot be read; called only for `auto`.
absl::StatusOr<NoticePlan> PlanNotice(
    const LeavingSettings& settings, const Environment& environment,
    const std::function<std::optional<std::string>(const std::string&)>& read_file);

// The job's deadline is near (--stop-before).
inline constexpr absl::Duration kStopBefore = absl::Minutes(1);  // if only --deadline is given
struct DeadlinePlan {
  std::optional<host::StopBefore> stop;  // nullopt: no deadline, or --stop-before 0
  std::string deadline = "none";         // as shown to people
  std::string origin = kDefault;         // of the deadline
};
absl::StatusOr<DeadlinePlan> PlanDeadline(const LeavingSettings& settings, const Environment& environment);

// Checks that the ranks named by --debug, --stdin, --local-ranks-filter, --redirects and --tee exist. of_local:
// this is a node of `muster local`. If only some of the named ranks do not exist, appends a warning: nodes of
// different sizes may have the same command line.
//
// InvalidArgument, or FailedPrecondition for a variable: none of the named ranks exists, so the option would have
// no effect, or hide all output.
absl::Status CheckNamedRanks(const Settings& settings, const v1::NodeConfig& config, bool of_local,
                             std::vector<std::string>* warnings);

// Conventions of a platform's training containers (discovery::ContainerConventions) besides membership: the word
// that it appends to the command line, hyperparameters as arguments, the failure file.

// The conventions of the container in which this process runs, known by a file; nullptr: none.
const discovery::ContainerConventions* ContainerHere(const Environment& environment,
                                                     const machine::FileProbe& probe);

std::string FailureFile(const discovery::ContainerConventions& container, const Environment& environment);

// Completes a plan for a container with conventions; leaves others unchanged. Hyperparameters and variables are
// set only if the membership comes from the same platform. InvalidArgument: no script but the appended word. May
// count accelerators.
absl::Status TakeContainer(const PlanInput& in, RunPlan* plan);

}  // namespace muster::cli
