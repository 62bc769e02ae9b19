// What a coordinator makes of a round that another one made: one test for each rule that it recovers by.
#include <gtest/gtest.h>

#include "tests/unit/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

// Nodes a and b run round 1 when its coordinator ends; they come to the next one.
class RecoveringTest : public ::testing::Test {
 protected:
  void SetUp() override {
    before_.Join("a", 0);
    before_.Join("b", 1);
    for (const char* name : {"a", "b"}) before_.Apply(name);
    ASSERT_EQ(before_.state(), State::kRunning);
  }

  v1::AgentStatus& Left(const std::string& name) { return before_.At(name).status; }
  void Attach(const std::string& name) {
    after_.At(name) = before_.At(name);
    after_.Attach(name);
  }
  void Return(const std::string& name) {
    Attach(name);
    after_.Apply(name);
  }
  // The node holds the verdict of a coordinator that ended before it released anybody.
  void HoldVerdict(const std::string& name, v1::Phase phase, int live_workers) {
    Left(name).mutable_verdict()->set_exit_code(3);
    Left(name).set_phase(phase);
    Left(name).set_outcome(v1::OUTCOME_STOPPED);
    Left(name).set_live_workers(live_workers);
  }

  Cluster before_{Fixed(2)};
  Cluster after_{Fixed(2), 43};
};

// The RUN of round 2 reached "b" alone: "a" will never be in it.
TEST_F(RecoveringTest, RoundThatAMemberNeverHeardOfEndsAtOnce) {
  Left("b").mutable_last()->mutable_id()->set_number(2);
  Return("b");
  ASSERT_EQ(after_.state(), State::kRecovering);
  Return("a");
  EXPECT_EQ(after_.state(), State::kDraining);
  EXPECT_TRUE(after_.Told("a").has_stop());
}

TEST_F(RecoveringTest, ADrainThatWaitsForAnEarlierRoundSaysSo) {
  before_.Fail("b", 1);
  Return("b");
  Return("a");
  ASSERT_EQ(after_.state(), State::kDraining);
  after_.Pass(absl::Seconds(2), {"a", "b"});
  EXPECT_EQ(after_.state(), State::kDraining);
  EXPECT_EQ(after_.Said("before the next one: this coordinator has just started"), 1);
}

// It was cut off when the newest round was made of the others, and is the first to come to the next coordinator.
TEST(Recovering, AMemberOfAnOlderRoundEndsNoHealthyOne) {
  Cluster before(Elastic(2, 3)), after(Elastic(2, 3), 43);
  StartTwo(&before);
  before.Join("c");
  before.Pass(absl::Seconds(1), {"a", "b", "c"});
  ASSERT_EQ(before.Told("c").run().node_count(), 3);
  const Cluster::Node cut_off = before.At("c");
  before.Close("c");
  before.Pass(absl::Seconds(20), {"a", "b"});
  ASSERT_EQ(before.state(), State::kRunning);
  ASSERT_EQ(before.Told("a").run().node_count(), 2);

  after.At("c") = cut_off;
  after.At("c").status.set_phase(v1::PHASE_READY);
  after.At("c").status.set_outcome(v1::OUTCOME_STOPPED);
  after.At("c").status.set_live_workers(0);
  after.Attach("c");
  after.Apply("c");
  ASSERT_EQ(after.state(), State::kDraining) << "of the only round that it has heard of";
  for (const char* name : {"a", "b"}) {
    after.At(name) = before.At(name);
    after.Attach(name);
    after.Apply(name);
  }
  EXPECT_EQ(after.state(), State::kRunning);
  EXPECT_TRUE(after.Told("a").has_run());
  EXPECT_EQ(after.Told("a").run().node_count(), 2);
}

TEST_F(RecoveringTest, DrainWaitsForWorkersOfAnOlderRound) {
  Return("a");
  after_.Pass(absl::Seconds(5), {"a"});
  ASSERT_TRUE(after_.Told("a").has_lease()) << "it may be a member of the newest round";
  Left("b").mutable_last()->mutable_id()->set_number(2);
  Left("b").mutable_last()->set_node_count(1);
  Left("b").mutable_last()->set_node_rank(0);
  Return("b");
  ASSERT_EQ(after_.state(), State::kDraining);
  for (int second = 0; second < 8; ++second) {  // nobody else can hold a lease of the one before any more
    after_.Pass(absl::Seconds(1), {"b"});
    after_.Say("a");
  }
  EXPECT_EQ(after_.state(), State::kDraining);
  after_.Apply("a");
  EXPECT_NE(after_.state(), State::kDraining);
}

// It may have succeeded, too, while it was cut off.
TEST_F(RecoveringTest, AbsentMemberIsAwaitedAfterTheOthersSucceeded) {
  before_.Phase("a", v1::PHASE_SUCCEEDED);
  Return("a");
  after_.Pass(absl::Minutes(2), {"a"});
  EXPECT_EQ(after_.state(), State::kRecovering);
  before_.Phase("b", v1::PHASE_SUCCEEDED);
  Return("b");
  ASSERT_TRUE(after_.core().verdict().has_value());
  EXPECT_EQ(after_.core().verdict()->exit_code(), 0);
}

// It may be cut off together with the coordinator that is started on its machine.
TEST_F(RecoveringTest, PrimaryHasNoLeaseBeforeAnotherMemberAnswers) {
  Left("a").set_at_primary(true);
  Return("a");
  EXPECT_FALSE(after_.Told("a").has_lease());
  Return("b");
  EXPECT_TRUE(after_.Told("a").has_lease());
}

TEST_F(RecoveringTest, LaterCoordinatorsRoundReplacesOnesOwn) {
  Left("b").mutable_epoch()->set_number(7);
  Left("b").mutable_last()->mutable_id()->set_number(2);
  before_.Say("b");
  EXPECT_EQ(before_.state(), State::kRecovering);
  EXPECT_EQ(before_.core().greatest().id().number(), 2u);
}

TEST_F(RecoveringTest, MemberKeepsItsPlaceFromANewNodeThatCameFirst) {
  after_.Join("b2", 1);
  Return("b");
  after_.Apply("b2");
  EXPECT_EQ(after_.Told("b2").wait().held_by().host_id(), "b");
}

TEST_F(RecoveringTest, VerdictThatIsFoundIsKeptForAbsentMembers) {
  HoldVerdict("a", v1::PHASE_READY, 0);
  Return("a");
  after_.Apply("a");
  EXPECT_EQ(after_.state(), State::kVerdict) << "b is to hear it, too";
  after_.Pass(absl::Seconds(12), {"a"});
  EXPECT_EQ(after_.state(), State::kReleasing);
}

TEST_F(RecoveringTest, NobodyIsReleasedWhileAMembersWorkersEnd) {
  HoldVerdict("a", v1::PHASE_READY, 0);
  HoldVerdict("b", v1::PHASE_STOPPING, 2);
  Return("a");
  Attach("b");
  after_.Say("b");
  EXPECT_EQ(after_.state(), State::kVerdict);
  after_.Apply("b");
  EXPECT_EQ(after_.state(), State::kReleasing);
}

}  // namespace
}  // namespace muster::rendezvous
