// While a round runs and is drained: what ends it, and which statuses count.
#include <gtest/gtest.h>

#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

// Nodes a and b run round 1.
class RunningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    c_.Join("a", 0);
    c_.Join("b", 1);
    for (const char* name : {"a", "b"}) c_.Apply(name);
    ASSERT_EQ(c_.state(), State::kRunning);
  }

  Cluster c_{Fixed(2)};
};

TEST_F(RunningTest, ALongDrainNamesTheNodesItAwaits) {
  c_.Fail("a", 1);
  ASSERT_EQ(c_.state(), State::kDraining);
  c_.Pass(absl::Milliseconds(500), {"a"});
  EXPECT_EQ(c_.Said("waiting for workers to stop"), 0) << "most are over by now";
  c_.Pass(absl::Seconds(2), {"a"});
  EXPECT_EQ(c_.Said("round 1 ends; waiting for workers to stop or leases to expire on node 1 (b)"), 1);
  c_.Apply("b");
  EXPECT_EQ(c_.state(), State::kRunning);
}

// A separate coordinator that was asked to end, alone or together with its nodes.
TEST_F(RunningTest, AskedToEndItServesWhoLeavesUntilAllHaveLeft) {
  c_.AskToEnd();
  EXPECT_FALSE(c_.MayEnd());
  c_.Phase("a", v1::PHASE_LEAVING);
  c_.At("b").status.set_live_workers(0);
  c_.Phase("b", v1::PHASE_LEAVING);
  c_.Close("b");
  for (int second = 0; second < 60; ++second) {
    c_.Pass(absl::Seconds(1), {});
    c_.Say("a");
    ASSERT_FALSE(c_.MayEnd()) << "it still saves";
    ASSERT_TRUE(c_.Told("a").has_lease());
  }
  c_.At("a").status.set_live_workers(0);
  c_.Say("a");
  EXPECT_TRUE(c_.Told("a").has_release());
  EXPECT_FALSE(c_.MayEnd()) << "its release is on its way";
  c_.Close("a");
  EXPECT_TRUE(c_.MayEnd());
}

TEST_F(RunningTest, AskedToEndItServesWhoRunsForAWhile) {
  c_.AskToEnd();
  c_.Pass(kOthersAskedWithin - kTick, {"a", "b"});
  EXPECT_FALSE(c_.MayEnd());
  EXPECT_EQ(c_.state(), State::kRunning) << "no worker is disturbed";
  c_.Pass(2 * kTick, {"a", "b"});
  EXPECT_TRUE(c_.MayEnd()) << "they are to find another coordinator";
}

TEST_F(RunningTest, AskedToEndItMakesNoMoreRounds) {
  c_.AskToEnd();
  c_.Fail("a", 1);
  c_.Apply("a");
  c_.Apply("b");
  EXPECT_EQ(c_.state(), State::kGathering);
  EXPECT_TRUE(c_.MayEnd()) << "nothing runs";
  c_.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_TRUE(c_.Told("a").has_wait());
  EXPECT_EQ(c_.Told("a").wait().reason(), "the coordinator is ending; the job continues once it is back");
}

TEST_F(RunningTest, AskedToEndItStillBringsACancellation) {
  c_.AskToEnd();
  c_.At("a").status.set_cancelled(true);
  for (const char* name : {"a", "b"}) {
    c_.At(name).status.set_live_workers(0);
    c_.Phase(name, v1::PHASE_LEAVING);
  }
  EXPECT_FALSE(c_.MayEnd());
  EXPECT_TRUE(c_.Told("a").has_verdict());
  EXPECT_FALSE(c_.MayEnd()) << "finished() says when";
}

TEST_F(RunningTest, AnAttachedNodeIsNotTakenForDead) {
  c_.At("b2").status.set_predecessor_dead("b");
  c_.Join("b2", 1);
  EXPECT_EQ(c_.state(), State::kRunning);
  EXPECT_EQ(c_.Told("b2").wait().held_by().process(), "b");
}

TEST_F(RunningTest, AReplacedAgentIsIgnored) {
  const Cluster::Node old = c_.At("b");
  c_.Attach("b");
  c_.At("b") = old;
  c_.Fail("b", 7);
  EXPECT_TRUE(c_.At("b").closed);
  EXPECT_EQ(c_.state(), State::kRunning);
}

TEST_F(RunningTest, AnOlderStatusIsIgnored) {
  v1::StatusId* id = c_.At("b").status.mutable_id();
  id->set_seq(id->seq() - 1);
  c_.Fail("b", 7);
  EXPECT_EQ(c_.state(), State::kRunning);
  c_.Say("b");
  EXPECT_EQ(c_.state(), State::kDraining);
}

TEST_F(RunningTest, ASpareRunningAnOldRoundIsStopped) {
  c_.Join("spare");
  c_.At("spare").status.set_live_workers(2);
  c_.Phase("spare", v1::PHASE_RUNNING);
  EXPECT_TRUE(c_.Told("spare").has_stop());
}

TEST_F(RunningTest, ASucceededSpareHearsThatItsRoundIsOver) {
  c_.Join("spare");
  c_.Phase("spare", v1::PHASE_SUCCEEDED);
  EXPECT_TRUE(c_.Told("spare").has_stop());
}

TEST_F(RunningTest, AMemberThatStoppedByItselfEndsTheRound) {
  c_.At("b").status.set_live_workers(0);
  c_.At("b").status.set_outcome(v1::OUTCOME_LEASE_ENDED);
  c_.Phase("b", v1::PHASE_READY);
  EXPECT_EQ(c_.state(), State::kDraining);
  EXPECT_NE(c_.Told("a").stop().cause().find("stopped its workers on its own"), std::string::npos);
}

TEST_F(RunningTest, ANodeSucceedsOnlyOnceAllOfItHasEnded) {
  c_.At("b").status.set_outcome(v1::OUTCOME_SUCCEEDED);
  c_.At("b").status.set_live_workers(1);
  c_.Say("b");
  c_.Phase("a", v1::PHASE_SUCCEEDED);
  EXPECT_EQ(c_.state(), State::kRunning);
  c_.Phase("b", v1::PHASE_SUCCEEDED);
  ASSERT_TRUE(c_.core().verdict().has_value());
  EXPECT_EQ(c_.core().verdict()->exit_code(), 0);
}

TEST(CoordinatorRunning, AMemberThatDoesNotStartTheRoundEndsIt) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  const auto pass = [&c](absl::Duration duration) {
    for (absl::Duration d; d < duration; d += absl::Seconds(1)) {
      c.Pass(absl::Seconds(1), {"a"});
      c.Say("b");  // attached, but its host does not answer the agent
    }
  };
  pass(kRunLimit - absl::Seconds(1));
  EXPECT_EQ(c.state(), State::kRunning);
  pass(absl::Seconds(2));
  EXPECT_EQ(c.state(), State::kDraining);
  EXPECT_NE(c.Told("a").stop().cause().find("did not start the round within 1m10s"), std::string::npos);
}

// The other nodes need the coordinator in the primary's agent until their workers have ended.
TEST(CoordinatorDraining, ALeavingPrimaryIsReleasedLast) {
  Cluster c(Elastic(1, 3));
  c.At("a").status.set_at_primary(true);
  for (int place : {0, 1, 2}) c.Join(std::string(1, static_cast<char>('a' + place)), place);
  for (const char* name : {"a", "b", "c"}) c.Apply(name);
  ASSERT_EQ(c.state(), State::kRunning);
  c.At("a").status.set_live_workers(0);
  c.Phase("a", v1::PHASE_LEAVING);
  c.Apply("b");
  EXPECT_FALSE(c.Told("a").has_release());
  c.Apply("c");
  EXPECT_TRUE(c.Told("a").has_release());
}

}  // namespace
}  // namespace muster::rendezvous
