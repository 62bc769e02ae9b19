// What an agent derives from the configuration of its node.
#include "agent/process/core/node_record.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

TEST(NodeRecordTest, AnEarlierServiceCountsWhereANodeMayServe) {
  v1::NodeConfig config;
  v1::Memory memory;
  const auto serves = [&](v1::NodeConfig::Serves how, bool served) {
    config.set_serves(how);
    memory.set_served(served);
    return RoleAtStart(config, memory) == PortRole::kPrimary;
  };
  for (const bool served : {false, true}) {
    EXPECT_TRUE(serves(v1::NodeConfig::SERVES_YES, served));
    EXPECT_FALSE(serves(v1::NodeConfig::SERVES_NO, served));
    EXPECT_EQ(serves(v1::NodeConfig::SERVES_IF_LOCAL, served), served);
    EXPECT_EQ(serves(v1::NodeConfig::SERVES_IF_REACHED, served), served);
  }
  config.set_single_node(true);
  EXPECT_TRUE(serves(v1::NodeConfig::SERVES_NO, false));
}

TEST(NodeRecordTest, TheCoordinatorsSettingsPrecedeTheConfiguration) {
  NodeRecord node;
  EXPECT_FALSE(node.Leased());
  EXPECT_EQ(node.Beat(), kDefaultBeat);
  node.config.set_lease_ms(10'000);
  EXPECT_EQ(node.Lease(), absl::Seconds(10));
  node.memory.mutable_settings()->set_lease_ms(20'000);
  node.memory.mutable_settings()->set_beat_ms(1000);
  EXPECT_EQ(node.Lease(), absl::Seconds(20));
  EXPECT_EQ(node.Beat(), absl::Seconds(1));
  EXPECT_TRUE(node.Leased());
  node.config.set_single_node(true);
  EXPECT_FALSE(node.Leased());
}

}  // namespace
}  // namespace muster::agent
