// A round that has succeeded is not run again: the handling of success in each state of the coordinator.
#include <gtest/gtest.h>

#include "rendezvous/core/coordinator.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

// Nodes a (the primary) and b run round 1.
class SuccessTest : public ::testing::Test {
 protected:
  void Start(Cluster* c) {
    c->At("a").status.set_at_primary(true);
    c->Join("a", 0);
    c->Join("b", 1);
    for (const char* name : {"a", "b"}) c->Apply(name);
    ASSERT_EQ(c->state(), State::kRunning);
  }

  // The node's workers have exited 0 by themselves, and it has applied the last directive.
  static void Succeed(Cluster* c, const std::string& name, v1::Phase phase) {
    c->At(name).status.set_outcome(v1::OUTCOME_SUCCEEDED);
    c->At(name).status.set_live_workers(0);
    c->At(name).status.set_phase(phase);
  }

  static void ExpectSuccess(const Cluster& c) {
    ASSERT_TRUE(c.core().verdict().has_value());
    EXPECT_EQ(c.core().verdict()->exit_code(), 0) << c.core().verdict()->reason();
  }
};

// The connection of b closes; a's workers exit 0 as the coordinator drains the round because b is away; b returns.
TEST_F(SuccessTest, DrainingConcludesWhenTheAbsentNodeSucceeded) {
  Cluster c(Fixed(2));
  Start(&c);
  c.Close("b");
  c.Pass(absl::Seconds(3), {});
  ASSERT_EQ(c.state(), State::kDraining);
  Succeed(&c, "a", v1::PHASE_READY);  // before the STOP reached "a"
  c.Apply("a");
  Succeed(&c, "b", v1::PHASE_SUCCEEDED);
  c.Attach("b");
  ExpectSuccess(c);
}

TEST_F(SuccessTest, AnAbsentNodeMayReturnWithinItsLease) {
  Cluster c(Fixed(2));
  Start(&c);
  c.Phase("a", v1::PHASE_SUCCEEDED);
  c.Close("b");
  c.Pass(absl::Seconds(9), {"a"});
  ASSERT_EQ(c.state(), State::kRunning) << "there is nobody to stop";
  c.Attach("b");
  EXPECT_TRUE(c.Told("b").has_run()) << "it runs on";
  c.Pass(absl::Seconds(5), {"a", "b"});
  c.Phase("b", v1::PHASE_SUCCEEDED);
  ExpectSuccess(c);
}

TEST_F(SuccessTest, AnAbsentNodeIsLostWhenItsLeaseEnds) {
  Cluster c(Fixed(2));
  Start(&c);
  c.Phase("a", v1::PHASE_SUCCEEDED);
  c.Close("b");
  c.Pass(absl::Seconds(12), {"a"});
  EXPECT_EQ(c.Said("node 1 (b) was lost"), 1);
  EXPECT_EQ(c.state(), State::kGathering);
}

// The node was cut off for longer than its lease, but no round has started since.
TEST_F(SuccessTest, GatheringConcludesWhenTheLastNodeSucceeded) {
  Cluster c(Fixed(2));
  Start(&c);
  c.Phase("a", v1::PHASE_SUCCEEDED);
  c.Close("b");
  c.Pass(absl::Seconds(12), {"a"});
  ASSERT_EQ(c.state(), State::kGathering);
  Succeed(&c, "b", v1::PHASE_SUCCEEDED);
  c.Attach("b");
  ExpectSuccess(c);
}

TEST_F(SuccessTest, AnEarlierSuccessDoesNotEndALaterRound) {
  Cluster c(Elastic(1, 2));
  Start(&c);
  c.Phase("a", v1::PHASE_SUCCEEDED);
  c.Close("b");
  c.Pass(absl::Seconds(20), {"a"});
  ASSERT_EQ(c.Told("a").run().node_count(), 1);
  Succeed(&c, "b", v1::PHASE_SUCCEEDED);
  c.Attach("b");
  EXPECT_FALSE(c.core().verdict().has_value()) << c.core().verdict()->reason();
  EXPECT_EQ(c.state(), State::kRunning);
}

// The predecessor had begun to drain the round: both nodes have applied its STOP.
TEST_F(SuccessTest, RecoveringConcludesDespiteASentStop) {
  Cluster before(Fixed(2));
  Start(&before);
  Cluster after(Fixed(2), 43);
  for (const char* name : {"a", "b"}) {
    after.At(name) = before.At(name);
    Succeed(&after, name, v1::PHASE_READY);
    after.Say(name);
  }
  EXPECT_FALSE(after.core().verdict().has_value()) << "they do not follow this coordinator yet";
  for (const char* name : {"a", "b"}) after.Apply(name);
  ExpectSuccess(after);
}

TEST_F(SuccessTest, AHostDeathAfterASuccessIsASuccess) {
  Cluster c(Fixed(2));
  Start(&c);
  Succeed(&c, "b", v1::PHASE_HOST_GONE);
  c.Say("b");
  EXPECT_EQ(c.state(), State::kRunning);
  c.Phase("a", v1::PHASE_SUCCEEDED);
  ExpectSuccess(c);
}

// All workers of the node have exited 0; one of their leftovers hangs in the kernel.
TEST_F(SuccessTest, AnUnusableNodeMayHaveSucceeded) {
  Cluster c(Fixed(2));
  Start(&c);
  Succeed(&c, "b", v1::PHASE_UNUSABLE);
  c.At("b").status.set_live_workers(1);
  c.Say("b");
  EXPECT_EQ(c.state(), State::kRunning);
  c.Phase("a", v1::PHASE_SUCCEEDED);
  ExpectSuccess(c);
}

// ---- who runs the last command

TEST_F(SuccessTest, TheNodeOfRankZeroClosesTheJob) {
  Cluster c(Fixed(2));
  Start(&c);
  for (const char* name : {"b", "a"}) c.Phase(name, v1::PHASE_SUCCEEDED);
  ExpectSuccess(c);
  EXPECT_EQ(c.core().verdict()->closing_host(), "a");
}

TEST(ClosingHost, BeforeAnyRoundThePrimaryClosesTheJob) {
  CoordinatorOptions options = Fixed(3);
  options.join_timeout = absl::Seconds(30);
  Cluster c(options);
  c.Join("b", 1);
  c.At("a").status.set_at_primary(true);
  c.Join("a", 0);
  c.Pass(absl::Seconds(31), {"a", "b"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->closing_host(), "a");
}

TEST(ClosingHost, TheOnlyNodeClosesTheJobEvenIfItIsAskedToLeave) {
  Cluster c(Fixed(1));
  c.At("a").status.set_at_primary(true);
  c.Join("a", 0);
  c.Apply("a");
  ASSERT_EQ(c.state(), State::kRunning);
  c.At("a").status.set_outcome(v1::OUTCOME_SUCCEEDED);
  c.At("a").status.set_live_workers(0);
  c.Phase("a", v1::PHASE_LEAVING);
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 0);
  EXPECT_EQ(c.core().verdict()->closing_host(), "a");
}

TEST(ClosingHost, AReplicaThatDoesNotTrainClosesNothing) {
  CoordinatorOptions options = Fixed(2);
  options.join_timeout = absl::Seconds(30);
  Cluster c(options);
  c.Join("watcher", -1, v1::ROLE_OBSERVER);
  c.Pass(absl::Seconds(31), {"watcher"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->closing_host(), "");
}

TEST(ClosingHost, IfRankZeroIsLostAnotherNodeClosesTheJob) {
  CoordinatorOptions options = Fixed(2);
  options.max_node_losses = 0;
  Cluster c(options);
  c.At("a").status.set_at_primary(true);
  c.Join("a", 1);
  c.Join("b", 0);
  for (const char* name : {"a", "b"}) c.Apply(name);
  ASSERT_EQ(c.state(), State::kRunning);
  c.Close("b");
  c.Pass(absl::Seconds(30), {"a"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->closing_host(), "a");
}

// ---- a coordinator that was restarted near the end, or replaced: members are trusted ---------------------------

void Succeed(Cluster::Node* node) {
  node->status.set_phase(v1::PHASE_SUCCEEDED);
  node->status.set_outcome(v1::OUTCOME_SUCCEEDED);
  node->status.set_live_workers(0);
}

TEST(CoordinatorSuccess, ARestartedCoordinatorEndsTheJobAtOnce) {
  Cluster before(Fixed(2)), after(Fixed(2), 43);
  for (const char* n : {"a", "b"}) before.Join(n, n[0] - 'a');
  for (const char* n : {"a", "b"}) before.Apply(n);
  for (const char* n : {"a", "b"}) {
    Succeed(&before.At(n));
    after.At(n) = before.At(n);
    after.Attach(n);
    after.Apply(n);
  }
  ASSERT_TRUE(after.core().verdict().has_value());
  EXPECT_EQ(after.core().verdict()->exit_code(), 0);
}

// Round 1 of a, b and c; c is cut off, and round 2 of a and b succeeds. Only then comes the next coordinator.
class AfterACutTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* n : {"a", "b", "c"}) before_.Join(n);
    before_.Pass(absl::Seconds(20), {"a", "b", "c"});
    for (const char* n : {"a", "b", "c"}) before_.Apply(n);
    before_.Close("c");
    before_.Pass(absl::Seconds(60), {"a", "b"});
    ASSERT_EQ(before_.Told("a").run().node_count(), 2);
    for (const char* n : {"a", "b", "c"}) after_.At(n) = before_.At(n);
    for (const char* n : {"a", "b"}) Succeed(&after_.At(n));
    v1::AgentStatus& cut = after_.At("c").status;
    cut.set_phase(v1::PHASE_READY);
    cut.set_outcome(v1::OUTCOME_LEASE_ENDED);
    cut.set_live_workers(0);
    Return("c");
  }
  void Return(const std::string& name) {
    after_.Attach(name);
    after_.Apply(name);
  }

  Cluster before_{Elastic(2, 3)};
  Cluster after_{Elastic(2, 3), 43};
};

TEST_F(AfterACutTest, TheSuccessOfAllMembersOfTheNewestRoundEndsTheJob) {
  for (const char* n : {"a", "b"}) Return(n);
  ASSERT_TRUE(after_.core().verdict().has_value());
  EXPECT_EQ(after_.core().verdict()->exit_code(), 0);
}

TEST_F(AfterACutTest, AVerdictThatANodeBringsIsNotContradicted) {
  after_.At("b").status.mutable_verdict()->set_digest(7);
  Return("b");
  ASSERT_TRUE(after_.core().verdict().has_value());
  EXPECT_EQ(after_.core().verdict()->exit_code(), 0);
}

}  // namespace
}  // namespace muster::rendezvous
