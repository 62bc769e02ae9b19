// When the group restarts, and the commands that a node runs beside its workers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/wire/namespaces.h"
#include "cli/plan/parts.h"

namespace muster::cli {
namespace {

int64_t Milliseconds(absl::Duration time) { return absl::ToInt64Milliseconds(time); }

}  // namespace

PlanLines PlanRestarts(const PlanInput& in, v1::NodeConfig* config, host::LaunchPlan* launch) {
  const RestartSettings& s = in.settings.restarts;
  const Given<DebugChoice>& debug = in.settings.workers.debug;
  PlanLines plan;
  const int restarts = in.membership.on_platform && !debug ? kPlatformMaxRestarts : 0;
  config->set_max_restarts(
      plan.Pick("max-restarts", s.max_restarts, restarts, {debug ? debug->source : in.PlatformOrDefault()}));
  config->set_restart_window_ms(
      Milliseconds(plan.Pick("restart-window", s.restart_window, absl::ZeroDuration(), {.shown = "none"})));
  plan.AddConfigured(
      in.settings, {"restart-delay", "max-node-losses", "max-membership-changes", "exclude-after", "exclude-for"});
  plan.AddGiven("progress-file", s.progress_file);
  config->set_watches_progress(s.progress_file.has_value());
  launch->progress_file = ValueOr<std::string>(s.progress_file, "");
  return plan;
}

PlanLines PlanFitness(const PlanInput& in, bool nvidia, host::HostOptions* host, host::LaunchPlan* launch) {
  const RestartSettings& s = in.settings.restarts;
  PlanLines plan;
  plan.AddGiven("preflight", s.preflight);
  launch->preflight = ValueOr<std::string>(s.preflight, "");
  if (s.preflight) host->preflight_timeout = plan.Pick("preflight-timeout", s.preflight_timeout);
  const bool has_gpus = nvidia || in.machine.nvidia_driver;
  if (has_gpus || s.gpu_release_timeout) {
    const absl::Duration limit = plan.Pick("gpu-release-timeout", s.gpu_release_timeout, kGpuReleaseTimeout);
    if (has_gpus) host->gpu_release_timeout = limit;
  }
  host->driver_pids = in.machine.pid_namespace == kFirstPidNamespace;  // in which drivers see all processes
  return plan;
}

PlanLines PlanHooks(const PlanInput& in, host::HostOptions* host, host::LaunchPlan* launch) {
  const HookSettings& s = in.settings.hooks;
  PlanLines plan;
  plan.AddGiven("node-setup", s.node_setup);
  plan.AddGiven("on-success", s.on_success);
  plan.AddGiven("on-failure", s.on_failure);
  launch->setup = ValueOr<std::string>(s.node_setup, "");
  launch->on_success = ValueOr<std::string>(s.on_success, "");
  launch->on_failure = ValueOr<std::string>(s.on_failure, "");
  if (!s.node_setup && !s.on_success && !s.on_failure) return plan;
  launch->last_command_limits.run = plan.Pick("hook-timeout", s.hook_timeout);
  if (s.node_setup) host->setup_timeout = launch->last_command_limits.run;
  return plan;
}

// With --nnodes MIN:MAX: when the group grows, and by how many nodes.
absl::StatusOr<PlanLines> PlanGrowth(const PlanInput& in, v1::NodeConfig* config) {
  PlanLines plan;
  const Given<DebugChoice>& debug = in.settings.workers.debug;
  const auto is_default = [](const SettingLine& line) {
    return line.name == "scale-up" && line.origin == kDefault;
  };
  const std::vector<SettingLine>& lines = in.settings.config_lines;
  // A node that arrives restarts no group that is debugged, unless that was asked for.
  if (debug && std::any_of(lines.begin(), lines.end(), is_default)) {
    config->set_scale_up(v1::NodeConfig::SCALE_UP_ON_RESTART);
    plan.Add("scale-up", ShowValue(config->scale_up()), debug->source);
  }
  plan.AddConfigured(in.settings, {"join-settle", "scale-up"});
  const Given<int>& node_unit = in.settings.restarts.node_unit;
  const int unit = plan.Pick("node-unit", node_unit);
  config->set_node_unit(unit);
  if (config->min_nodes() % unit == 0 && config->max_nodes() % unit == 0) return plan;
  return Fault(*node_unit, absl::StrCat("must divide the minimum and the maximum number of nodes, ",
                                        config->min_nodes(), " and ", config->max_nodes()));
}

}  // namespace muster::cli
