// What a directive contains, for each order.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

// Nodes a and b run round 1.
void Start(Cluster* c) {
  c->Join("a", 0);
  c->Join("b", 1);
  for (const char* name : {"a", "b"}) c->Apply(name);
  ASSERT_EQ(c->state(), State::kRunning);
}

TEST(CoordinatorDirectives, HaveTheJobsSettings) {
  CoordinatorOptions options = Elastic(2, 5);
  options.max_restarts = 7;
  options.max_node_losses = 8;
  options.lease = absl::Seconds(9);
  Cluster c(options);
  c.Join("a");
  const v1::Settings settings = c.Told("a").settings();
  EXPECT_EQ(settings.min_nodes(), 2);
  EXPECT_EQ(settings.max_nodes(), 5);
  EXPECT_EQ(settings.max_restarts(), 7);
  EXPECT_EQ(settings.max_node_losses(), 8);
  EXPECT_EQ(settings.lease_ms(), 9000);
  EXPECT_EQ(settings.beat_ms(), 500);
}

TEST(CoordinatorDirectives, AnswerTheNewestStatus) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  EXPECT_EQ(c.Told("a").echo().agent_number(), 1u);
  EXPECT_EQ(c.Told("a").echo().seq(), c.At("a").status.id().seq());
  EXPECT_TRUE(Same(c.Told("a").id().epoch(), c.core().epoch()));
}

TEST(CoordinatorDirectives, TheBeatIsTheGivenOneAndFitsTheLease) {
  const auto beat = [](absl::Duration lease, absl::Duration given) {
    CoordinatorOptions options = Fixed(2);
    options.lease = lease;
    options.beat = given;
    Cluster c(options);
    c.Join("a", 0);
    return absl::Milliseconds(c.Told("a").settings().beat_ms());
  };
  EXPECT_EQ(beat(absl::Seconds(10), absl::Seconds(1)), absl::Seconds(1));
  EXPECT_EQ(beat(absl::Seconds(10), absl::Seconds(4)), absl::Milliseconds(1666));
  EXPECT_EQ(beat(absl::Milliseconds(1200), absl::ZeroDuration()), absl::Milliseconds(200));
  EXPECT_EQ(beat(absl::ZeroDuration(), absl::Seconds(4)), absl::Seconds(4)) << "there is no lease to renew";
}

TEST(CoordinatorDirectives, AStandbyOfTheSameContainerHearsWhichProcessHoldsItsPlace) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  EXPECT_FALSE(c.Told("a").wait().has_held_by());
  c.Join("twin", 0);
  const v1::Holder holder = c.Told("twin").wait().held_by();
  EXPECT_EQ(holder.hostname(), "a");
  EXPECT_EQ(holder.process(), "a");
}

// A node that claims the place could use it to take the holder's part.
TEST(CoordinatorDirectives, AClaimantElsewhereLearnsNothingThatOnlyTheHoldersMachineKnows) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  v1::Whereabouts elsewhere = Cluster::Here("twin");
  for (const char* user : {"another user", ""}) {
    elsewhere.set_user(user);
    *c.At("twin").status.mutable_whereabouts() = elsewhere;
    c.Join("twin", 0);
    ASSERT_TRUE(c.Told("twin").wait().has_held_by());
    EXPECT_EQ(c.Told("twin").wait().held_by().process(), "") << user;
    EXPECT_EQ(c.Told("twin").ShortDebugString().find("machine"), std::string::npos);
  }
}

TEST(CoordinatorDirectives, AStandbyHasNoPlaceInLine) {
  Cluster c(Fixed(2));
  Start(&c);
  c.Join("twin", 1);
  EXPECT_TRUE(c.Told("twin").wait().has_held_by());
  EXPECT_EQ(c.Told("twin").wait().place_in_line(), 0);
}

TEST(CoordinatorDirectives, ASpareMovesUpOnceAnotherHasGone) {
  for (const size_t many : {size_t{1}, size_t{4}}) {
    CoordinatorOptions options = Elastic(2, 2);
    options.many_hosts = many;
    Cluster c(options);
    StartTwo(&c);
    for (const char* name : {"c", "d"}) c.Join(name);
    EXPECT_EQ(c.Told("d").wait().place_in_line(), 2) << "a spare that has just come is the last one";
    c.Close("c");
    c.Say("d");
    EXPECT_EQ(c.Told("d").wait().place_in_line(), many == 4 ? 1 : 2) << "of many nodes the line is renewed later";
    c.Pass(2 * kTick, {});
    c.Say("d");
    EXPECT_EQ(c.Told("d").wait().place_in_line(), 1);
  }
}

TEST(CoordinatorDirectives, WhileARoundRunsNoNodeIsMissed) {
  Cluster c(Elastic(2, 3));
  StartTwo(&c);
  c.At("c").status.set_preparing("its preflight runs");
  c.Join("c");
  ASSERT_TRUE(c.Told("c").has_wait());
  EXPECT_EQ(c.Told("c").wait().absent_count(), 0);
}

TEST(CoordinatorDirectives, AnObserverIsToldThatItDoesNotTrain) {
  Cluster c(Fixed(2));
  c.Join("o", -1, v1::ROLE_OBSERVER);
  EXPECT_EQ(c.Told("o").wait().reason(), "this node does not train; it exits when the job ends");
  EXPECT_EQ(c.Told("o").wait().absent_count(), 0);
  EXPECT_TRUE(c.Told("o").wait().gathering());
}

TEST(CoordinatorDirectives, AnUnusableNodeIsToldItsOwnReason) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.At("a").status.set_trouble("a GPU is gone");
  c.Phase("a", v1::PHASE_UNUSABLE);
  EXPECT_EQ(c.Told("a").wait().reason(), "a GPU is gone");
  EXPECT_EQ(c.Told("a").wait().absent_count(), 0);
}

TEST(CoordinatorDirectives, ARunHasTheLeaseAndTheGreatestRoundHasNoRank) {
  Cluster c(Fixed(2));
  Start(&c);
  EXPECT_EQ(c.Told("b").lease().duration_ms(), 10'000);
  EXPECT_TRUE(Same(c.Told("b").greatest().id(), c.Told("b").run().id()));
  EXPECT_EQ(c.Told("b").run().node_rank(), 1);
  EXPECT_FALSE(c.Told("b").greatest().has_node_rank());
}

TEST(CoordinatorDirectives, AStopHasItsRoundCauseAndGrace) {
  CoordinatorOptions options = Fixed(2);
  options.shutdown_grace = absl::Seconds(7);
  Cluster c(options);
  Start(&c);
  c.Fail("b", 3);
  const v1::Stop stop = c.Told("a").stop();
  EXPECT_TRUE(Same(stop.round(), c.core().greatest().id()));
  EXPECT_EQ(stop.cause(), "rank 2 on b exited with code 3");
  EXPECT_EQ(stop.grace_ms(), 7000);
}

TEST(CoordinatorDirectives, AStopForAnOldRoundNamesThatRound) {
  Cluster c(Fixed(2));
  Start(&c);
  v1::AgentStatus& old = c.At("old").status;
  old.mutable_last()->mutable_id()->set_number(1);
  old.mutable_last()->set_node_rank(0);
  old.mutable_last()->set_node_count(2);
  old.set_live_workers(2);
  c.Join("old");
  c.Phase("old", v1::PHASE_RUNNING);
  ASSERT_TRUE(c.Told("old").has_stop());
  EXPECT_EQ(c.Told("old").stop().cause(), "this round is over");
  EXPECT_TRUE(Same(c.Told("old").stop().round(), old.last().id()));
  EXPECT_FALSE(c.Told("old").has_lease());
}

// Its workers have ended: a lease would delay the next round.
TEST(CoordinatorDirectives, AStopGrantsALeaseOnlyWhileWorkersEnd) {
  Cluster c(Fixed(2));
  Start(&c);
  c.Fail("b", 3);
  EXPECT_TRUE(c.Told("a").has_lease());
  c.At("b").status.set_live_workers(0);
  c.Say("b");
  ASSERT_TRUE(c.Told("b").has_stop());
  EXPECT_FALSE(c.Told("b").has_lease());
}

TEST(CoordinatorDirectives, AWaitWhileGatheringGrantsNoLease) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Pass(absl::Seconds(12), {"a"});
  ASSERT_EQ(c.state(), State::kGathering);
  EXPECT_FALSE(c.Told("a").has_lease());
}

TEST(CoordinatorDirectives, ANodeThatLeavesIsReleasedWith75) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Phase("a", v1::PHASE_LEAVING);
  ASSERT_TRUE(c.Told("a").has_release());
  EXPECT_EQ(c.Told("a").release().exit_code(), 75);
  EXPECT_EQ(c.Told("a").release().reason(), "asked to leave");
}

TEST(CoordinatorDirectives, ANodeThatWasCancelledAwaitsTheVerdict) {
  Cluster c(Fixed(2));
  Start(&c);
  c.At("b").status.set_cancelled(true);
  c.At("b").status.set_live_workers(0);
  c.Phase("b", v1::PHASE_LEAVING);
  EXPECT_TRUE(c.Told("b").has_stop());
  c.Apply("a");
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 130);
  EXPECT_EQ(c.core().verdict()->reason(), "cancelled on node 1 (b)");
}

TEST(CoordinatorDirectives, TheFirstNodeThatCancelsIsNamed) {
  Cluster c(Fixed(2));
  Start(&c);
  for (const char* name : {"b", "a"}) {
    c.At(name).status.set_cancelled(true);
    c.At(name).status.set_live_workers(0);
    c.Phase(name, v1::PHASE_LEAVING);
  }
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->reason(), "cancelled on node 1 (b)");
}

TEST(CoordinatorDirectives, BeforeARoundACancellationIsNamedByItsPlace) {
  Cluster c(Fixed(2));
  c.Join("b", 1);
  c.At("b").status.set_cancelled(true);
  c.Phase("b", v1::PHASE_LEAVING);
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->reason(), "cancelled on node 1 (b)");
}

TEST(CoordinatorDirectives, ANodeWithoutANumberIsNamedByItsHost) {
  Cluster c(Fixed(2));
  c.Join("b");
  c.At("b").status.set_cancelled(true);
  c.Phase("b", v1::PHASE_LEAVING);
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->reason(), "cancelled on b");
}

// A READY node whose order does not change hears nothing but answers.
TEST(CoordinatorDirectives, EachStatusHasOneAnswer) {
  Cluster c(Fixed(2));
  Start(&c);
  const uint64_t before = c.Told("b").id().seq();
  c.Say("b");
  EXPECT_EQ(c.Told("b").id().seq(), before + 1);
  c.Fail("a", 3);
  ASSERT_TRUE(c.Told("b").has_stop());
  const uint64_t stop = c.Told("b").id().seq();
  c.Pass(absl::Milliseconds(300), {});
  EXPECT_EQ(c.Told("b").id().seq(), stop);
}

TEST(CoordinatorDirectives, ManyAbsentNodesAreCountedAndTheFirstAreNamed) {
  Cluster c(Fixed(20));
  c.Join("a", 0);
  const v1::Wait wait = c.Told("a").wait();
  EXPECT_EQ(wait.absent_count(), 19);
  ASSERT_EQ(wait.absent_size(), static_cast<int>(kMaxAbsentNamed));
  EXPECT_EQ(wait.absent(0), "node 1");
  EXPECT_EQ(wait.absent(7), "node 8");
}

}  // namespace
}  // namespace muster::rendezvous
