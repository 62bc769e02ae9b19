// The coordinator core, step by step: one test for each decision that is not obvious.
#include "rendezvous/core/coordinator.h"

#include <gtest/gtest.h>

#include "base/wire/ids.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

// Unless both addresses are of this machine.
TEST(Coordinator, MixedAddressFamiliesAreAWarning) {
  const auto warnings = [](const std::string& master, const std::string& other) {
    Cluster c(Fixed(2));
    c.Join("a", 0, v1::ROLE_TRAINER, master);
    c.Join("b", 1, v1::ROLE_TRAINER, other);
    EXPECT_TRUE(c.Told("a").has_run());
    return c.warnings().size();
  };
  EXPECT_EQ(warnings("10.0.0.1", "fd00::2"), 1u);
  EXPECT_EQ(warnings("127.0.0.1", "fd00::2"), 1u);
  EXPECT_EQ(warnings("127.0.0.1", "::1"), 0u);
  EXPECT_EQ(warnings("::1", "127.0.0.1"), 0u);
  EXPECT_EQ(warnings("10.0.0.1", "10.0.0.2"), 0u);
}

TEST(Coordinator, UnplacedAbsentNodesAreCounted) {
  Cluster c(Fixed(3));
  c.Join("a");
  ASSERT_EQ(c.Told("a").wait().absent_count(), 1);
  EXPECT_EQ(c.Told("a").wait().absent(0), "2 more nodes");
  c.Join("b");
  c.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_EQ(c.Told("a").wait().absent(0), "1 more node");
}

// A WAIT names only the first few, and the many that never came matter most.
TEST(Coordinator, TheAbsentCountPrecedesNames) {
  Cluster c(Fixed(100));
  c.Join("a");
  for (int i = 0; i < 10; ++i) {
    const std::string name = "without a port " + std::to_string(i);
    c.Join(name);
    c.At(name).status.clear_offer();
    c.Say(name);
  }
  c.Pass(absl::Seconds(1), {"a"});
  EXPECT_EQ(c.Told("a").wait().absent(0), "89 more nodes");
}

TEST(Coordinator, AFixedGroupStartsWhenAllPlacesAreReady) {
  Cluster c(Fixed(3));
  c.Join("b", 1);
  c.Join("a", 0);
  EXPECT_TRUE(c.Told("a").has_wait());
  EXPECT_EQ(c.Told("a").wait().absent_count(), 1);
  c.Join("c", 2);
  ASSERT_TRUE(c.Told("a").has_run());
  EXPECT_EQ(c.Told("a").run().node_rank(), 0);
  EXPECT_EQ(c.Told("c").run().node_rank(), 2);
  EXPECT_EQ(c.Told("c").run().first_rank(), 4);
  EXPECT_EQ(c.Told("b").run().world_size(), 6);
  EXPECT_EQ(c.Told("a").run().master().port(), c.Told("c").run().master().port());
  EXPECT_TRUE(c.Told("b").has_lease());
}

// Beyond kManyHosts attached hosts decisions are deferred to the next tick, except after a failure.
TEST(Coordinator, ManyStatusesShareOneDecision) {
  constexpr int kHosts = static_cast<int>(kManyHosts) + 20;
  Cluster c(Fixed(kHosts));
  std::vector<std::string> names;
  for (int i = 0; i < kHosts; ++i) names.push_back("n" + std::to_string(i));
  for (int i = 0; i < kHosts; ++i) c.Join(names[static_cast<size_t>(i)], i);
  EXPECT_NE(c.state(), State::kRunning) << "a decision for each status would cost quadratic time";
  c.Pass(kTick, {});
  ASSERT_EQ(c.state(), State::kRunning) << "at the next tick at the latest";
  for (const std::string& name : names) c.Apply(name);
  c.Fail(names.back(), 7);
  EXPECT_TRUE(c.Told(names.front()).has_stop());
  for (const std::string& name : names) c.Apply(name);
  EXPECT_EQ(c.state(), State::kDraining);
  c.Pass(kTick, {});
  EXPECT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Told(names.front()).run().restart_count(), 1);
}

// From its first RUN on, the lease of the primary's own node is bounded by what other members have echoed.
TEST(Coordinator, ThePrimarysOwnLeaseIsBoundedByEchoes) {
  Cluster c(Fixed(2));
  c.At("a").status.set_at_primary(true);
  c.Join("a", 0);
  c.Join("b", 1);
  ASSERT_TRUE(c.Told("a").has_run());
  ASSERT_TRUE(c.Told("a").has_lease());
  EXPECT_GT(c.Told("a").lease().not_after_boot_ns(), 0);
  EXPECT_EQ(c.Told("b").lease().not_after_boot_ns(), 0);
}

TEST(Coordinator, ReadinessMustNameADirectiveOfThisEpoch) {
  Cluster c(Fixed(1));
  auto& node = c.At("a");
  node.stream = 1;
  node.status.set_protocol(kProtocol);
  node.status.set_run_id("job");
  node.status.set_host_id("a");
  node.status.set_role(v1::ROLE_TRAINER);
  node.status.set_place(0);
  node.status.set_phase(v1::PHASE_READY);
  node.status.mutable_offer()->set_host("h");
  c.Say("a");
  EXPECT_TRUE(c.Told("a").has_wait());
  c.Apply("a");
  EXPECT_TRUE(c.Told("a").has_run());
}

TEST(Coordinator, ALeaselessRoundSurvivesANewCoordinator) {
  CoordinatorOptions options = Fixed(1);
  options.lease = absl::ZeroDuration();
  Cluster before(options);
  before.Join("a", 0);
  before.Apply("a");
  ASSERT_EQ(before.state(), State::kRunning);
  Cluster after(options, /*entropy=*/7);
  after.At("a").status = before.At("a").status;
  after.Attach("a");
  after.Pass(kTick, {});
  EXPECT_EQ(after.state(), State::kRecovering) << "it has not answered in this epoch yet";
  after.Apply("a");
  EXPECT_EQ(after.state(), State::kRunning);
  ASSERT_TRUE(after.Told("a").has_run());
  EXPECT_TRUE(Same(after.Told("a").run().id(), before.Told("a").run().id())) << "no worker is disturbed";
}

TEST(Coordinator, AFailureDrainsAllAndRaisesTheRestartCount) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Fail("b", 7);
  EXPECT_TRUE(c.Told("a").has_stop());
  EXPECT_TRUE(c.Told("a").has_lease()) << "its workers may use their grace, however long";
  c.Apply("a");
  EXPECT_EQ(c.state(), State::kDraining) << "b has not stopped yet";
  c.Apply("b");
  EXPECT_FALSE(c.Told("b").has_lease() && c.Told("b").has_stop()) << "none of its processes runs any more";
  ASSERT_TRUE(c.Told("a").has_run());
  EXPECT_EQ(c.Told("a").run().restart_count(), 1);
  EXPECT_EQ(c.Told("a").run().failures(), 1);
  EXPECT_EQ(c.Told("a").run().id().number(), 2u);
}

TEST(Coordinator, AnOlderReadyDoesNotEndADrain) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("b");
  c.Fail("b", 7);  // before a has applied its RUN
  ASSERT_EQ(c.state(), State::kDraining);
  c.Apply("b");
  c.Say("a");  // still READY, with the earlier WAIT as applied
  EXPECT_EQ(c.state(), State::kDraining);
  c.Apply("a");
  EXPECT_EQ(c.state(), State::kRunning);
}

TEST(Coordinator, ASpentBudgetIsAVerdictWithTheWorkersCode) {
  Cluster c(Fixed(2, 0));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Fail("b", 7);
  c.Apply("a");
  c.Apply("b");
  ASSERT_TRUE(c.Told("a").has_verdict());
  EXPECT_EQ(c.Told("a").verdict().exit_code(), 7);
  EXPECT_EQ(c.Told("a").verdict().root_cause().host(), "b");
}

TEST(Coordinator, AnUnusableNodeHearsTheVerdictFirst) {
  Cluster c(Fixed(2, 0));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Fail("a", 7);
  c.Apply("a");
  v1::AgentStatus& b = c.At("b").status;
  *b.mutable_applied() = c.Told("b").id();
  c.At("a").failed_at -= absl::Seconds(10);  // long before b became unusable
  c.Say("a");
  c.Phase("b", v1::PHASE_UNUSABLE);
  c.Apply("a");
  EXPECT_TRUE(c.Told("a").has_verdict()) << "b has not acknowledged";
  ASSERT_TRUE(c.Told("b").has_verdict());
  // It stores the verdict; its workers stay.
  *b.mutable_verdict() = c.Told("b").verdict();
  *b.mutable_applied() = c.Told("b").id();
  c.Say("b");
  EXPECT_TRUE(c.Told("b").has_release());
  EXPECT_TRUE(c.Told("a").has_release());
}

TEST(Coordinator, ReleaseNeedsAllAcknowledgedPrimaryLast) {
  Cluster c(Fixed(2));
  c.At("a").status.set_at_primary(true);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Phase("a", v1::PHASE_SUCCEEDED);
  c.Phase("b", v1::PHASE_SUCCEEDED);
  ASSERT_TRUE(c.Told("a").has_verdict());
  EXPECT_TRUE(c.Told("b").has_wait()) << "the primary's own host must have stored it first";
  c.Apply("a");
  ASSERT_TRUE(c.Told("b").has_verdict());
  EXPECT_EQ(c.Told("b").verdict().exit_code(), 0);
  EXPECT_TRUE(c.Told("a").has_verdict()) << "b has not acknowledged";
  c.Apply("b");
  EXPECT_TRUE(c.Told("b").has_release());
  c.Apply("b");
  EXPECT_TRUE(c.Told("a").has_verdict()) << "b is still attached";
  c.Close("b");
  EXPECT_TRUE(c.Told("a").has_release());
}

class ReleasedCluster : public ::testing::Test {
 protected:
  void SetUp() override {
    c_.Join("a", 0);
    c_.Join("b", 1);
    c_.At("a").status.set_at_primary(true);
    for (const char* n : {"a", "b"}) c_.Apply(n);
    for (const char* n : {"a", "b"}) c_.Phase(n, v1::PHASE_SUCCEEDED);
    for (const char* n : {"a", "b", "a"}) c_.Apply(n);
    ASSERT_TRUE(c_.Told("b").has_release());
    ASSERT_FALSE(c_.Told("a").has_release());
  }

  Cluster c_{Fixed(2)};
};

TEST_F(ReleasedCluster, ThePrimaryAwaitsARestartedAgent) {
  c_.Close("b");
  EXPECT_FALSE(c_.Told("a").has_release());
  c_.Attach("b");
  c_.Apply("b");
  EXPECT_TRUE(c_.Told("b").has_release());
  c_.Apply("b");
  c_.Close("b");
  EXPECT_TRUE(c_.Told("a").has_release());
}

TEST_F(ReleasedCluster, AMissingAgentIsAwaitedForTheGraceOnly) {
  c_.Close("b");
  c_.Pass(absl::Milliseconds(1900), {"a"});
  EXPECT_FALSE(c_.Told("a").has_release());
  c_.Pass(absl::Milliseconds(300), {"a"});
  EXPECT_TRUE(c_.Told("a").has_release());
}

TEST_F(ReleasedCluster, AReleasedNodeThatStaysIsAwaitedForALimitedTime) {
  c_.Pass(kReleaseLimit, {"a", "b"});
  EXPECT_FALSE(c_.Told("a").has_release());
  c_.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_TRUE(c_.Told("a").has_release());
}

TEST(Coordinator, AClosedStreamDrainsAfterTheReconnectGrace) {
  Cluster c(Elastic(2, 3));
  for (int i = 0; i < 3; ++i) c.Join(std::string(1, static_cast<char>('a' + i)), i);
  for (const char* n : {"a", "b", "c"}) c.Apply(n);
  ASSERT_EQ(c.state(), State::kRunning);
  c.Close("c");
  c.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_EQ(c.state(), State::kRunning);
  c.Pass(absl::Seconds(2), {"a", "b"});
  EXPECT_EQ(c.state(), State::kDraining) << "survivors are drained in parallel with the wait";
  c.Pass(absl::Seconds(5), {"a", "b"});
  EXPECT_EQ(c.state(), State::kDraining) << "the lost one may still run under its lease";
  c.Pass(absl::Seconds(5), {"a", "b"});
  ASSERT_TRUE(c.Told("a").has_run());
  EXPECT_EQ(c.Told("a").run().node_count(), 2);
  EXPECT_EQ(c.Told("a").run().loss_ages_ms_size(), 1);
  EXPECT_EQ(c.Told("a").run().failures(), 0);
}

TEST(Coordinator, AProvedDeathNeedsNoWaiting) {
  Cluster c(Elastic(2, 3));
  for (int i = 0; i < 3; ++i) c.Join(std::string(1, static_cast<char>('a' + i)), i);
  for (const char* n : {"a", "b", "c"}) c.Apply(n);
  c.Phase("c", v1::PHASE_HOST_GONE);
  EXPECT_EQ(c.state(), State::kDraining);
  EXPECT_TRUE(c.Told("c").has_release()) << "its agent must get an acknowledgement, or it repeats its report";
  c.Apply("a");
  c.Apply("b");
  EXPECT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Told("b").run().world_size(), 4);
}

TEST(Coordinator, TheReturningNodeTakesItsOldRank) {
  Cluster c(Elastic(2, 3));
  for (int i = 0; i < 3; ++i) c.Join(std::string(1, static_cast<char>('a' + i)), i);
  for (const char* n : {"a", "b", "c"}) c.Apply(n);
  c.Phase("b", v1::PHASE_HOST_GONE);
  c.Apply("a");
  c.Apply("c");
  ASSERT_EQ(c.Told("c").run().node_rank(), 1);
  c.Apply("a");
  c.Apply("c");
  c.Join("b2", 1);
  ASSERT_TRUE(c.Told("a").has_stop());
  c.Apply("a");
  c.Apply("c");
  ASSERT_TRUE(c.Told("b2").has_run());
  EXPECT_EQ(c.Told("b2").run().node_rank(), 1);
  EXPECT_EQ(c.Told("c").run().node_rank(), 2);
}

TEST(Coordinator, ASecondHostOfAPlaceStandsBy) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("twin", 0);
  EXPECT_TRUE(c.Told("twin").has_wait());
  EXPECT_EQ(c.Told("twin").wait().held_by().process(), "a");
  c.Join("b", 1);
  EXPECT_TRUE(c.Told("a").has_run());
  EXPECT_TRUE(c.Told("twin").has_wait());
}

TEST(Coordinator, AStandbyTakesThePlaceOnceItsHolderIsGone) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("twin", 0);
  c.Phase("a", v1::PHASE_HOST_GONE);
  c.Join("b", 1);
  EXPECT_TRUE(c.Told("twin").has_run()) << "without a further status of its own";
}

TEST(Coordinator, WaitingReasonsDescribeTheRound) {
  Cluster c(InAgent(Elastic(2, 2)));
  for (const char* n : {"a", "b"}) c.Join(n);
  for (const char* n : {"a", "b"}) c.Apply(n);
  c.Join("spare");
  EXPECT_EQ(c.Told("spare").wait().reason(), "round 1 runs with 2 nodes");
  c.Fail("a", 7);
  c.Apply("spare");
  EXPECT_EQ(c.Told("spare").wait().reason(), "round 1 is stopping: rank 0 on a exited with code 7");
}

// The coordinator was stopped meanwhile: the first status sent reports the latest failure by its age.
TEST(Coordinator, ALostNodesFailureCanBeTheCause) {
  Cluster c(InAgent(Fixed(3, 0)));
  for (const char* n : {"a", "b", "c"}) c.Join(n);
  for (const char* n : {"a", "b", "c"}) c.Apply(n);
  c.Pass(absl::Seconds(5), {"a", "b", "c"});
  c.Fail("b", 7);
  c.At("a").failed_at = c.At("b").failed_at - absl::Milliseconds(1200);
  const BootTime failed_at = c.At("a").failed_at;
  v1::AgentStatus& a = c.At("a").status;
  a.set_outcome(v1::OUTCOME_FAILED);
  *a.mutable_failure()->mutable_round() = a.last().id();
  a.mutable_failure()->set_exit_code(9);
  c.Phase("a", v1::PHASE_FAILED);
  c.At("b").failed_at = failed_at + absl::Milliseconds(600);
  c.At("b").status.set_live_workers(0);
  c.Phase("b", v1::PHASE_HOST_GONE);
  c.At("b").failed_at = failed_at - absl::Milliseconds(600);
  c.Say("b");
  for (const char* n : {"a", "c"}) c.Apply(n);
  ASSERT_EQ(c.state(), State::kVerdict);
  EXPECT_EQ(c.core().verdict()->exit_code(), 7);
}

TEST(Coordinator, TooFewNodesInTimeNamesTheAbsent) {
  CoordinatorOptions options = Fixed(3);
  options.join_timeout = absl::Seconds(30);
  options.place_names = {"n0:1", "n1:1", "n2:1"};
  Cluster c(options);
  c.Join("a", 0);
  c.Pass(absl::Seconds(31), {"a"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 69);
  EXPECT_NE(c.core().verdict()->reason().find("n1:1"), std::string::npos);
  EXPECT_NE(c.core().verdict()->reason().find("n2:1"), std::string::npos);
}

TEST(Coordinator, ALeavingNodeCostsANodeLossAndNoFailure) {
  Cluster c(Elastic(1, 2));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Phase("b", v1::PHASE_LEAVING);
  EXPECT_TRUE(c.Told("a").has_stop());
  c.Apply("a");
  EXPECT_EQ(c.state(), State::kDraining) << "b's workers are still ending";
  c.At("b").status.set_live_workers(0);
  c.Say("b");
  EXPECT_TRUE(c.Told("b").has_release());
  EXPECT_EQ(c.Told("b").release().exit_code(), 75);
  ASSERT_TRUE(c.Told("a").has_run());
  EXPECT_EQ(c.Told("a").run().failures(), 0);
  EXPECT_EQ(c.Told("a").run().loss_ages_ms_size(), 1);
}

TEST(Coordinator, AllNodesHearWhyANodeLeaves) {
  Cluster c(Elastic(1, 2));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.At("b").status.set_trouble("preemption notice of gce");
  c.Phase("b", v1::PHASE_LEAVING);
  EXPECT_NE(c.Told("a").stop().cause().find("was asked to leave: preemption notice of gce"), std::string::npos);
  c.At("b").status.set_live_workers(0);
  c.Say("b");
  EXPECT_EQ(c.Told("b").release().reason(), "asked to leave: preemption notice of gce");
}

TEST(Coordinator, PeerFailuresDuringALeaveAreEchoes) {
  CoordinatorOptions options = Elastic(1, 2);
  options.max_restarts = 0;
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Phase("b", v1::PHASE_LEAVING);
  c.Fail("a", 1);                                // its peer closed the connection before the STOP came
  for (int second = 0; second < 20; ++second) {  // b saves its state
    c.Pass(absl::Seconds(1), {"a"});
    c.Say("b");
  }
  ASSERT_EQ(c.state(), State::kDraining);
  c.At("b").status.set_live_workers(0);
  c.Say("b");
  EXPECT_FALSE(c.core().verdict().has_value()) << c.core().verdict()->reason();
  ASSERT_TRUE(c.Told("a").has_run());
  EXPECT_EQ(c.Told("a").run().failures(), 0);
  EXPECT_EQ(c.Told("a").run().loss_ages_ms_size(), 1);
}

TEST(Coordinator, PeerFailuresDuringACutAreEchoes) {
  CoordinatorOptions options = Elastic(1, 2);
  options.max_restarts = 0;
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Close("b");
  c.Pass(absl::Seconds(1), {"a"});
  c.Fail("a", 1);
  c.Pass(absl::Seconds(7), {"a"});
  ASSERT_EQ(c.state(), State::kDraining) << "b's lease may still run";
  c.At("b").status.set_outcome(v1::OUTCOME_LEASE_ENDED);
  c.At("b").status.set_phase(v1::PHASE_READY);
  c.At("b").status.set_live_workers(0);
  c.Attach("b");
  c.Apply("b");
  EXPECT_FALSE(c.core().verdict().has_value()) << c.core().verdict()->reason();
  EXPECT_EQ(c.core().state(), State::kRunning);
}

TEST(Coordinator, ASucceededMembersLeaveDisturbsNothing) {
  Cluster c(Fixed(2));
  c.At("a").status.set_at_primary(true);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Phase("b", v1::PHASE_SUCCEEDED);
  c.Phase("b", v1::PHASE_LEAVING);
  ASSERT_TRUE(c.Told("b").has_release());
  c.Apply("b");
  c.Close("b");
  c.Pass(absl::Seconds(30), {"a"});
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_TRUE(c.Told("a").has_lease());
  EXPECT_EQ(c.Told("a").lease().not_after_boot_ns(), 0) << "no other member is left to be isolated from";
  c.Phase("a", v1::PHASE_SUCCEEDED);
  EXPECT_EQ(c.core().verdict().value().exit_code(), 0);
}

TEST(Coordinator, ASpentLossBudgetNamesTheLastLostNode) {
  CoordinatorOptions options = InAgent(Elastic(1, 3));
  options.max_node_losses = 1;
  Cluster c(options);
  for (const char* name : {"a", "b", "c"}) c.Join(name);
  for (const char* name : {"a", "b", "c"}) c.Apply(name);
  c.At("c").status.set_live_workers(0);
  c.Phase("c", v1::PHASE_HOST_GONE);
  for (int i = 0; i < 3; ++i) {  // STOP, WAIT, RUN
    for (const char* name : {"a", "b"}) c.Apply(name);
  }
  ASSERT_EQ(c.state(), State::kRunning);
  c.At("b").status.set_live_workers(0);
  c.Phase("b", v1::PHASE_LEAVING);
  c.Apply("a");
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_NE(c.core().verdict()->reason().find("(b)"), std::string::npos) << c.core().verdict()->reason();
}

// SIGTERM to all nodes, and the primary saves for longer than a lease. Only another node that knows of the job may
// go on without it.
TEST(Coordinator, TheLastMemberOfAllSavesBeyondALease) {
  for (const bool someone_comes : {false, true}) {
    Cluster c(Elastic(1, 2));
    c.At("a").status.set_at_primary(true);
    c.Join("a", 0);
    c.Join("b", 1);
    c.Apply("a");
    c.Apply("b");
    c.Phase("a", v1::PHASE_LEAVING);
    c.At("b").status.set_live_workers(0);
    c.Phase("b", v1::PHASE_LEAVING);
    c.Close("b");
    for (int second = 0; second < 30; ++second) {
      c.Pass(absl::Seconds(1), {});
      c.Say("a");
    }
    if (someone_comes) c.Join("b2", 1);
    c.Say("a");
    ASSERT_EQ(c.state(), State::kDraining);
    ASSERT_TRUE(c.Told("a").has_lease());
    EXPECT_EQ(c.Told("a").lease().not_after_boot_ns() != 0, someone_comes);
  }
}

TEST(Coordinator, NoRoundStartsWhileThePrimaryIsAway) {
  Cluster c(Elastic(1, 2));
  c.At("a").status.set_at_primary(true);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.At("a").status.set_live_workers(0);
  c.Phase("a", v1::PHASE_LEAVING);
  c.Apply("b");
  EXPECT_TRUE(c.Told("a").has_release());
  c.Close("a");
  c.Pass(absl::Seconds(20), {"b"});
  EXPECT_TRUE(c.Told("b").has_wait());
}

TEST(Coordinator, AnObserverIsNoMemberAndEndsWithZero) {
  Cluster c(Fixed(1, 0));
  c.Join("aux", -1, v1::ROLE_OBSERVER);
  c.Join("a", 0);
  EXPECT_EQ(c.Told("a").run().node_count(), 1);
  c.Apply("a");
  c.Fail("a", 3);
  c.Apply("a");
  EXPECT_EQ(c.Told("a").verdict().exit_code(), 3);
  EXPECT_EQ(c.Told("aux").verdict().exit_code(), 3) << "the verdict is the same for all; it exits 0 all the same";
  c.Apply("a");
  c.Apply("aux");
  EXPECT_EQ(c.Told("aux").release().exit_code(), 0);
  EXPECT_EQ(c.Told("a").release().exit_code(), 3);
}

}  // namespace
}  // namespace muster::rendezvous
