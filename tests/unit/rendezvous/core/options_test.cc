// The coordinator's options, as the configuration of its node gives them.
#include "rendezvous/core/options.h"

#include <gtest/gtest.h>

#include "muster/v1/host.pb.h"

namespace muster::rendezvous {
namespace {

TEST(CoordinatorOptions, AreThoseOfTheNodesConfiguration) {
  v1::NodeConfig config;
  config.set_run_id("job");
  config.set_min_nodes(2);
  config.set_max_nodes(6);
  config.set_node_unit(2);
  config.add_place_names("n0:1");
  config.set_coordinator_alone(true);
  config.set_max_restarts(3);
  config.set_max_node_losses(4);
  config.set_node_loss_window_ms(5);
  config.set_restart_window_ms(6);
  config.set_restart_delay_ms(7);
  config.set_max_membership_changes(8);
  config.set_exclude_after(9);
  config.set_exclude_for_ms(10);
  config.set_join_settle_ms(11);
  config.set_lease_ms(12);
  config.set_beat_ms(13);
  config.set_reconnect_grace_ms(14);
  config.set_join_timeout_ms(15);
  config.set_rejoin_timeout_ms(16);
  config.set_last_call_ms(17);
  config.set_shutdown_grace_ms(18);
  const CoordinatorOptions options = OptionsFrom(config);
  EXPECT_EQ(options.run_id, "job");
  EXPECT_EQ(options.min_nodes, 2);
  EXPECT_EQ(options.max_nodes, 6);
  EXPECT_EQ(options.node_unit, 2);
  EXPECT_EQ(options.place_names, std::vector<std::string>{"n0:1"});
  EXPECT_FALSE(options.in_agent);
  EXPECT_EQ(options.max_restarts, 3);
  EXPECT_EQ(options.max_node_losses, 4);
  EXPECT_EQ(options.node_loss_window, absl::Milliseconds(5));
  EXPECT_EQ(options.restart_window, absl::Milliseconds(6));
  EXPECT_EQ(options.restart_delay, absl::Milliseconds(7));
  EXPECT_EQ(options.max_membership_changes, 8);
  EXPECT_EQ(options.exclude_after, 9);
  EXPECT_EQ(options.exclude_for, absl::Milliseconds(10));
  EXPECT_EQ(options.join_settle, absl::Milliseconds(11));
  EXPECT_EQ(options.lease, absl::Milliseconds(12));
  EXPECT_EQ(options.beat, absl::Milliseconds(13));
  EXPECT_EQ(options.reconnect_grace, absl::Milliseconds(14));
  EXPECT_EQ(options.join_timeout, absl::Milliseconds(15));
  EXPECT_EQ(options.rejoin_timeout, absl::Milliseconds(16));
  EXPECT_EQ(options.last_call, absl::Milliseconds(17));
  EXPECT_EQ(options.shutdown_grace, absl::Milliseconds(18));
  EXPECT_EQ(options.agents_return, kAgentsReturn);
}

TEST(CoordinatorOptions, WithoutARestartWindowFailuresCountForever) {
  EXPECT_EQ(OptionsFrom(v1::NodeConfig()).restart_window, absl::InfiniteDuration());
}

TEST(CoordinatorOptions, TheNodeUnitIsAtLeastOne) { EXPECT_EQ(OptionsFrom(v1::NodeConfig()).node_unit, 1); }

TEST(CoordinatorOptions, ASingleNodeHasNoLeaseAndAwaitsNobody) {
  v1::NodeConfig config;
  config.set_single_node(true);
  config.set_lease_ms(10'000);
  const CoordinatorOptions options = OptionsFrom(config);
  EXPECT_FALSE(options.leased());
  EXPECT_EQ(options.agents_return, absl::ZeroDuration());
  EXPECT_EQ(options.join_timeout, absl::Seconds(10)) << "its own host needs a moment";
  EXPECT_TRUE(options.in_agent);
}

TEST(CoordinatorOptions, EachWayToScaleUpIsKnown) {
  const auto from = [](v1::NodeConfig::ScaleUp given) {
    v1::NodeConfig config;
    config.set_scale_up(given);
    return OptionsFrom(config).scale_up;
  };
  EXPECT_EQ(from(v1::NodeConfig::SCALE_UP_IMMEDIATE), ScaleUp::kImmediate);
  EXPECT_EQ(from(v1::NodeConfig::SCALE_UP_ON_RESTART), ScaleUp::kOnRestart);
  EXPECT_EQ(from(v1::NodeConfig::SCALE_UP_NEVER), ScaleUp::kNever);
}

}  // namespace
}  // namespace muster::rendezvous
