// When a round starts, of which nodes, and with which history: one test for each rule of gathering.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

TEST(CoordinatorGathering, TheLastCallRestartsWhenMinIsLost) {
  Cluster c(Elastic(2, 4));  // its last call lasts 5 s
  c.Join("a");
  c.Join("b");
  c.Pass(absl::Seconds(12), {"a", "b"});
  ASSERT_EQ(c.state(), State::kGathering);
  c.Phase("b", v1::PHASE_UNUSABLE);
  c.Pass(absl::Seconds(10), {"a", "b"});
  c.Phase("b", v1::PHASE_READY);
  c.Pass(absl::Seconds(4), {"a", "b"});
  EXPECT_FALSE(c.Told("a").has_run());
  c.Pass(absl::Seconds(2), {"a", "b"});
  EXPECT_TRUE(c.Told("a").has_run());
}

TEST(CoordinatorGathering, AfterTheFirstRoundTheRejoinTimeoutHolds) {
  CoordinatorOptions options = Fixed(2);
  options.join_timeout = absl::Seconds(20);
  options.rejoin_timeout = absl::Seconds(60);
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Phase("b", v1::PHASE_HOST_GONE);
  c.Apply("a");
  ASSERT_EQ(c.state(), State::kGathering);
  c.Pass(absl::Seconds(50), {"a"});
  EXPECT_FALSE(c.core().verdict().has_value());
  c.Pass(absl::Seconds(11), {"a"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 69);
}

TEST(CoordinatorGathering, APartlySucceededRoundDoesNotGrow) {
  Cluster c(Elastic(2, 8));
  StartTwo(&c);
  c.Phase("a", v1::PHASE_SUCCEEDED);
  c.Join("c");
  c.Pass(absl::Seconds(20), {"a", "b", "c"});
  EXPECT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.core().greatest().id().number(), 1u);
}

// The node still runs an old round, but this coordinator never gave it a lease.
TEST(CoordinatorGathering, AMemberWithoutALeaseHoldsUpNoRound) {
  Cluster c(Elastic(1, 3));
  c.Join("a");
  c.Join("e");
  c.At("e").status.set_live_workers(2);
  c.Phase("e", v1::PHASE_RUNNING);
  for (int second = 0; second < 30; ++second) {
    c.Pass(absl::Seconds(1), {"a"});
    c.Say("e");
  }
  EXPECT_TRUE(c.Told("a").has_run());
}

// A node that was sent a STOP counts as ready once its status confirms the STOP.
TEST(CoordinatorGathering, ReadinessBeforeAStopDoesNotCount) {
  Cluster c(Fixed(3));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Pass(absl::Seconds(12), {"a", "b"});
  ASSERT_EQ(c.state(), State::kGathering);
  c.At("b").status.set_live_workers(2);
  c.Phase("b", v1::PHASE_RUNNING);
  ASSERT_TRUE(c.Told("b").has_stop());
  c.Join("c", 2);
  c.At("b").status.set_live_workers(0);
  c.Phase("b", v1::PHASE_READY);
  EXPECT_FALSE(c.Told("c").has_run());
  c.Apply("b");
  EXPECT_TRUE(c.Told("c").has_run());
}

// Another coordinator made rounds meanwhile: no number is used twice, and counts never shrink.
TEST(CoordinatorGathering, AnotherCoordinatorsGreaterRoundCounts) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Phase("b", v1::PHASE_HOST_GONE);
  c.Apply("a");
  ASSERT_EQ(c.state(), State::kGathering);
  v1::Round* last = c.At("b2").status.mutable_last();
  last->mutable_id()->set_number(5);
  last->set_node_count(2);
  last->set_restart_count(4);
  c.Join("b2", 1);
  ASSERT_TRUE(c.Told("a").has_run());
  EXPECT_EQ(c.Told("a").run().id().number(), 6u);
  EXPECT_EQ(c.Told("a").run().restart_count(), 5);
}

// ---- nodes that prepare

class PreparingNodesTest : public ::testing::Test {
 protected:
  PreparingNodesTest() : cluster_(Options()) {
    cluster_.Join("a", 0);
    cluster_.At("b").status.set_preparing("its setup runs");
    cluster_.Join("b", 1);
  }
  static CoordinatorOptions Options() {
    CoordinatorOptions options = Fixed(2);
    options.join_timeout = absl::Seconds(30);
    return options;
  }
  void EndSetup() {
    v1::AgentStatus& status = cluster_.At("b").status;
    status.clear_preparing();
    status.mutable_offer()->set_host("127.0.0.1");
    status.mutable_offer()->set_port(5001);
    cluster_.Say("b");
  }
  Cluster cluster_;
};

TEST_F(PreparingNodesTest, ASetupThatTakesLongerThanTheJoinTimeoutIsAwaited) {
  const std::string setup = "; node 1 (b): its setup runs";
  for (const State state : {State::kRecovering, State::kGathering}) {
    cluster_.Pass(absl::Seconds(state == State::kRecovering ? 1 : 20), {"a", "b"});
    EXPECT_EQ(cluster_.state(), state);
    EXPECT_EQ(cluster_.Told("a").wait().reason(),
              "1 of 2 nodes ready; gives up after 30s (--join-timeout), later if nodes still prepare" + setup);
  }
  cluster_.Pass(absl::Minutes(5), {"a", "b"});
  EXPECT_EQ(cluster_.state(), State::kGathering);
  EXPECT_EQ(cluster_.Told("a").wait().reason(), "1 of 2 nodes ready; waits for nodes that prepare" + setup);
  EndSetup();
  EXPECT_EQ(cluster_.state(), State::kRunning);
}

TEST_F(PreparingNodesTest, ASetupThatFailsIsNot) {
  cluster_.Pass(absl::Minutes(5), {"a", "b"});
  cluster_.At("b").status.clear_preparing();
  cluster_.Say("b");
  ASSERT_TRUE(cluster_.core().verdict().has_value());
  EXPECT_EQ(cluster_.core().verdict()->exit_code(), kExitUnavailable);
}

TEST_F(PreparingNodesTest, IsNamedWithWhatItDoesAndIsNotMissing) {
  cluster_.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_THAT(cluster_.core().Waiting(), ::testing::HasSubstr("; node 1 (b): its setup runs"));
  EXPECT_THAT(cluster_.core().Waiting(), ::testing::Not(::testing::HasSubstr("missing")));
}

TEST_F(PreparingNodesTest, ASetupThatCannotMakeTheRoundIsNot) {
  CoordinatorOptions options = Options();
  options.min_nodes = options.max_nodes = 3;
  Cluster cluster(options);
  cluster.Join("a", 0);
  cluster.At("b").status.set_preparing("its setup runs");
  cluster.Join("b", 1);
  cluster.Pass(absl::Seconds(31), {"a", "b"});
  EXPECT_TRUE(cluster.core().verdict().has_value()) << "the third node is missing";
}

}  // namespace
}  // namespace muster::rendezvous
