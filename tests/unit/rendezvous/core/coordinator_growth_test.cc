// The coordinator as nodes come and go: growing, shrinking, spares, changes of membership.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/coordinator.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

TEST(Coordinator, ArrivalsWithinTheSettleTimeCostOneRestart) {
  CoordinatorOptions options = Elastic(2, 8);
  options.join_settle = absl::Seconds(5);
  Cluster c(options);
  StartTwo(&c);
  c.Join("c");
  c.Pass(absl::Seconds(4), {"a", "b", "c"});
  c.Join("d");
  EXPECT_EQ(c.state(), State::kRunning);
  c.Pass(absl::Seconds(1.5), {"a", "b", "c", "d"});
  c.Pass(absl::Seconds(1), {"a", "b", "c", "d"});
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Told("a").run().node_count(), 4);
  EXPECT_EQ(c.Told("a").run().restart_count(), 1);
}

// Node c of three, of which two suffice, joins and is lost again and again.
class CrashLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a", "b"}) c_.Join(name, name[0] - 'a');
    JoinAndRun();
  }
  static CoordinatorOptions Options() {
    CoordinatorOptions options = Elastic(2, 3);
    options.max_node_losses = 1;
    return options;
  }
  void JoinAndRun() {
    name_ = absl::StrCat("c", ++incarnations_);
    c_.Join(name_, 2);
    Settle();
  }
  void Settle() {
    for (int i = 0; i < 3; ++i) {  // STOP, WAIT, RUN
      for (const std::string& name : {std::string("a"), std::string("b"), name_}) c_.Apply(name);
    }
  }
  void Lose() {
    c_.At(name_).status.set_live_workers(0);
    c_.Phase(name_, v1::PHASE_HOST_GONE);
    for (int i = 0; i < 3; ++i) {
      for (const char* name : {"a", "b"}) c_.Apply(name);
    }
  }
  int Size() { return c_.Told("a").run().node_count(); }
  uint64_t Round() { return c_.Told("a").run().id().number(); }

  Cluster c_{Options()};
  std::string name_;
  int incarnations_ = 0;
};

TEST_F(CrashLoopTest, AfterOneLossTheNodeIsTakenInAtOnce) {
  ASSERT_EQ(Size(), 3);
  Lose();
  ASSERT_EQ(Size(), 2);
  JoinAndRun();
  EXPECT_EQ(Size(), 3);
}

TEST_F(CrashLoopTest, SeveralLossesInARowCostOneAndEndNoJob) {
  for (int i = 0; i < 6; ++i) {
    Lose();
    ASSERT_EQ(Size(), 2) << i;
    EXPECT_EQ(c_.Told("a").run().loss_ages_ms_size(), 1) << i;
    const uint64_t round = Round();
    JoinAndRun();
    if (i == 0) continue;
    EXPECT_EQ(Round(), round) << "the others are not disturbed";
    EXPECT_TRUE(c_.Told(name_).wait().reason().find("this node was lost ") == 0) << c_.Told(name_).wait().reason();
    c_.Pass(kFirstHoldBack * (1 << (i - 1)) + absl::Seconds(1), {"a", "b", name_});
    Settle();
    EXPECT_EQ(Size(), 3) << i;
  }
  EXPECT_EQ(
      c_.Said("place 2 was lost 2 times in a row, soon after it had joined: while the others suffice, it is held "
              "back for 30s"),
      1);
}

TEST_F(CrashLoopTest, ALongRunEndsTheRow) {
  Lose();
  JoinAndRun();
  c_.Pass(kLongRound, {"a", "b", name_});
  Lose();
  EXPECT_TRUE(c_.core().verdict().has_value()) << "it is another loss, and only one is allowed";
}

TEST_F(CrashLoopTest, ANodeThatIsNeededIsNotHeldBack) {
  Lose();
  JoinAndRun();
  Lose();
  ASSERT_EQ(Size(), 2);
  JoinAndRun();
  c_.Fail("b", 1);
  c_.Apply("b");
  c_.Close("b");  // two of three are left, and two are needed
  c_.Pass(absl::Seconds(30), {"a", name_});
  EXPECT_EQ(c_.Told(name_).run().node_count(), 2);
}

// It comes back as another process each time, perhaps under another name.
TEST(CrashLoops, OfNodesWithoutAPlaceAreThoseOfNewNodes) {
  CoordinatorOptions options = Elastic(2, 3);
  options.max_node_losses = 1;
  Cluster c(options);
  for (const char* name : {"a", "b"}) c.Join(name);
  c.Pass(absl::Seconds(40), {"a", "b"});
  ASSERT_EQ(c.Told("a").run().node_count(), 2);
  for (int i = 0; i < 4; ++i) {
    const std::string name = absl::StrCat("c", i);
    c.Join(name);
    c.Pass(absl::Seconds(8), {"a", "b", name});
    ASSERT_FALSE(c.core().verdict().has_value());
    if (i >= 2) {
      EXPECT_TRUE(c.Told(name).wait().reason().find("a new node was lost 2 times in a row") == 0)
          << c.Told(name).wait().reason();
    } else {
      EXPECT_TRUE(c.Told(name).has_run()) << i;
    }
    c.At(name).status.set_live_workers(0);
    c.Phase(name, v1::PHASE_HOST_GONE);
    c.Pass(absl::Seconds(2), {"a", "b"});
  }
}

TEST(CrashLoops, OfMoreNodesThanAreRememberedForgetTheLeast) {
  CrashLoops loops;
  const BootTime now = absl::UnixEpoch();
  for (int i = 0; i < 3; ++i) loops.OnRoundEnd(now, absl::ZeroDuration(), {"kept"}, {});
  for (size_t i = 0; i < 2 * kMaxCrashLoops; ++i)
    loops.OnRoundEnd(now, absl::ZeroDuration(), {absl::StrCat("node ", i)}, {});
  EXPECT_EQ(loops.LossesInARow("kept"), 3);
  EXPECT_EQ(loops.LossesInARow(absl::StrCat("node ", 2 * kMaxCrashLoops - 1)), 1);
}

// Otherwise a restart in order to grow would leave it out.
TEST(CrashLoops, DoNotHoldBackANodeThatWasNeededAndRanWell) {
  CrashLoops loops;
  const BootTime now = absl::UnixEpoch();
  for (int i = 0; i < 3; ++i) loops.OnRoundEnd(now, absl::ZeroDuration(), {"c"}, {});
  ASSERT_GT(loops.HeldBackUntil("c"), now);
  loops.OnRoundEnd(now, absl::Minutes(1), {"b"}, {"a", "c"});
  EXPECT_LE(loops.HeldBackUntil("c"), now);
  EXPECT_EQ(loops.LossesInARow("c"), 3) << "a short round proves nothing";
}

// A worker sees its stopped peers close their connections before it is stopped itself, and fails.
TEST(Coordinator, AFailureAfterStopForGrowthIsNotCharged) {
  CoordinatorOptions options = Elastic(2, 3);
  options.max_restarts = 0;
  Cluster c(options);
  StartTwo(&c);
  c.Join("c");
  ASSERT_EQ(c.state(), State::kDraining);
  c.Jump(absl::Milliseconds(20));
  c.Fail("b", 1);
  c.Pass(absl::Seconds(1), {"a", "b", "c"});
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Told("a").run().node_count(), 3);
  EXPECT_EQ(c.Told("a").run().failures(), 0);
}

// The exit code comes first and ends the round; the kill a moment later is the cause, not an echo.
TEST(Coordinator, AKillRightAfterAnExitCodeIsCharged) {
  CoordinatorOptions options = Elastic(2, 2);
  options.max_restarts = 0;
  Cluster c(options);
  StartTwo(&c);
  c.Fail("a", 1);
  ASSERT_EQ(c.state(), State::kDraining);
  c.Jump(absl::Milliseconds(5));
  c.At("b").status.mutable_failure()->set_oom_killed(true);
  c.Fail("b", 137);
  c.Pass(absl::Seconds(1), {"a", "b"});
  ASSERT_TRUE(c.Told("a").has_verdict());
  EXPECT_EQ(c.Told("a").verdict().exit_code(), 137);
}

TEST(Coordinator, AFullGroupWaitsForNoFurtherArrivals) {
  CoordinatorOptions options = Elastic(2, 3);
  options.join_settle = absl::Hours(1);
  Cluster c(options);
  StartTwo(&c);
  c.Join("c");
  EXPECT_EQ(c.state(), State::kDraining);
}

TEST(Coordinator, ScaleUpOnRestartWaitsForARestart) {
  CoordinatorOptions options = Elastic(2, 8);
  options.scale_up = ScaleUp::kOnRestart;
  Cluster c(options);
  StartTwo(&c);
  c.Join("c");
  c.Pass(absl::Seconds(30), {"a", "b", "c"});
  EXPECT_EQ(c.state(), State::kRunning);
  c.Fail("a", 1);
  c.Pass(absl::Seconds(1), {"a", "b", "c"});
  EXPECT_EQ(c.Told("a").run().node_count(), 3);
}

TEST(Coordinator, ScaleUpNeverOnlyReplacesLostNodes) {
  CoordinatorOptions options = Elastic(2, 8);
  options.scale_up = ScaleUp::kNever;
  Cluster c(options);
  StartTwo(&c);
  c.Join("c");
  c.Fail("a", 1);
  c.Pass(absl::Seconds(1), {"a", "b", "c"});
  EXPECT_EQ(c.Told("a").run().node_count(), 2);
  EXPECT_FALSE(c.Told("c").has_run());
  c.Phase("b", v1::PHASE_HOST_GONE);
  c.Pass(absl::Seconds(1), {"a", "c"});
  EXPECT_EQ(c.Told("a").run().node_count(), 2);
  EXPECT_TRUE(c.Told("c").has_run());
}

TEST(Coordinator, ARoundsSizeIsAMultipleOfTheNodeUnit) {
  CoordinatorOptions options = Elastic(2, 8);
  options.node_unit = 2;
  Cluster c(options);
  StartTwo(&c);
  c.Join("c");
  c.Pass(absl::Seconds(10), {"a", "b", "c"});
  EXPECT_EQ(c.state(), State::kRunning) << "one alone makes no other size";
  c.Join("d");
  c.Pass(absl::Seconds(1), {"a", "b", "c", "d"});
  EXPECT_EQ(c.Told("a").run().node_count(), 4);
}

TEST(Coordinator, ASpareInLineTakesALostRankAtOnce) {
  Cluster c(InAgent(Fixed(2)));
  c.Join("a", -1);
  c.Join("b", -1);
  c.Apply("a");
  c.Apply("b");
  c.Join("x", -1);
  c.Pass(absl::Seconds(1), {"a", "b", "x"});
  c.At("y").status.set_in_job_ms(0);
  c.Join("y", -1);
  c.At("x").status.set_in_job_ms(1000);
  c.Apply("x");
  c.Apply("y");
  EXPECT_EQ(c.Told("x").wait().place_in_line(), 1);
  EXPECT_EQ(c.Told("y").wait().place_in_line(), 2);
  c.Phase("b", v1::PHASE_HOST_GONE);
  c.Apply("a");
  ASSERT_TRUE(c.Told("x").has_run());
  EXPECT_EQ(c.Told("x").run().node_rank(), 1);
  EXPECT_FALSE(c.Told("y").has_run());
}

TEST(Coordinator, AnOfferOnItsWayKeepsItsRankFromASpare) {
  Cluster c(InAgent(Fixed(2)));
  for (const char* name : {"a", "b"}) c.Join(name);
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Join("spare");
  c.Fail("b", 1);
  c.At("a").status.clear_offer();  // its new offer is still on its way
  c.Apply("a");
  c.Apply("b");
  EXPECT_EQ(c.state(), State::kGathering);
  c.At("a").status.mutable_offer()->set_host("127.0.0.1");
  c.At("a").status.mutable_offer()->set_port(6000);
  c.Apply("a");
  EXPECT_TRUE(c.Told("a").has_run());
  EXPECT_FALSE(c.Told("spare").has_run());
}

TEST(Coordinator, ASpareTakesARankWithoutAPort) {
  Cluster c(InAgent(Fixed(2)));
  for (const char* name : {"a", "b"}) c.Join(name);
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Join("spare");
  c.Fail("b", 1);
  c.At("a").status.clear_offer();
  c.Apply("a");
  c.Apply("b");
  c.Pass(absl::Seconds(2.5), {"a", "b", "spare"});
  EXPECT_TRUE(c.Told("spare").has_run());
}

// Found by simulation: spares reach a restarted coordinator before the members that still run a round.
TEST(Coordinator, UnplacedNodesWaitForAnEarlierRoundsLease) {
  const CoordinatorOptions alone = Fixed(2);
  Cluster c(alone);
  c.Join("x");
  EXPECT_EQ(c.Told("x").wait().reason(), "1 of 2 nodes ready; gives up after 10m (--join-timeout)")
      << "that is what it waits for longer";
  c.Join("y");
  EXPECT_EQ(c.state(), State::kRecovering) << "it may have been running before";
  c.Pass(absl::Seconds(1), {"x", "y"});
  EXPECT_EQ(
      c.Told("x").wait().reason(),
      "the coordinator has just started; allowing up to 10s (--lease) for workers of an earlier start to end");
  c.Pass(absl::Seconds(12), {"x", "y"});
  EXPECT_EQ(c.state(), State::kRunning);

  Cluster named(alone);
  for (int place : {0, 1}) named.Join(place == 0 ? "x" : "y", place);
  EXPECT_EQ(named.state(), State::kRunning) << "all possible members are attached";
}

TEST(Coordinator, MembershipChangesWithoutProgressAre93) {
  CoordinatorOptions options = Elastic(1, 8);
  options.max_membership_changes = 2;
  Cluster c(options);
  StartTwo(&c);
  for (const char* name : {"c", "d", "e"}) {
    c.Join(name);
    c.Pass(absl::Seconds(1), {"a", "b", "c", "d", "e"});
    EXPECT_FALSE(c.core().verdict().has_value());
  }
  c.At("d").status.set_live_workers(0);
  c.Phase("d", v1::PHASE_LEAVING);
  c.Pass(absl::Seconds(1), {"a", "b", "c", "e"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 93);
}

// One more change would end the whole job; after five minutes of a round it costs nothing.
TEST(Coordinator, TheLastMembershipChangeIsNotSpentOnGrowth) {
  CoordinatorOptions options = Elastic(1, 8);
  options.max_membership_changes = 1;
  Cluster c(options);
  StartTwo(&c);
  c.Join("c");
  c.Pass(absl::Seconds(1), {"a", "b", "c"});
  ASSERT_EQ(c.Told("a").run().node_count(), 3);
  c.Join("d");
  c.Pass(absl::Minutes(1), {"a", "b", "c", "d"});
  EXPECT_EQ(c.Told("a").run().node_count(), 3);
  c.Pass(absl::Minutes(5), {"a", "b", "c", "d"});
  EXPECT_EQ(c.Told("a").run().node_count(), 4);
}

// The spare stood by for longer than the timeout before the round ended; that time was not spent gathering.
TEST(Coordinator, ASparesWaitingTimeEndsNoGathering) {
  CoordinatorOptions options = Fixed(2);
  options.rejoin_timeout = absl::Minutes(1);
  Cluster c(options);
  StartTwo(&c);
  c.Join("spare");
  c.At("spare").status.set_gathering_ms(3600 * 1000);
  c.Apply("spare");
  EXPECT_FALSE(c.Told("spare").wait().gathering());
  c.Fail("b", 1);
  for (const char* name : {"a", "b"}) {
    c.At(name).status.clear_offer();  // it has no port yet
    c.Apply(name);
  }
  c.Pass(absl::Seconds(50), {"a", "b", "spare"});
  EXPECT_EQ(c.state(), State::kGathering);
  EXPECT_TRUE(c.Told("spare").wait().gathering());
  c.Pass(absl::Seconds(11), {"a", "b", "spare"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 69);
}

TEST(Coordinator, ASlowNewcomerIsAwaitedForTheLastCallOnly) {
  Cluster c(Elastic(2, 4));
  StartTwo(&c);
  c.At("new").status.set_preparing("its preflight runs");
  c.Join("new");
  c.Fail("b", 1);
  c.Pass(absl::Seconds(2), {"a", "b", "new"});
  EXPECT_EQ(c.state(), State::kGathering);
  c.Pass(absl::Seconds(4), {"a", "b", "new"});  // 6 s in all: the last call of 5 s is over
  EXPECT_EQ(c.state(), State::kRunning);
}

TEST(Coordinator, ASlowPreflightCostsTheRankNotTheJob) {
  CoordinatorOptions options = Fixed(2);
  options.rejoin_timeout = absl::Minutes(1);
  Cluster c(options);
  StartTwo(&c);
  c.Join("spare");
  c.Fail("b", 1);
  c.At("b").status.clear_offer();
  c.At("b").status.set_preparing("its preflight runs");
  c.Apply("a");
  c.Apply("b");
  c.Pass(absl::Seconds(50), {"a", "b", "spare"});
  EXPECT_EQ(c.state(), State::kGathering);
  c.Pass(absl::Seconds(11), {"a", "b", "spare"});
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_TRUE(c.Told("spare").has_run());
}

// The statuses that arrived meanwhile are read after the first tick.
TEST(Coordinator, AStoppedCoordinatorTakesNobodyForDead) {
  CoordinatorOptions options = Fixed(2);
  options.lease = absl::Seconds(2);
  Cluster c(options);
  StartTwo(&c);
  c.Pass(absl::Seconds(1), {"a", "b"});
  c.Jump(absl::Seconds(6));
  c.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Said("was lost"), 0);
}

}  // namespace
}  // namespace muster::rendezvous
