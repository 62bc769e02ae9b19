#include "rendezvous/core/options.h"

#include <algorithm>
#include <limits>

#include "muster/v1/host.pb.h"

namespace muster::rendezvous {
namespace {

ScaleUp ScaleUpFrom(v1::NodeConfig::ScaleUp given) {
  switch (given) {
    case v1::NodeConfig::SCALE_UP_ON_RESTART:
      return ScaleUp::kOnRestart;
    case v1::NodeConfig::SCALE_UP_NEVER:
      return ScaleUp::kNever;
    default:
      return ScaleUp::kImmediate;
  }
}

OnHang OnHangFrom(v1::NodeConfig::OnHang given) {
  switch (given) {
    case v1::NodeConfig::ON_HANG_STOP:
      return OnHang::kStop;
    case v1::NodeConfig::ON_HANG_REPORT:
      return OnHang::kReport;
    default:
      return OnHang::kRestart;
  }
}

std::optional<absl::Duration> HangTimeoutFrom(int64_t given_ms) {
  if (given_ms < 0) return std::nullopt;
  return given_ms == 0 ? absl::InfiniteDuration() : absl::Milliseconds(given_ms);
}

}  // namespace

CoordinatorOptions OptionsFrom(const v1::NodeConfig& config) {
  CoordinatorOptions options;
  options.run_id = config.run_id();
  options.min_nodes = config.min_nodes();
  options.max_nodes = config.max_nodes();
  options.node_unit = std::max(1, config.node_unit());
  options.place_names.assign(config.place_names().begin(), config.place_names().end());
  options.agents_return = config.single_node() ? absl::ZeroDuration() : kAgentsReturn;
  options.in_agent = !config.coordinator_alone();
  options.max_restarts = config.max_restarts();
  options.max_node_losses = config.max_node_losses();
  options.node_loss_window = absl::Milliseconds(config.node_loss_window_ms());
  if (config.restart_window_ms() > 0) options.restart_window = absl::Milliseconds(config.restart_window_ms());
  options.restart_delay = absl::Milliseconds(config.restart_delay_ms());
  options.max_membership_changes = config.max_membership_changes();
  options.exclude_after = config.exclude_after();
  options.exclude_for = absl::Milliseconds(config.exclude_for_ms());
  options.hang_timeout = HangTimeoutFrom(config.hang_timeout_ms());
  if (config.start_timeout_ms() > 0) options.start_timeout = absl::Milliseconds(config.start_timeout_ms());
  options.on_hang = OnHangFrom(config.on_hang());
  options.join_settle = absl::Milliseconds(config.join_settle_ms());
  options.scale_up = ScaleUpFrom(config.scale_up());
  options.lease = config.single_node() ? absl::ZeroDuration() : absl::Milliseconds(config.lease_ms());
  options.beat = absl::Milliseconds(config.beat_ms());
  options.reconnect_grace = absl::Milliseconds(config.reconnect_grace_ms());
  options.join_timeout = absl::Milliseconds(config.join_timeout_ms());
  // Without a lease no coordinator waits for one before it begins to gather, and even its own host needs a moment.
  if (config.single_node()) options.join_timeout = options.join_limit();
  options.rejoin_timeout = absl::Milliseconds(config.rejoin_timeout_ms());
  options.last_call = absl::Milliseconds(config.last_call_ms());
  options.shutdown_grace = absl::Milliseconds(config.shutdown_grace_ms());
  return options;
}

}  // namespace muster::rendezvous
