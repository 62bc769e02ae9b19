// The coordinator by itself, step by step: one test for each decision that a person could doubt.
#include "rendezvous/core/coordinator.h"

#include <gtest/gtest.h>

#include <limits>

#include "proto/base/ids.h"
#include "tests/unit/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

TEST(Coordinator, AnotherAddressFamilyIsWorthAWordUnlessBothAreOfThisMachine) {
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

TEST(Coordinator, WhereNodesHaveNoPlacesTheAbsentAreCounted) {
  Cluster c(Fixed(3));
  c.Join("a");
  ASSERT_EQ(c.Told("a").wait().absent_count(), 1);
  EXPECT_EQ(c.Told("a").wait().absent(0), "2 more nodes");
  c.Join("b");
  c.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_EQ(c.Told("a").wait().absent(0), "1 more node");
}

TEST(Coordinator, AFixedGroupStartsWhenAllPlacesAreReadyAndNotBefore) {
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

TEST(Coordinator, OfVeryManyHostsThatSpeakAtOnceOneDecisionIsMadeAndAFailureDoesNotWaitForIt) {
  constexpr int kHosts = static_cast<int>(kManyHosts) + 20;
  Cluster c(Fixed(kHosts));
  std::vector<std::string> names;
  for (int i = 0; i < kHosts; ++i) names.push_back("n" + std::to_string(i));
  for (int i = 0; i < kHosts; ++i) c.Join(names[static_cast<size_t>(i)], i);
  EXPECT_NE(c.state(), State::kRunning) << "each would have looked at all the others";
  c.Pass(kTick, {});
  ASSERT_EQ(c.state(), State::kRunning) << "the next tick at the latest";
  for (const std::string& name : names) c.Apply(name);
  c.Fail(names.back(), 7);
  EXPECT_TRUE(c.Told(names.front()).has_stop());
  for (const std::string& name : names) c.Apply(name);
  EXPECT_EQ(c.state(), State::kDraining);
  c.Pass(kTick, {});
  EXPECT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Told(names.front()).run().restart_count(), 1);
}

TEST(Coordinator, ThePrimarysOwnNodeHasALeaseWithItsFirstRunBoundedByWhatOthersEchoed) {
  Cluster c(Fixed(2));
  c.At("a").status.set_at_primary(true);
  c.Join("a", 0);
  c.Join("b", 1);
  ASSERT_TRUE(c.Told("a").has_run());
  ASSERT_TRUE(c.Told("a").has_lease());
  EXPECT_GT(c.Told("a").lease().not_after_boot_ns(), 0);
  EXPECT_EQ(c.Told("b").lease().not_after_boot_ns(), 0);
}

TEST(Coordinator, AReadinessThatNamesNoDirectiveOfThisEpochDoesNotCount) {
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

TEST(Coordinator, WithoutALeaseTheRoundThatRunsHasTimeToAnswerANewCoordinator) {
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

TEST(Coordinator, AWorkersFailureDrainsEverybodyAndRaisesTheRestartCount) {
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
  EXPECT_FALSE(c.Told("b").has_lease() && c.Told("b").has_stop()) << "nothing of it runs any more";
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
  c.Fail("b", 7);  // before a has even applied its RUN
  ASSERT_EQ(c.state(), State::kDraining);
  c.Apply("b");
  c.Say("a");  // READY still, naming the WAIT from before
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

TEST(Coordinator, ANodeWhoseWorkersCannotBeEndedHearsTheVerdictBeforeItIsReleased) {
  Cluster c(Fixed(2, 0));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Fail("a", 7);
  c.Apply("a");
  v1::AgentStatus& b = c.At("b").status;
  *b.mutable_applied() = c.Told("b").id();
  c.At("a").failed_at -= absl::Seconds(10);  // long before b was found to be unusable
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

TEST(Coordinator, NobodyIsReleasedBeforeAllHaveAcknowledgedAndThePrimaryComesLast) {
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

TEST_F(ReleasedCluster, AnAgentThatDiesWithItsReleaseOnTheWayComesBackForItAndThePrimaryWaits) {
  c_.Close("b");
  EXPECT_FALSE(c_.Told("a").has_release());
  c_.Attach("b");
  c_.Apply("b");
  EXPECT_TRUE(c_.Told("b").has_release());
  c_.Apply("b");
  c_.Close("b");
  EXPECT_TRUE(c_.Told("a").has_release());
}

TEST_F(ReleasedCluster, WhoDoesNotComeBackForItsReleaseIsWaitedForNoLongerThanTheReconnectGrace) {
  c_.Close("b");
  c_.Pass(absl::Milliseconds(1900), {"a"});
  EXPECT_FALSE(c_.Told("a").has_release());
  c_.Pass(absl::Milliseconds(300), {"a"});
  EXPECT_TRUE(c_.Told("a").has_release());
}

TEST(Coordinator, AClosedStreamProvesNothingAndDrainsAfterTheReconnectGrace) {
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
  EXPECT_TRUE(c.Told("c").has_release()) << "its agent must hear that we know, or it goes on telling us";
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
  EXPECT_EQ(c.Told("twin").wait().held_by().host_id(), "a");
  c.Join("b", 1);
  EXPECT_TRUE(c.Told("a").has_run());
  EXPECT_TRUE(c.Told("twin").has_wait());
}

TEST(Coordinator, WhoStandsByForAPlaceHasItAsSoonAsItsHolderIsGone) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("twin", 0);
  c.Phase("a", v1::PHASE_HOST_GONE);
  c.Join("b", 1);
  EXPECT_TRUE(c.Told("twin").has_run()) << "without another word of its own";
}

TEST(Coordinator, WhoWaitsIsToldWhatTheOthersDo) {
  Cluster c(InAgent(Elastic(2, 2)));
  for (const char* n : {"a", "b"}) c.Join(n);
  for (const char* n : {"a", "b"}) c.Apply(n);
  c.Join("spare");
  EXPECT_EQ(c.Told("spare").wait().reason(), "round 1 runs with 2 nodes");
  c.Fail("a", 7);
  c.Apply("spare");
  EXPECT_EQ(c.Told("spare").wait().reason(),
            "round 1 is being ended: the worker of rank 0 on a exited with code 7");
}

TEST(Coordinator, AnotherRunIdIsRefusedAndDisturbsNobody) {
  Cluster c(Fixed(1));
  auto& node = c.At("x");
  node.stream = 99;
  node.status.set_run_id("other");
  node.status.set_host_id("x");
  c.Say("x");
  EXPECT_EQ(c.Told("x").refused().exit_code(), 77);
  c.Join("a", 0);
  EXPECT_TRUE(c.Told("a").has_run());
}

TEST(Coordinator, AnotherProtocolIsRefusedWithBothNamed) {
  Cluster c(Fixed(1));
  auto& node = c.At("x");
  node.stream = 99;
  node.status.set_run_id("job");
  node.status.set_host_id("x");
  node.status.set_protocol(kProtocol + 1);
  c.Say("x");
  EXPECT_EQ(c.Told("x").refused().exit_code(), 77);
  EXPECT_NE(c.Told("x").refused().reason().find("protocol 2"), std::string::npos);
}

TEST(Coordinator, ASuccessorThatFindsTheWholeRoundRunningContinuesIt) {
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

// An agent that was cut off since the round before still tells of that one's failure, which was charged long ago.
TEST(Coordinator, WhatAnEarlierRoundFailedOfIsNotChargedToTheOneThatASuccessorFinds) {
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
  after.Pass(absl::Seconds(40), {"a"});
  ASSERT_GT(after.Told("a").run().id().number(), run.id().number());
  EXPECT_EQ(after.Told("a").run().failures(), 1);
  EXPECT_EQ(after.Said("code 7"), 0);
}

// Its success was never told: the coordinator was dead, and SIGTERM came before the next one.
TEST(Coordinator, ANodeThatLeavesAfterItsSuccessIsDoneForASuccessorToo) {
  Cluster before(Fixed(3));
  before.Join("a", 0);
  before.Join("b", 1);
  before.Join("c", 2);
  for (const char* n : {"a", "b", "c"}) before.Apply(n);
  Cluster after(Fixed(3), 43);
  for (const char* n : {"a", "b", "c"}) after.At(n) = before.At(n);
  v1::AgentStatus& leaver = after.At("c").status;
  leaver.set_phase(v1::PHASE_LEAVING);
  leaver.set_outcome(v1::OUTCOME_SUCCEEDED);
  leaver.set_live_workers(1);  // something that its workers left is being ended
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

TEST(Coordinator, ASuccessorMakesNoRoundWhileAnAbsentMemberMayHoldALease) {
  Cluster before(Elastic(1, 2));
  before.Join("a", 0);
  before.Join("b", 1);
  before.Apply("a");
  before.Apply("b");
  Cluster after(Elastic(1, 2), 43);
  after.At("a") = before.At("a");
  after.Say("a");
  after.Apply("a");
  after.Pass(absl::Seconds(11), {"a"});
  EXPECT_FALSE(after.Told("a").has_run());
  after.Pass(absl::Seconds(2), {"a"});
  ASSERT_TRUE(after.Told("a").has_run());
  EXPECT_EQ(after.Told("a").run().node_count(), 1);
  EXPECT_EQ(after.Told("a").run().id().number(), 2u);
  EXPECT_EQ(after.Told("a").run().loss_ages_ms_size(), 1);
}

// "b" was told a second round when the first coordinator died; "a", a member of both, has not heard of it.
TEST(Coordinator, ASuccessorMakesNoRoundWhileAHostMayRunOneOfWhichNobodyHereHasHeard) {
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

TEST(Coordinator, WithoutAPredecessorARoundIsMadeAsSoonAsEverybodyIsHere) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  EXPECT_TRUE(c.Told("a").has_run());
}

// The coordinator before this one may have told a round to a host that is not here, and to nobody else.
TEST(Coordinator, InAnAgentASuccessorHearsItsOwnHostBeforeItTakesNewSparesForAllThereIs) {
  CoordinatorOptions options = InAgent(Fixed(2));
  Cluster before(options);
  before.At("a").status.set_at_primary(true);
  before.Join("a");
  before.Join("b");
  before.Apply("a");
  Cluster after(options, 43);
  for (const char* spare : {"x", "y"}) after.Join(spare);
  EXPECT_EQ(after.state(), State::kRecovering) << "as many as the job needs, and none has heard of the round";
  after.At("a").status = before.At("a").status;
  after.Attach("a");
  after.Pass(absl::Seconds(5), {"a", "x", "y"});
  EXPECT_FALSE(after.Told("x").has_run());
  EXPECT_TRUE(Same(after.core().greatest().id(), before.core().greatest().id()));
}

TEST(Coordinator, WhereNodesHaveNoPlacesItsFirstRoundGivesThoseTimeToReturnWhoFollowedAnother) {
  CoordinatorOptions options = InAgent(Fixed(2));
  options.agents_return = absl::Seconds(1);
  Cluster unplaced(options);
  for (const char* name : {"a", "b"}) unplaced.Join(name);
  EXPECT_EQ(unplaced.state(), State::kRecovering);
  unplaced.Pass(absl::Milliseconds(1100), {"a", "b"});
  EXPECT_TRUE(unplaced.Told("a").has_run());
  Cluster placed(Fixed(2));
  for (int place : {0, 1}) placed.Join(place == 0 ? "a" : "b", place);
  EXPECT_TRUE(placed.Told("a").has_run()) << "who holds a place is nobody's spare";
}

TEST(Coordinator, ASuccessorWaitsBeforeItsFirstRoundThoughAllPlacesAreTaken) {
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

TEST(Coordinator, TooFewNodesInTimeIsAVerdictThatNamesTheAbsent) {
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

TEST(Coordinator, WhyANodeLeavesIsToldToAll) {
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

TEST(Coordinator, PeersThatFailAsANodeBeginsToLeaveAreItsEchoHoweverLongItTakesToEnd) {
  CoordinatorOptions options = Elastic(1, 2);
  options.max_restarts = 0;
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Phase("b", v1::PHASE_LEAVING);
  c.Fail("a", 1);                                // its peer closed the connection, and STOP was not there yet
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

TEST(Coordinator, PeersThatFailAsANodeIsCutOffAreItsEchoWhenItComesBackToo) {
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

TEST(Coordinator, AMemberThatSucceededAndLeavesNeitherDrainsTheRoundNorEndsThePrimarysLease) {
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
  EXPECT_EQ(c.Told("a").lease().not_after_boot_ns(), 0) << "there is nobody left to be isolated from";
  c.Phase("a", v1::PHASE_SUCCEEDED);
  EXPECT_EQ(c.core().verdict().value().exit_code(), 0);
}

TEST(Coordinator, ASpentBudgetOfLossesNamesTheNodeThatSpentIt) {
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

TEST(Coordinator, AfterThePrimaryHasLeftNoRoundIsMadeUntilItsReturn) {
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

TEST(Coordinator, ANodeThatCannotStartItsProgramEndsTheJobForAll) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.At("b").status.mutable_cannot_start()->set_exit_code(127);
  c.Join("b", 1);
  EXPECT_EQ(c.Told("a").verdict().exit_code(), 127);
}

TEST(Coordinator, APrimaryThatCannotStartWaitsAMomentToTellThoseWhoAreStillComing) {
  Cluster c(Fixed(2));
  c.At("a").status.set_at_primary(true);
  c.At("a").status.mutable_cannot_start()->set_exit_code(126);
  c.Join("a", 0);
  c.Apply("a");
  EXPECT_TRUE(c.Told("a").has_verdict());
  c.Pass(absl::Seconds(5), {"a"});
  EXPECT_FALSE(c.Told("a").has_release());
  c.Join("b", 1);  // which acknowledges
  ASSERT_TRUE(c.Told("b").has_release());
  EXPECT_EQ(c.Told("b").release().exit_code(), 126);
}

// ---- growing and shrinking

// Round 1 of a and b in a job of 2 to 8 nodes.
void StartTwo(Cluster* c) {
  c->Join("a");
  c->Join("b");
  c->Pass(absl::Seconds(20), {"a", "b"});  // a coordinator without memory waits for lease, margin and last call
  ASSERT_EQ(c->Told("a").run().node_count(), 2);
  c->Apply("a");
  c->Apply("b");
}

TEST(Coordinator, NodesThatComeWithinTheSettleTimeCostOneRestart) {
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

// Its peers end as they are stopped, and it sees their connections closed before it is stopped itself.
TEST(Coordinator, AWorkerThatFailsAfterTheGroupWasStoppedForNewNodesCostsNoRestart) {
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

// The exit code comes first and ends the round; the kill, a moment later, is the cause. That is no echo.
TEST(Coordinator, AKillThatFollowsAnExitCodeWithinAMomentStillCostsARestart) {
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

TEST(Coordinator, WhenNobodyElseIsWantedNoArrivalIsWaitedFor) {
  CoordinatorOptions options = Elastic(2, 3);
  options.join_settle = absl::Hours(1);
  Cluster c(options);
  StartTwo(&c);
  c.Join("c");
  EXPECT_EQ(c.state(), State::kDraining);
}

TEST(Coordinator, WithScaleUpOnRestartNewNodesAreTakenInByTheNextRestartOnly) {
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

TEST(Coordinator, WithScaleUpNeverNewNodesOnlyReplaceLostOnes) {
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

TEST(Coordinator, ARoundHasAMultipleOfTheNodeUnit) {
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

TEST(Coordinator, ASpareIsToldItsPlaceInLineAndTakesALostRankAtOnce) {
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

TEST(Coordinator, ASpareDoesNotTakeTheRankOfANodeWhoseOfferIsOnItsWay) {
  Cluster c(InAgent(Fixed(2)));
  for (const char* name : {"a", "b"}) c.Join(name);
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Join("spare");
  c.Fail("b", 1);
  c.At("a").status.clear_offer();  // a fresh one comes in a moment
  c.Apply("a");
  c.Apply("b");
  EXPECT_EQ(c.state(), State::kGathering);
  c.At("a").status.mutable_offer()->set_host("127.0.0.1");
  c.At("a").status.mutable_offer()->set_port(6000);
  c.Apply("a");
  EXPECT_TRUE(c.Told("a").has_run());
  EXPECT_FALSE(c.Told("spare").has_run());
}

TEST(Coordinator, ASpareTakesTheRankOfANodeThatFindsNoPortWithinTheReconnectGrace) {
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

// Found by simulation: spares reach a coordinator that was started again before those do who run.
TEST(Coordinator, AloneItMakesNoFirstRoundOfNodesWithoutPlacesWhileAnEarlierOneMayRun) {
  const CoordinatorOptions alone = Fixed(2);
  Cluster c(alone);
  for (const char* name : {"x", "y"}) c.Join(name);
  EXPECT_EQ(c.state(), State::kRecovering) << "nobody knows whether it was started before";
  EXPECT_EQ(
      c.Told("x").wait().reason(),
      "the coordinator has just started: for one lease, 10s, an earlier round may still run out of its reach");
  c.Pass(absl::Seconds(12), {"x", "y"});
  EXPECT_EQ(c.state(), State::kRunning);

  Cluster named(alone);
  for (int place : {0, 1}) named.Join(place == 0 ? "x" : "y", place);
  EXPECT_EQ(named.state(), State::kRunning) << "all who can be in it are here";
}

TEST(Coordinator, ChangesOfMembershipWithoutProgressEndTheJobWith93) {
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

// What it would cost is the whole job; after five minutes of a round it costs nothing.
TEST(Coordinator, TheLastChangeOfMembershipIsNotSpentOnGrowing) {
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

// It stood by for longer than the timeout before the round ended: that was not time without nodes.
TEST(Coordinator, ASpareThatHasWaitedForLongEndsNoGathering) {
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

TEST(Coordinator, ANewcomerThatDoesNotGetReadyHoldsNobodyForLongerThanTheLastCall) {
  Cluster c(Elastic(2, 4));
  StartTwo(&c);
  c.At("new").status.set_preparing("its preflight runs");
  c.Join("new");
  c.At("new").status.clear_offer();
  c.Say("new");
  c.Fail("b", 1);
  c.Pass(absl::Seconds(2), {"a", "b", "new"});
  EXPECT_EQ(c.state(), State::kGathering);
  c.Pass(absl::Seconds(4), {"a", "b", "new"});  // 5 s of last call in all
  EXPECT_EQ(c.state(), State::kRunning);
}

TEST(Coordinator, AnOwnerThatPreparesForTooLongLosesItsRankAndNotTheJob) {
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

// What the nodes said meanwhile is read after the first tick.
TEST(Coordinator, WhoWasStoppedItselfForLongerThanALeaseTakesNobodyForDead) {
  CoordinatorOptions options = Fixed(2);
  options.lease = absl::Seconds(2);
  Cluster c(options);
  StartTwo(&c);
  c.Pass(absl::Seconds(1), {"a", "b"});
  c.Jump(absl::Seconds(6));
  c.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Said("vanished"), 0);
}

// ---- budgets, pauses, bad nodes

void FailAndDrain(Cluster* c, const std::string& name) {
  c->Fail(name, 7);
  for (const char* each : {"a", "b"}) c->Apply(each);
}

TEST(Coordinator, ThreeRestartsWithoutATouchOfTheProgressFileEndTheJobWith93) {
  Cluster c(Fixed(2, 100));
  c.At("b").status.set_watches_progress(true);  // one that can see the file is enough
  c.Join("a", 0);
  c.Join("b", 1);
  const auto run = [&] {
    c.Apply("a");
    c.Apply("b");
  };
  run();
  for (int restart = 1; restart <= 2; ++restart) {
    FailAndDrain(&c, "a");
    ASSERT_EQ(c.Told("a").run().restart_count(), restart);
    run();
  }
  c.At("b").status.set_progressed(true);
  c.Apply("b");
  FailAndDrain(&c, "a");
  c.At("b").status.set_progressed(false);
  for (int restart = 0; restart < 3; ++restart) {
    EXPECT_TRUE(c.Told("a").has_run());
    run();
    FailAndDrain(&c, "a");
  }
  ASSERT_TRUE(c.Told("a").has_verdict()) << "three after the progress";
  EXPECT_EQ(c.Told("a").verdict().exit_code(), 93);
}

TEST(Coordinator, AfterTheSecondFastFailureTheNextRoundWaits) {
  CoordinatorOptions options = Fixed(2, 100);
  options.restart_delay = absl::Seconds(4);
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "a");
  ASSERT_TRUE(c.Told("a").has_run()) << "the first costs no time";
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "a");
  EXPECT_TRUE(c.Told("a").has_wait());
  c.Pass(absl::Seconds(1.5), {"a", "b"});
  EXPECT_NE(c.Told("a").wait().reason().find("the last 2 rounds failed"), std::string::npos);
  c.Pass(absl::Seconds(2.6), {"a", "b"});
  EXPECT_TRUE(c.Told("a").has_run());
}

TEST(Coordinator, ANodeThatWasTheCauseAgainAndAgainMakesRoomForASpare) {
  CoordinatorOptions options = InAgent(Fixed(2, 100));
  options.exclude_after = 2;
  options.exclude_for = absl::Seconds(60);
  Cluster c(options);
  c.Join("a");
  c.Join("b");
  c.Apply("a");
  c.Apply("b");
  c.Join("spare");
  FailAndDrain(&c, "b");
  ASSERT_TRUE(c.Told("b").has_run()) << "once is chance";
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "b");
  ASSERT_TRUE(c.Told("spare").has_run());
  EXPECT_EQ(c.Told("spare").run().node_rank(), 1);
  EXPECT_NE(c.Told("b").wait().reason().find("set aside"), std::string::npos);
  ASSERT_EQ(c.warnings().size(), 1u);
  EXPECT_NE(c.warnings()[0].find("root cause 2 times in a row"), std::string::npos);
}

TEST(Coordinator, WhatANodeIsToldOfItsWaitingDoesNotChangeWithTheClock) {
  CoordinatorOptions options = InAgent(Fixed(2, 100));
  options.exclude_after = 2;
  options.restart_delay = absl::Seconds(10);
  Cluster c(options);
  for (const char* name : {"a", "b", "spare"}) c.Join(name);
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "b");
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "b");
  ASSERT_TRUE(c.Told("a").has_wait());
  const std::string pause = c.Told("a").wait().reason(), aside = c.Told("b").wait().reason();
  EXPECT_NE(pause.find("the next one waits"), std::string::npos);
  EXPECT_NE(aside.find("set aside for 1h"), std::string::npos);
  c.Pass(absl::Seconds(3), {"a", "b", "spare"});
  EXPECT_EQ(c.Told("a").wait().reason(), pause) << "each change is a line in its log";
  EXPECT_EQ(c.Told("b").wait().reason(), aside);
}

TEST(Coordinator, WhoIsSetAsideStandsInNoLine) {
  CoordinatorOptions options = InAgent(Fixed(2, 100));
  options.exclude_after = 1;
  Cluster c(options);
  for (const char* name : {"a", "b", "x", "y"}) c.Join(name);
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "b");
  for (const char* name : {"a", "x", "y"}) c.Apply(name);
  ASSERT_TRUE(c.Told("x").has_run());
  EXPECT_EQ(c.Told("y").wait().place_in_line(), 1);
}

TEST(Coordinator, ASuccessorTakesARoundsAgeFromItsMembersThoughANewSpareSpokeFirst) {
  CoordinatorOptions options = InAgent(Fixed(2, 100));
  options.restart_delay = absl::Seconds(4);
  Cluster before(options);
  for (const char* name : {"a", "b"}) before.Join(name);
  for (const char* name : {"a", "b"}) before.Apply(name);
  FailAndDrain(&before, "a");
  for (const char* name : {"a", "b"}) before.Apply(name);
  before.At("a").status.clear_failure();
  Cluster after(options, 43);
  v1::Round* told = after.At("spare").status.mutable_last();
  *told = before.At("a").told.greatest();
  told->set_age_ms(1000);
  after.Join("spare");
  for (const char* name : {"a", "b"}) {
    after.At(name).status = before.At(name).status;
    after.At(name).status.mutable_last()->set_age_ms(3600 * 1000);
    after.Attach(name);
    after.Apply(name);
  }
  ASSERT_EQ(after.state(), State::kRunning);
  for (const char* name : {"a", "b"}) after.Apply(name);
  FailAndDrain(&after, "a");
  EXPECT_EQ(after.Told("a").run().id().number(), 3u) << "it had run for an hour: that was no fast failure";
}

TEST(Coordinator, AFailureOfWhichItHearsLateWasAsFastAsItWas) {
  CoordinatorOptions options = Fixed(2, 100);
  options.restart_delay = absl::Seconds(4);
  options.lease = absl::Minutes(5);
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "a");
  c.Apply("a");
  c.Apply("b");
  c.At("a").failed_at = FromBootNanos(1'000'000'000);
  c.Pass(absl::Seconds(90), {"b"});
  v1::AgentStatus& s = c.At("a").status;
  s.set_outcome(v1::OUTCOME_FAILED);
  *s.mutable_failure()->mutable_round() = s.last().id();
  s.mutable_failure()->set_exit_code(7);
  c.Phase("a", v1::PHASE_FAILED);
  for (const char* each : {"a", "b"}) c.Apply(each);
  EXPECT_TRUE(c.Told("a").has_wait()) << "the second fast failure";
}

TEST(Coordinator, CountsOutOfRangeAreRefused) {
  const auto told = [](const auto& set) {
    Cluster c(Fixed(2));
    v1::Round* last = c.At("a").status.mutable_last();
    last->mutable_id()->set_number(1);
    last->mutable_id()->mutable_epoch()->set_number(1);
    set(last);
    c.Join("a");
    return c.Told("a").has_refused();
  };
  EXPECT_FALSE(told([](v1::Round*) {}));
  EXPECT_TRUE(told([](v1::Round* last) { last->set_restart_count(std::numeric_limits<int32_t>::max()); }));
  EXPECT_TRUE(told([](v1::Round* last) { last->set_failures(-1); }));
  EXPECT_TRUE(told([](v1::Round* last) { last->set_node_count(-1); }));
  EXPECT_TRUE(told([](v1::Round* last) {
    for (int i = 0; i <= kMaxFailureAges; ++i) last->add_failure_ages_ms(0);
  }));
}

TEST(Coordinator, ANodeIsNotSetAsideWhereTheOthersDoNotSuffice) {
  CoordinatorOptions options = Fixed(2, 100);
  options.exclude_after = 1;
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "b");
  EXPECT_TRUE(c.Told("b").has_run());
}

// What a host says once it has found out that it is not fit for a round.
void Unfit(Cluster* c, const std::string& name) {
  v1::AgentStatus& s = c->At(name).status;
  s.clear_offer();
  s.set_live_workers(0);
  s.set_trouble("preflight failed on " + name + ": exit code 3");
  c->Phase(name, v1::PHASE_UNUSABLE);
}

void FitAgain(Cluster* c, const std::string& name) {
  v1::AgentStatus& s = c->At(name).status;
  s.mutable_offer()->set_host("127.0.0.1");
  s.mutable_offer()->set_port(7000);
  s.clear_trouble();
  c->Phase(name, v1::PHASE_READY);
}

TEST(Coordinator, ANodeThatIsNotFitIsInNoRoundAndThoseWhoWaitAreToldWhy) {
  Cluster c(Fixed(2));
  c.Join("b", 1);
  Unfit(&c, "b");
  c.Join("a", 0);
  c.Pass(absl::Seconds(20), {"a", "b"});
  ASSERT_TRUE(c.Told("a").has_wait());
  EXPECT_EQ(c.Told("a").wait().reason(), "1 of 2 nodes are ready; preflight failed on b: exit code 3");
  EXPECT_EQ(c.Told("a").wait().absent_count(), 0) << "it is here";
  EXPECT_EQ(c.Told("b").wait().reason(), "preflight failed on b: exit code 3");
  EXPECT_EQ(c.warnings().size(), 1u);
  FitAgain(&c, "b");
  c.Apply("a");
  EXPECT_TRUE(c.Told("a").has_run());
}

TEST(Coordinator, ASpareTakesTheRankOfANodeThatIsNotFitAtOnce) {
  Cluster c(InAgent(Fixed(2, 100)));
  for (const char* name : {"a", "b", "spare"}) c.Join(name);
  c.Apply("a");
  c.Apply("b");
  ASSERT_TRUE(c.Told("b").has_run());
  c.Fail("a", 7);
  c.Apply("b");
  Unfit(&c, "b");
  c.Apply("a");
  ASSERT_TRUE(c.Told("spare").has_run());
  EXPECT_EQ(c.Told("spare").run().node_rank(), 1);
  EXPECT_EQ(c.Told("spare").run().failures(), 1) << "that it was not fit afterwards cost the round nothing";
  EXPECT_EQ(c.Told("spare").run().loss_ages_ms_size(), 0);
}

TEST(Coordinator, ANodeWhosePreflightRunsKeepsItsRankFromASpare) {
  CoordinatorOptions options = InAgent(Fixed(2, 100));
  Cluster c(options);
  for (const char* name : {"a", "b", "spare"}) c.Join(name);
  c.Apply("a");
  c.Apply("b");
  c.Fail("a", 7);
  v1::AgentStatus& b = c.At("b").status;
  const v1::Endpoint offer = b.offer();
  b.clear_offer();
  b.set_preparing("its preflight runs");
  c.Apply("b");
  c.Apply("a");
  c.Pass(options.reconnect_grace + absl::Seconds(1), {"a", "b", "spare"});
  EXPECT_TRUE(c.Told("spare").has_wait());
  EXPECT_EQ(c.Told("a").wait().reason(), "2 of 2 nodes are ready; b: its preflight runs");
  b.clear_preparing();
  *b.mutable_offer() = offer;
  c.Apply("b");
  EXPECT_TRUE(c.Told("b").has_run());
  EXPECT_FALSE(c.Told("spare").has_run());
}

TEST(Coordinator, APlaceIsNotKeptForANodeThatIsNotFitIfAnotherStandsByForIt) {
  Cluster c(Fixed(2));
  c.Join("b", 1);
  Unfit(&c, "b");
  c.Join("c", 1);
  c.Join("a", 0);
  ASSERT_TRUE(c.Told("c").has_run());
  FitAgain(&c, "b");
  EXPECT_TRUE(c.Told("b").has_wait());
  EXPECT_TRUE(c.Told("b").wait().has_held_by());
}

TEST(Coordinator, WhoIsNotFitStandsInNoLine) {
  Cluster c(InAgent(Fixed(2, 100)));
  for (const char* name : {"a", "b", "x", "y"}) c.Join(name);
  c.Apply("a");
  c.Apply("b");
  Unfit(&c, "x");
  c.Apply("y");
  EXPECT_EQ(c.Told("x").wait().place_in_line(), 0);
  EXPECT_EQ(c.Told("y").wait().place_in_line(), 1);
}

TEST(Coordinator, TooFewNodesNamesThoseThatAreNotFit) {
  CoordinatorOptions options = Fixed(2);
  Cluster c(options);
  c.Join("b", 1);
  Unfit(&c, "b");
  c.Join("a", 0);
  c.Pass(options.join_timeout + absl::Seconds(20), {"a", "b"});
  ASSERT_TRUE(c.Told("a").has_release());
  EXPECT_NE(c.Told("a").release().reason().find("preflight failed on b: exit code 3"), std::string::npos);
}

TEST(Coordinator, WhoWasLateHimselfSuspectsNobody) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Close("b");
  c.Jump(absl::Seconds(5));  // we were stopped ourselves, for longer than the reconnect grace
  EXPECT_EQ(c.state(), State::kRunning);
  c.Pass(absl::Seconds(3), {"a"});
  EXPECT_EQ(c.state(), State::kDraining);
}

}  // namespace
}  // namespace muster::rendezvous
