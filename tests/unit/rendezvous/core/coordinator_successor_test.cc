// A coordinator that follows another one: how it learns of the running round, and when it starts a new one.
#include <gtest/gtest.h>

#include "base/wire/ids.h"
#include "rendezvous/core/coordinator.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

TEST(Coordinator, ASuccessorContinuesARunningRound) {
  Cluster before(Fixed(2));
  before.Join("a", 0);
  before.Join("b", 1);
  before.Apply("a");
  before.Apply("b");
  Cluster after(Fixed(2), 43);
  for (const char* n : {"a", "b"}) {
    after.At(n) = before.At(n);
    after.Say(n);
    ASSERT_TRUE(after.Told(n).has_wait()) << "WAIT does not stop what runs";
  }
  for (const char* n : {"a", "b"}) after.Apply(n);
  ASSERT_TRUE(after.Told("a").has_run());
  EXPECT_TRUE(Same(after.Told("a").run().id(), before.Told("a").run().id()));
}

TEST(Coordinator, AGreaterMinAppliesToTheNextRound) {
  Cluster before(Elastic(2, 3));
  for (const char* n : {"a", "b"}) before.Join(n);
  before.Pass(absl::Seconds(60), {"a", "b"});
  for (const char* n : {"a", "b"}) before.Apply(n);
  ASSERT_EQ(before.Told("a").run().node_count(), 2);
  CoordinatorOptions options = Elastic(3, 4);
  options.scale_up = ScaleUp::kNever;
  Cluster after(options, 43);
  for (const char* n : {"a", "b"}) {
    after.At(n) = before.At(n);
    after.Say(n);
  }
  for (const char* n : {"a", "b"}) after.Apply(n);
  after.Fail("b", 1);
  for (const char* n : {"a", "b"}) after.Apply(n);
  after.Pass(absl::Seconds(60), {"a", "b"});
  ASSERT_EQ(after.state(), State::kGathering);
  after.Join("c");
  after.Pass(absl::Seconds(60), {"a", "b", "c"});
  EXPECT_EQ(after.Told("a").run().node_count(), 3);
}

TEST(Coordinator, ARoundGrowsOnlyToAGreaterMin) {
  Cluster before(Elastic(2, 8));
  StartTwo(&before);
  CoordinatorOptions options = Elastic(4, 8);
  options.join_settle = absl::Seconds(1);
  Cluster after(options, 43);
  for (const char* n : {"a", "b"}) {
    after.At(n) = before.At(n);
    after.Attach(n);
  }
  for (const char* n : {"a", "b"}) after.Apply(n);
  ASSERT_EQ(after.state(), State::kRunning);
  after.Join("c");
  after.Pass(absl::Seconds(20), {"a", "b", "c"});
  EXPECT_EQ(after.state(), State::kRunning);
  after.Join("d");
  after.Pass(absl::Seconds(20), {"a", "b", "c", "d"});
  EXPECT_EQ(after.Told("a").run().node_count(), 4);
}

// These counts come from a coordinator that had learned an older round's counts and ended before it made the next.
TEST(Coordinator, ARoundsNumberExceedsItsRestarts) {
  Cluster before(InAgent(Fixed(2)));
  for (const char* n : {"a", "b"}) before.Join(n);
  for (const char* n : {"a", "b"}) before.Apply(n);
  Cluster after(InAgent(Fixed(2)), 43);
  for (const char* n : {"a", "b"}) {
    after.At(n) = before.At(n);
    after.At(n).status.mutable_last()->set_restart_count(2);
    after.Say(n);
  }
  for (const char* n : {"a", "b"}) after.Apply(n);
  after.Fail("b", 1);
  for (const char* n : {"a", "b"}) after.Apply(n);
  EXPECT_EQ(after.Told("a").run().restart_count(), 3);
  EXPECT_EQ(after.Told("a").run().id().number(), 4u);
}

// An agent that was cut off since the round before still reports its failure, which was charged long ago.
TEST(Coordinator, AnEarlierRoundsFailureIsNotChargedAgain) {
  Cluster before(Elastic(1, 2));
  before.Join("a", 0);
  before.Join("b", 1);
  for (const char* n : {"a", "b"}) before.Apply(n);
  before.Fail("b", 7);
  Cluster after(Elastic(1, 2), 43);
  after.At("b") = before.At("b");
  after.At("b").status.set_phase(v1::PHASE_HOST_GONE);
  after.At("b").failed_at = FromBootNanos(0);  // well before its node was lost
  before.Pass(absl::Seconds(11), {"a", "b"});
  const v1::Round run = before.Told("a").run();
  ASSERT_EQ(run.node_count(), 2);
  ASSERT_EQ(run.failures(), 1);

  after.Pass(absl::Seconds(5), {});
  after.At("a") = before.At("a");
  after.Say("b");
  after.Close("b");
  after.Say("a");
  after.Apply("a");
  ASSERT_EQ(after.state(), State::kRecovering);
  after.Pass(absl::Seconds(60), {"a"});
  ASSERT_GT(after.Told("a").run().id().number(), run.id().number());
  EXPECT_EQ(after.Told("a").run().failures(), 1);
  EXPECT_EQ(after.Said("code 7"), 0);
}

// No coordinator has heard of the node's success: the first one was dead, and SIGTERM came before the next one.
TEST(Coordinator, ASuccessorCountsASuccessBeforeALeave) {
  Cluster before(Fixed(3));
  before.Join("a", 0);
  before.Join("b", 1);
  before.Join("c", 2);
  for (const char* n : {"a", "b", "c"}) before.Apply(n);
  Cluster after(Fixed(3), 43);
  for (const char* n : {"a", "b", "c"}) after.At(n) = before.At(n);
  after.At("a").status.set_at_primary(true);
  v1::AgentStatus& leaver = after.At("c").status;
  leaver.set_phase(v1::PHASE_LEAVING);
  leaver.set_outcome(v1::OUTCOME_SUCCEEDED);
  leaver.set_live_workers(1);  // a leftover of its workers is being ended
  after.Say("c");
  after.Apply("c");
  EXPECT_EQ(after.state(), State::kRecovering);
  leaver.set_live_workers(0);
  after.Say("c");
  after.Apply("c");
  after.Close("c");  // before the others are back
  for (const char* n : {"a", "b"}) after.Say(n);
  for (const char* n : {"a", "b"}) after.Apply(n);
  EXPECT_TRUE(after.Told("a").has_run()) << "the others are not disturbed";
  for (const char* n : {"a", "b"}) after.Phase(n, v1::PHASE_SUCCEEDED);
  EXPECT_EQ(after.state(), State::kVerdict);
}

TEST(Coordinator, ASuccessorAwaitsAnAbsentMembersLease) {
  Cluster before(Elastic(1, 2));
  before.Join("a", 0);
  before.Join("b", 1);
  before.Apply("a");
  before.Apply("b");
  Cluster after(Elastic(1, 2), 43);
  after.At("a") = before.At("a");
  after.Say("a");
  after.Apply("a");
  // The predecessor may be cut off with b, and would then notice and give it a grace period.
  const CoordinatorOptions& options = after.core().job().options;
  after.Pass(2 * (options.lease + options.margin()) + options.shutdown_grace - absl::Seconds(1), {"a"});
  EXPECT_FALSE(after.Told("a").has_run());
  after.Pass(absl::Seconds(2), {"a"});
  ASSERT_TRUE(after.Told("a").has_run());
  EXPECT_EQ(after.Told("a").run().node_count(), 1);
  EXPECT_EQ(after.Told("a").run().id().number(), 2u);
  EXPECT_EQ(after.Told("a").run().loss_ages_ms_size(), 1);
}

// "b" got the RUN of a second round as the first coordinator died; "a", a member of both, did not.
TEST(Coordinator, ASuccessorAwaitsAnUnknownRoundsLease) {
  Cluster before(Elastic(1, 2));
  before.Join("a");
  before.Pass(absl::Seconds(20), {"a"});
  ASSERT_TRUE(before.Told("a").has_run());
  before.Fail("a", 1);
  before.Apply("a");
  Cluster after(Elastic(1, 2), 43);
  after.At("a") = before.At("a");
  after.Say("a");
  after.Apply("a");
  after.Join("c");
  after.Pass(absl::Seconds(11), {"a", "c"});
  EXPECT_FALSE(after.Told("a").has_run());
  after.Pass(absl::Seconds(1), {"a", "c"});
  EXPECT_TRUE(after.Told("a").has_run());
}

TEST(Coordinator, WithoutAPredecessorAFullGroupStartsAtOnce) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  EXPECT_TRUE(c.Told("a").has_run());
}

// The predecessor may have sent a RUN to a single host that is not attached here.
TEST(Coordinator, ASuccessorHearsItsOwnHostBeforeSpares) {
  CoordinatorOptions options = InAgent(Fixed(2));
  Cluster before(options);
  before.At("a").status.set_at_primary(true);
  before.Join("a");
  before.Join("b");
  before.Apply("a");
  Cluster after(options, 43);
  for (const char* spare : {"x", "y"}) after.Join(spare);
  EXPECT_EQ(after.state(), State::kRecovering) << "as many nodes as the job needs, none of which knows the round";
  after.At("a").status = before.At("a").status;
  after.Attach("a");
  after.Pass(absl::Seconds(5), {"a", "x", "y"});
  EXPECT_FALSE(after.Told("x").has_run());
  EXPECT_TRUE(Same(after.core().greatest().id(), before.core().greatest().id()));
}

TEST(Coordinator, UnplacedNodesGetTimeToReturn) {
  CoordinatorOptions options = InAgent(Fixed(2));
  options.agents_return = absl::Seconds(1);
  Cluster unplaced(options);
  for (const char* name : {"a", "b"}) unplaced.Join(name);
  EXPECT_EQ(unplaced.state(), State::kRecovering);
  unplaced.Pass(absl::Milliseconds(1100), {"a", "b"});
  EXPECT_TRUE(unplaced.Told("a").has_run());
  Cluster placed(Fixed(2));
  for (int place : {0, 1}) placed.Join(place == 0 ? "a" : "b", place);
  EXPECT_TRUE(placed.Told("a").has_run()) << "a node with a place is not a spare";
}

TEST(Coordinator, ASuccessorWaitsEvenIfAllPlacesAreTaken) {
  Cluster before(Fixed(2));
  before.Join("a", 0);
  Cluster after(Fixed(2), 43);
  after.At("a") = before.At("a");
  after.Say("a");
  after.Apply("a");
  after.Join("b2", 1);
  EXPECT_FALSE(after.Told("a").has_run());
  after.Pass(absl::Seconds(12), {"a", "b2"});
  EXPECT_TRUE(after.Told("a").has_run());
}

}  // namespace
}  // namespace muster::rendezvous
