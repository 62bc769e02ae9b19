#include "tests/simulation/node_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::simulation {
namespace {

constexpr int kPrimaryPort = 29400;

}  // namespace

v1::NodeConfig MakeConfig(const Scenario& scenario, int place, const Machine& machine) {
  const bool observer = place >= scenario.job.nodes;
  v1::NodeConfig c;
  c.set_run_id("simulated");
  c.set_run_id_may_repeat(scenario.job.run_id_may_repeat);
  c.set_split(scenario.sidecars.used);
  c.set_hostname(absl::StrCat("m", machine.id));
  c.set_version("1");
  v1::Whereabouts& where = *c.mutable_whereabouts();  // the platform adds the process
  for (std::string* hash : {where.mutable_machine(), where.mutable_container(), where.mutable_user()}) {
    *hash = machine.boot_id;
  }
  c.set_role(observer ? v1::ROLE_OBSERVER : v1::ROLE_TRAINER);
  if (!observer && scenario.job.places != Places::kNone) c.set_place(scenario.job.equal_ranks ? 0 : place);
  c.set_place_is_hint(c.has_place() && scenario.job.equal_ranks);
  if (scenario.job.places == Places::kSpec) {
    for (int i = 0; i < scenario.job.nodes; ++i) c.add_place_names(absl::StrCat("node-", i));
  }
  c.set_min_nodes(scenario.job.min_nodes);
  c.set_max_nodes(scenario.job.max_nodes);
  c.set_slots(scenario.job.slots);
  c.set_role_name("default");
  c.mutable_primary()->set_host("node-0");
  c.mutable_primary()->set_port(kPrimaryPort);
  const bool serves = place == 0 && !scenario.job.coordinator_alone;
  c.set_serves(serves ? v1::NodeConfig::SERVES_YES : v1::NodeConfig::SERVES_NO);
  if (scenario.job.serves_if_local && !observer) c.set_serves(v1::NodeConfig::SERVES_IF_LOCAL);
  if (scenario.job.address_is_nobodys && c.has_place() && c.place() == 0)
    c.set_serves(v1::NodeConfig::SERVES_IF_REACHED);
  c.set_coordinator_alone(scenario.job.coordinator_alone);
  c.set_single_node(scenario.limits.lease == 0);
  c.set_max_restarts(scenario.policy.max_restarts);
  c.set_max_node_losses(scenario.policy.max_node_losses);
  c.set_node_loss_window_ms(3600 * 1000);
  c.set_node_unit(scenario.job.node_unit);
  c.set_scale_up(static_cast<v1::NodeConfig::ScaleUp>(scenario.policy.scale_up));
  c.set_max_membership_changes(scenario.policy.max_membership_changes);
  c.set_exclude_after(scenario.policy.exclude_after);
  c.set_exclude_for_ms(scenario.policy.exclude_for / kMillisecond);
  c.set_restart_window_ms(scenario.policy.restart_window / kMillisecond);
  c.set_restart_delay_ms(scenario.policy.restart_delay / kMillisecond);
  c.set_watches_progress(scenario.workers.progress_within > 0);
  c.set_join_settle_ms(scenario.policy.join_settle / kMillisecond);
  c.set_hang_timeout_ms(scenario.hangs.timeout / kMillisecond);
  if (scenario.hangs.stops_job) c.set_on_hang(v1::NodeConfig::ON_HANG_STOP);
  c.set_lease_ms(scenario.limits.lease / kMillisecond);
  c.set_reconnect_grace_ms(scenario.limits.reconnect_grace / kMillisecond);
  c.set_join_timeout_ms(scenario.limits.join_timeout / kMillisecond);
  c.set_rejoin_timeout_ms(scenario.limits.rejoin_timeout / kMillisecond);
  c.set_last_call_ms(scenario.limits.last_call / kMillisecond);
  c.set_coordinator_timeout_ms(scenario.limits.coordinator_timeout / kMillisecond);
  c.set_shutdown_grace_ms(scenario.limits.shutdown_grace / kMillisecond);
  return c;
}

std::optional<host::StopBefore> MakeStopBefore(const Scenario& scenario, const Machine& machine, Micros now) {
  const host::StopBefore stop{absl::UnixEpoch() + absl::Microseconds(scenario.deadline.at),
                              absl::Microseconds(scenario.deadline.stop_before), "the job's time is nearly over"};
  if (scenario.deadline.at == 0 || machine.WallAt(now) + absl::Seconds(1) >= MayLeaveFrom(stop))
    return std::nullopt;
  return stop;
}

absl::Time MayLeaveFrom(const host::StopBefore& stop) {
  return stop.deadline - stop.before - std::min(stop.before, host::kMaxUselessRound);
}

}  // namespace muster::simulation
