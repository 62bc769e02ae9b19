#include "agent/serving.h"

#include "agent/address.h"
#include "rendezvous/peer_address.h"

namespace muster::agent {
namespace {

constexpr char kAnywhere[] = "192.0.2.1";  // of no machine; nothing is sent

}  // namespace

absl::Duration LeaseOf(const v1::NodeConfig& config) {
  return config.single_node() ? absl::ZeroDuration() : absl::Milliseconds(config.lease_ms());
}

rendezvous::CoordinatorOptions CoordinatorOptionsFrom(const v1::NodeConfig& config) {
  rendezvous::CoordinatorOptions options;
  options.run_id = config.run_id();
  options.min_nodes = config.min_nodes();
  options.max_nodes = config.max_nodes();
  options.place_names.assign(config.place_names().begin(), config.place_names().end());
  options.max_restarts = config.max_restarts();
  options.max_node_losses = config.max_node_losses();
  options.node_loss_window = absl::Milliseconds(config.node_loss_window_ms());
  options.lease = LeaseOf(config);
  options.beat = absl::Milliseconds(config.beat_ms());
  options.reconnect_grace = absl::Milliseconds(config.reconnect_grace_ms());
  options.join_timeout = absl::Milliseconds(config.join_timeout_ms());
  options.rejoin_timeout = absl::Milliseconds(config.rejoin_timeout_ms());
  options.last_call = absl::Milliseconds(config.last_call_ms());
  options.shutdown_grace = absl::Milliseconds(config.shutdown_grace_ms());
  return options;
}

rendezvous::ServerOptions ServerOptionsFrom(const v1::NodeConfig& config) {
  return {.listen = {.host = config.primary().host(),
                     .port = static_cast<uint16_t>(config.primary().port()),
                     .loopback_only = config.loopback_only()},
          .token = config.token(),
          .version = config.version(),
          .lease = LeaseOf(config)};
}

std::string FirstLocalAddress(const v1::NodeConfig& config) {
  if (!config.local_addr().empty()) return config.local_addr();
  const std::string& primary = config.primary().host();
  if (IsLiteral(primary) && IsLocalAddress(primary).value_or(false)) return primary;
  if (config.loopback_only() || config.single_node()) return "127.0.0.1";
  if (config.min_nodes() > 1) return "";
  // A round may be of this node alone, and then no member ever tells: the address of the default route.
  const std::string routed = rendezvous::LocalAddressTowards(kAnywhere);
  return routed.empty() ? "127.0.0.1" : routed;
}

}  // namespace muster::agent
