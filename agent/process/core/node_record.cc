#include "agent/process/core/node_record.h"

namespace muster::agent {

absl::Duration NodeRecord::Lease() const {
  const int64_t agreed = memory.settings().lease_ms();
  return absl::Milliseconds(agreed > 0 ? agreed : config.lease_ms());
}

bool NodeRecord::Leased() const { return !config.single_node() && Lease() > absl::ZeroDuration(); }

absl::Duration NodeRecord::Beat() const {
  const int64_t agreed = memory.settings().beat_ms();
  return agreed > 0 ? absl::Milliseconds(agreed) : kDefaultBeat;
}

bool MayServe(const v1::NodeConfig& config) {
  return config.serves() == v1::NodeConfig::SERVES_IF_LOCAL ||
         config.serves() == v1::NodeConfig::SERVES_IF_REACHED;
}

PortRole RoleAtStart(const v1::NodeConfig& config, const v1::Memory& memory) {
  const bool serves = config.single_node() || config.serves() == v1::NodeConfig::SERVES_YES;
  return serves || (MayServe(config) && memory.served()) ? PortRole::kPrimary : PortRole::kMember;
}

const char* TitleOfCoordinator(const v1::NodeConfig& config) {
  if (config.coordinator_alone()) return "the coordinator";
  const bool numbered = config.has_place() && !config.place_is_hint();
  return numbered && config.serves() == v1::NodeConfig::SERVES_NO ? "the primary (node rank 0)" : "the primary";
}

}  // namespace muster::agent
