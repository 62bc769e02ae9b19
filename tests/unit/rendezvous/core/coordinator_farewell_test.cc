// The farewell of a coordinator that ends with its node (the note that the primary's host has ended), and its use
// by the successor.
#include <gtest/gtest.h>

#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

// The main process of "a" has died, and its agent has ended all of its processes.
void EndHost(Cluster& cluster) {
  cluster.At("a").status.set_live_workers(0);
  cluster.Phase("a", v1::PHASE_HOST_GONE);
}

// Three nodes in round 1. KillMainProcess() leaves only the primary's agent of "a".
class FarewellTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* n : {"a", "b", "c"}) before_.Join(n);
    for (const char* n : {"a", "b", "c"}) before_.Apply(n);
    ASSERT_TRUE(before_.Told("c").has_run());
  }
  void KillMainProcess() { EndHost(before_); }
  // The named members attach to the next coordinator, beside the node's new host.
  void Succeed(const std::vector<std::string>& members) {
    after_.Join("new");
    after_.At("new").status.set_at_primary(true);
    for (const std::string& n : members) {
      after_.At(n) = before_.At(n);
      after_.Attach(n);
    }
    for (const std::string& n : members) after_.Apply(n);
    for (int i = 0; i < 3; ++i) {
      after_.Apply("new");
      for (const std::string& n : members) after_.Apply(n);
    }
  }
  bool Runs(const std::string& name) { return after_.Told(name).has_run(); }

  Cluster before_{InAgent(Fixed(3))};
  Cluster after_{InAgent(Fixed(3)), 43};
};

TEST_F(FarewellTest, ASuccessorDoesNotAwaitAnEndedPrimarysLease) {
  KillMainProcess();
  for (const char* n : {"b", "c"}) before_.Apply(n);
  Succeed({"b", "c"});
  ASSERT_TRUE(Runs("new"));
  const v1::Round& round = after_.Told("b").run();
  EXPECT_EQ(round.id().number(), 2u);
  EXPECT_EQ(round.node_rank(), 1) << "ranks stay";
  EXPECT_EQ(round.restart_count(), 1);
  EXPECT_EQ(round.failures(), 0);
  EXPECT_EQ(round.loss_ages_ms_size(), 1) << "counted once, as the loss of a node";
  EXPECT_EQ(after_.Said("node 0 was lost: its main process died"), 1);
  EXPECT_FALSE(round.has_primary_ended());
}

TEST_F(FarewellTest, TheAgentIsReleasedOnceTheOthersKnow) {
  KillMainProcess();
  EXPECT_TRUE(before_.Told("b").has_stop());
  EXPECT_EQ(before_.Told("b").greatest().primary_ended().node_rank(), 0);
  EXPECT_EQ(before_.Told("b").greatest().primary_ended().known_to(), 2);
  before_.Apply("b");
  before_.Say("a");
  EXPECT_FALSE(before_.Told("a").has_release());
  before_.Apply("c");
  EXPECT_TRUE(before_.Told("a").has_release());
  EXPECT_EQ(before_.Told("a").echo().seq(), before_.At("a").status.id().seq());
}

TEST_F(FarewellTest, TheAgentIsReleasedAfterTheLimit) {
  KillMainProcess();
  before_.Apply("b");
  before_.Pass(kFarewellLimit - kTick, {"b"});
  EXPECT_FALSE(before_.Told("a").has_release());
  before_.Pass(2 * kTick, {});
  EXPECT_TRUE(before_.Told("a").has_release());
}

TEST_F(FarewellTest, NoRoundStartsAfterTheFarewell) {
  KillMainProcess();
  for (const char* n : {"b", "c"}) before_.Apply(n);
  before_.Join("d");
  before_.Pass(absl::Minutes(1), {"b", "c", "d"});
  EXPECT_FALSE(before_.Told("b").has_run());
}

TEST_F(FarewellTest, TheFarewellIsSentAfterADrainToo) {
  before_.Fail("b", 1);
  for (const char* n : {"a", "b", "c"}) before_.Apply(n);
  before_.Phase("c", v1::PHASE_UNUSABLE);
  before_.Fail("b", 1);
  for (const char* n : {"a", "b"}) before_.Apply(n);
  *before_.At("c").status.mutable_applied() = before_.Told("c").id();
  before_.Say("c");
  ASSERT_EQ(before_.state(), State::kGathering);
  KillMainProcess();
  EXPECT_TRUE(before_.Told("c").greatest().has_primary_ended());
}

TEST_F(FarewellTest, AMemberWithoutTheFarewellIsAwaited) {
  KillMainProcess();
  before_.Apply("b");  // "c" has not confirmed it
  Succeed({"b", "c"});
  EXPECT_FALSE(Runs("new"));
  after_.Pass(absl::Seconds(13), {"new", "b", "c"});
  EXPECT_TRUE(Runs("new"));
}

TEST_F(FarewellTest, AMissingMemberIsAwaited) {
  KillMainProcess();
  for (const char* n : {"b", "c"}) before_.Apply(n);
  Succeed({"b"});
  after_.Join("d");
  after_.Pass(absl::Seconds(9), {"new", "b", "d"});
  EXPECT_FALSE(Runs("new"));
  after_.Pass(absl::Seconds(5), {"new", "b", "d"});
  EXPECT_TRUE(Runs("new"));
}

// A round must not begin beside workers of members that are away: it may have been given before they came.
TEST_F(FarewellTest, AFarewellThatAMemberWasNotToldIsNone) {
  before_.Apply("b");
  before_.Apply("c");
  for (const char* told : {"b", "c"}) {
    v1::PrimaryEnded* word = before_.At(told).status.mutable_last()->mutable_primary_ended();
    *word->mutable_by() = before_.core().epoch();
    word->set_known_to(1);
    Cluster after(InAgent(Fixed(3)), 43);
    after.Join("new");
    for (const char* n : {"b", "c"}) {
      after.At(n) = before_.At(n);
      after.Attach(n);
    }
    for (int i = 0; i < 3; ++i) {
      for (const char* n : {"b", "c", "new"}) after.Apply(n);
    }
    EXPECT_TRUE(after.core().job().succession.FarewellIsValid());
    EXPECT_FALSE(after.core().job().PrimaryIsKnownEnded()) << told;
    before_.At(told).status.mutable_last()->clear_primary_ended();
  }
}

// A coordinator in between may have made a round that is unknown here.
TEST_F(FarewellTest, AnInterveningCoordinatorIsAwaited) {
  KillMainProcess();
  for (const char* n : {"b", "c"}) before_.Apply(n);
  v1::Epoch* epoch = before_.At("c").status.mutable_epoch();
  epoch->set_number(epoch->number() + 1);
  Succeed({"b", "c"});
  EXPECT_FALSE(Runs("new"));
}

// An absent node that knows the round may be in a later one by now.
TEST_F(FarewellTest, NoFarewellIfAnInformedNodeIsAbsent) {
  before_.Join("spare");
  before_.Close("spare");
  KillMainProcess();
  EXPECT_FALSE(before_.Told("b").greatest().has_primary_ended());
  EXPECT_TRUE(before_.Told("a").has_release());
}

TEST_F(FarewellTest, NoFarewellIfAForgottenNodeKnewTheRound) {
  before_.Join("spare");
  before_.Close("spare");
  before_.Pass(absl::Seconds(30), {"a", "b", "c"});
  KillMainProcess();
  EXPECT_FALSE(before_.Told("b").greatest().has_primary_ended());
  EXPECT_TRUE(before_.Told("a").has_release());
}

// The node's own agent gets no answer meanwhile and repeats its status.
TEST_F(FarewellTest, TheReleaseEchoesTheAgentsNewestStatus) {
  KillMainProcess();
  before_.Apply("b");
  before_.Say("a");
  before_.Say("a");
  before_.Apply("c");
  ASSERT_TRUE(before_.Told("a").has_release());
  EXPECT_EQ(before_.Told("a").echo().seq(), before_.At("a").status.id().seq());
  before_.Say("a");
  EXPECT_EQ(before_.Told("a").echo().seq(), before_.At("a").status.id().seq())
      << "a status that was on its way is echoed too";
}

TEST_F(FarewellTest, AReconnectingAgentIsReleasedAtOnce) {
  KillMainProcess();
  before_.Close("a");
  before_.Attach("a");
  EXPECT_TRUE(before_.Told("a").has_release());
}

TEST_F(FarewellTest, ANewEpochWithdrawsTheFarewell) {
  KillMainProcess();
  before_.Apply("b");
  v1::Epoch* epoch = before_.At("c").status.mutable_epoch();
  epoch->set_number(epoch->number() + 1);
  before_.Say("c");
  EXPECT_FALSE(before_.Told("c").greatest().has_primary_ended());
  before_.Pass(kFarewellLimit + kTick, {});
  EXPECT_TRUE(before_.Told("a").has_release()) << "it ends anyway";
}

TEST_F(FarewellTest, NoFarewellForASucceededPrimary) {
  before_.Phase("a", v1::PHASE_SUCCEEDED);
  KillMainProcess();
  EXPECT_FALSE(before_.Told("b").greatest().has_primary_ended());
  EXPECT_TRUE(before_.Told("a").has_release());
}

TEST_F(FarewellTest, ObserversDoNotCountInAFarewell) {
  before_.Join("eye", -1, v1::ROLE_OBSERVER);
  before_.Join("spare");
  KillMainProcess();
  EXPECT_EQ(before_.Told("b").greatest().primary_ended().known_to(), 3);
  for (const char* n : {"b", "c", "spare"}) before_.Apply(n);
  EXPECT_TRUE(before_.Told("a").has_release());
  before_.Apply("eye");
  Succeed({"b", "c", "eye"});
  EXPECT_FALSE(Runs("new")) << "the spare is not back";
}

TEST_F(FarewellTest, AnAbsentSpareIsAwaitedToo) {
  before_.Join("spare");
  KillMainProcess();
  for (const char* n : {"b", "c", "spare"}) before_.Apply(n);
  Succeed({"b", "c"});
  EXPECT_FALSE(Runs("new"));
  after_.At("spare") = before_.At("spare");
  after_.Attach("spare");
  for (const char* n : {"spare", "b", "c"}) after_.Apply(n);
  EXPECT_TRUE(Runs("new"));
}

// The first successor may have made a round that is unknown here.
TEST_F(FarewellTest, AFarewellServesOneSuccessor) {
  KillMainProcess();
  for (const char* n : {"b", "c"}) before_.Apply(n);
  Cluster between(InAgent(Fixed(3)), 44);
  for (const char* n : {"b", "c"}) {
    between.At(n) = before_.At(n);
    between.Attach(n);
  }
  for (int i = 0; i < 2; ++i) {
    for (const char* n : {"b", "c"}) between.Apply(n);
  }
  ASSERT_EQ(between.state(), State::kGathering);
  for (const char* n : {"b", "c"}) before_.At(n) = between.At(n);
  Succeed({"b", "c"});
  EXPECT_FALSE(Runs("new"));
  after_.Pass(absl::Seconds(13), {"new", "b", "c"});
  EXPECT_TRUE(Runs("new"));
  EXPECT_EQ(after_.Told("b").run().loss_ages_ms_size(), 1);
}

TEST_F(FarewellTest, ASpentLossBudgetIsAVerdictAtOnce) {
  CoordinatorOptions options = InAgent(Fixed(3));
  options.max_node_losses = 0;
  KillMainProcess();
  for (const char* n : {"b", "c"}) before_.Apply(n);
  Cluster after(options, 43);
  for (const char* n : {"b", "c"}) {
    after.At(n) = before_.At(n);
    after.Attach(n);
  }
  for (int i = 0; i < 2; ++i) {
    for (const char* n : {"b", "c"}) after.Apply(n);
  }
  ASSERT_TRUE(after.Told("b").has_verdict());
  EXPECT_EQ(after.Told("b").verdict().exit_code(), 69);
  EXPECT_EQ(after.Told("b").verdict().reason(),
            "node 0 was lost: its main process died; no node loss is allowed (--max-node-losses)");
}

// "h" was lost before round 2 and is now in a round of a coordinator in between. The farewell of "b" and "c" is
// older than a lease by the time they reach the next coordinator.
TEST(Farewell, AnExpiredFarewellDoesNotCount) {
  Cluster before(InAgent(Elastic(2, 4)));
  for (const char* n : {"a", "b", "c", "h"}) before.Join(n);
  for (const char* n : {"a", "b", "c", "h"}) before.Apply(n);
  before.Close("h");
  before.Pass(absl::Seconds(30), {"a", "b", "c"});
  ASSERT_EQ(before.Told("b").run().node_count(), 3);
  EndHost(before);
  for (const char* n : {"b", "c"}) before.Apply(n);

  Cluster between(InAgent(Elastic(2, 4)), 43);
  between.Join("new1");
  between.At("new1").status.set_at_primary(true);
  v1::AgentStatus& h = (between.At("h") = before.At("h")).status;
  h.set_phase(v1::PHASE_READY);
  h.set_live_workers(0);
  h.set_outcome(v1::OUTCOME_LEASE_ENDED);
  between.Attach("h");
  between.Apply("h");
  between.Pass(absl::Seconds(11), {"new1", "h"});
  EXPECT_FALSE(between.Told("h").has_run());
  between.Pass(absl::Minutes(1), {"new1", "h"});
  ASSERT_TRUE(between.Told("h").has_run());

  Cluster after(InAgent(Elastic(2, 4)), 44);
  after.Join("new2");
  after.At("new2").status.set_at_primary(true);
  for (const char* n : {"b", "c"}) {
    after.At(n) = before.At(n);
    after.At(n).status.mutable_last()->mutable_primary_ended()->set_age_ms(11'000);
    after.Attach(n);
  }
  for (int i = 0; i < 4; ++i) {
    for (const char* n : {"new2", "b", "c"}) after.Apply(n);
  }
  EXPECT_FALSE(after.Told("b").has_run());
  after.Pass(absl::Seconds(13), {"new2", "b", "c"});
  EXPECT_TRUE(after.Told("b").has_run());
}

TEST_F(FarewellTest, ALatecomerDoesNotReplaceAnAbsentNode) {
  before_.Join("spare");
  before_.Apply("spare");
  KillMainProcess();
  for (const char* n : {"b", "c"}) before_.Apply(n);
  before_.Join("late");
  before_.Apply("late");
  EXPECT_FALSE(before_.Told("late").greatest().has_primary_ended());
  Succeed({"b", "c", "late"});
  EXPECT_FALSE(Runs("b"));
}

// Nodes that stand by report the farewell but do not follow this successor: the next coordinator would use their
// farewell once more.
TEST(Farewell, OnlyFollowersFarewellsCount) {
  CoordinatorOptions options = InAgent(Elastic(1, 2));
  options.scale_up = ScaleUp::kOnRestart;
  Cluster before(options);
  before.Join("a");
  before.Pass(absl::Seconds(20), {"a"});
  ASSERT_TRUE(before.Told("a").has_run());
  for (const char* n : {"c", "d"}) before.Join(n);
  EndHost(before);
  for (const char* n : {"c", "d"}) before.Apply(n);
  Cluster after(options, 43);
  after.Join("new");
  after.At("new").status.set_at_primary(true);
  for (const char* n : {"c", "d"}) {
    after.At(n) = before.At(n);
    after.Attach(n);
  }
  after.Join("e");
  for (int i = 0; i < 4; ++i) {
    for (const char* n : {"new", "e"}) after.Apply(n);
  }
  after.Pass(absl::Seconds(3), {"new", "e"});
  EXPECT_FALSE(after.Told("e").has_run());
}

// The charge and the verdict are the successor's: this node has no host left that could keep them.
TEST(Farewell, NothingIsDecidedAfterTheFarewell) {
  Cluster before(InAgent(Fixed(3, 0)));
  for (const char* n : {"a", "b", "c"}) before.Join(n);
  for (const char* n : {"a", "b", "c"}) before.Apply(n);
  before.Fail("b", 3);
  for (const char* n : {"b", "c"}) before.Apply(n);  // "a" still ends its workers
  before.Pass(absl::Seconds(3), {"b", "c"});
  EndHost(before);
  for (const char* n : {"b", "c"}) before.Apply(n);
  EXPECT_FALSE(before.Told("b").has_verdict());
  EXPECT_FALSE(before.Told("b").has_release());
  EXPECT_TRUE(before.Told("a").has_release());
}

// The workers of "b" fail with the node; the sweep takes 0.3 s, and the last confirmation another second.
TEST_F(FarewellTest, FailuresDuringASlowFarewellAreEchoes) {
  before_.Pass(absl::Seconds(20), {"a", "b", "c"});
  before_.Fail("b", 1);
  before_.Pass(3 * kTick, {});
  before_.At("a").status.set_host_gone_ms(300);
  KillMainProcess();
  for (int i = 0; i < 10; ++i) {
    before_.Apply("b");
    before_.Pass(kTick, {});
  }
  before_.Apply("c");
  after_.Pass(absl::Seconds(20) + 13 * kTick, {});  // both use one clock
  for (const char* n : {"b", "c"}) {
    v1::AgentStatus& s = before_.At(n).status;
    s.set_coordinator_silent_ms(100);
    s.mutable_last()->mutable_primary_ended()->set_age_ms(1400);
  }
  Succeed({"b", "c"});
  ASSERT_TRUE(Runs("b"));
  EXPECT_EQ(after_.Told("b").run().failures(), 0);
  EXPECT_EQ(after_.Told("b").run().loss_ages_ms_size(), 1);
}

// As above, but one status of "c" arrives 2.5 s late.
TEST_F(FarewellTest, ADelayedStatusDoesNotDateTheLossLater) {
  before_.Pass(absl::Seconds(20), {"a", "b", "c"});
  before_.Fail("b", 1);
  before_.Pass(3 * kTick, {});
  before_.At("a").status.set_host_gone_ms(300);
  KillMainProcess();
  for (const char* n : {"b", "c"}) before_.Apply(n);
  after_.Pass(absl::Seconds(20) + 3 * kTick, {});  // both use one clock
  after_.Join("new");
  after_.At("new").status.set_at_primary(true);
  for (const char* n : {"b", "c"}) {
    after_.At(n) = before_.At(n);
    v1::AgentStatus& s = after_.At(n).status;
    s.set_coordinator_silent_ms(100);
    s.mutable_last()->mutable_primary_ended()->set_age_ms(300);
  }
  after_.Attach("b");
  after_.Pass(absl::Milliseconds(2500), {"new", "b"});  // "c" sent it at once; it is read only now
  after_.Attach("c");
  for (int i = 0; i < 4; ++i)
    for (const char* n : {"new", "b", "c"}) after_.Apply(n);
  ASSERT_TRUE(after_.Told("b").has_run());
  EXPECT_EQ(after_.Told("b").run().failures(), 0);
  EXPECT_EQ(after_.Told("b").run().loss_ages_ms_size(), 1);
}

// A coordinator in between made a round 1 of three nodes that did not know the job. Of these "e" attaches to the
// successor, still running; "f" runs too, but is unreachable.
TEST_F(FarewellTest, AnUnrelatedInterveningRoundIsAwaited) {
  // c1 is not the job's first coordinator: its epoch is a later one, as after any restart.
  Cluster c1(InAgent(Fixed(3)), 42);
  c1.Join("a");
  {
    v1::AgentStatus& s = c1.At("a").status;
    s.mutable_epoch()->set_number(7);
    s.mutable_epoch()->set_random(1);
    c1.Say("a");
    c1.Apply("a");
  }
  c1.Pass(absl::Seconds(20), {"a"});
  for (const char* n : {"b", "c"}) c1.Join(n);
  for (const char* n : {"a", "b", "c"}) c1.Apply(n);
  ASSERT_TRUE(c1.Told("c").has_run());
  EndHost(c1);
  for (const char* n : {"b", "c"}) c1.Apply(n);
  ASSERT_TRUE(c1.Told("b").greatest().has_primary_ended());

  Cluster between(InAgent(Fixed(3)), 44);
  for (const char* n : {"new1", "e", "f"}) between.Join(n);
  between.At("new1").status.set_at_primary(true);
  for (int i = 0; i < 3; ++i)
    for (const char* n : {"new1", "e", "f"}) between.Apply(n);
  between.Pass(absl::Seconds(2), {"new1", "e", "f"});
  ASSERT_TRUE(between.Told("e").has_run());
  ASSERT_EQ(between.At("e").status.phase(), v1::PHASE_RUNNING);

  after_.Join("new2");
  after_.At("new2").status.set_at_primary(true);
  for (const char* n : {"b", "c"}) {
    after_.At(n) = c1.At(n);
    after_.Attach(n);
  }
  after_.At("e") = between.At("e");
  after_.Attach("e");  // its status: RUNNING, with the epoch of the one in between
  for (int i = 0; i < 4; ++i)
    for (const char* n : {"new2", "b", "c"}) after_.Apply(n);
  after_.Pass(absl::Milliseconds(2500), {"new2", "b", "c"});  // the seat of "e" is kept for the reconnect grace
  EXPECT_FALSE(after_.Told("b").has_run());
  EXPECT_EQ(after_.At("e").status.phase(), v1::PHASE_RUNNING);
}

// The successor was stopped after it had read the statuses of "b" and "c". Another coordinator took its place;
// both followed it, it made a round of other nodes and is gone. Both return to the first with the epoch that they
// followed.
TEST_F(FarewellTest, AMemberThatFollowedAnotherIsAwaited) {
  KillMainProcess();
  for (const char* n : {"b", "c"}) before_.Apply(n);
  after_.Join("new");
  after_.At("new").status.set_at_primary(true);
  for (const char* n : {"b", "c"}) {
    after_.At(n) = before_.At(n);
    after_.Attach(n);
  }
  const v1::Epoch by = before_.At("b").status.epoch();
  ASSERT_GT(Compare(after_.core().epoch(), by), 0);
  // They have received nothing from "after". The coordinator in between has the same number and a smaller random
  // part.
  v1::Epoch other = after_.core().epoch();
  other.set_random(other.random() - 1);
  for (const char* n : {"b", "c"}) {
    after_.Close(n);
    v1::AgentStatus& s = after_.At(n).status;
    *s.mutable_epoch() = other;
    *s.mutable_applied()->mutable_epoch() = other;
    after_.Attach(n);
  }
  for (int i = 0; i < 4; ++i)
    for (const char* n : {"new", "b", "c"}) after_.Apply(n);
  EXPECT_FALSE(after_.Told("b").has_run());
}

// This coordinator cannot know which other nodes know a round of an earlier coordinator.
TEST_F(FarewellTest, NoFarewellForAnotherCoordinatorsRound) {
  for (const char* n : {"a", "b", "c"}) {
    after_.At(n) = before_.At(n);
    after_.Attach(n);
  }
  for (const char* n : {"a", "b", "c"}) after_.Apply(n);
  ASSERT_EQ(after_.state(), State::kRunning);
  EndHost(after_);
  EXPECT_FALSE(after_.Told("b").greatest().has_primary_ended());
  EXPECT_TRUE(after_.Told("a").has_release());
}

TEST_F(FarewellTest, TheFarewellNamesTheRankTheCoordinatorAndTheAge) {
  before_.At("a").status.set_host_gone_ms(300);
  KillMainProcess();
  before_.Pass(absl::Milliseconds(200), {});
  before_.Say("b");
  const v1::PrimaryEnded ended = before_.Told("b").greatest().primary_ended();
  EXPECT_TRUE(ended.has_by());
  EXPECT_TRUE(Same(ended.by(), before_.core().epoch()));
  EXPECT_EQ(ended.age_ms(), 500);
  before_.Apply("b");
  before_.Apply("c");
  EXPECT_EQ(before_.Told("a").release().exit_code(), 75);
  const uint64_t released = before_.Told("a").id().seq();
  before_.Pass(absl::Seconds(2), {"b", "c"});
  EXPECT_EQ(before_.Told("a").id().seq(), released) << "once";
}

TEST(Farewell, NamesTheRankOfAPrimaryThatIsNotTheFirstNode) {
  Cluster c(InAgent(Fixed(3)));
  c.At("a").status.set_at_primary(true);
  c.Join("b", 0);
  c.Join("c", 1);
  c.Join("a", 2);
  for (const char* n : {"a", "b", "c"}) c.Apply(n);
  ASSERT_EQ(c.Told("a").run().node_rank(), 2);
  EndHost(c);
  EXPECT_EQ(c.Told("b").greatest().primary_ended().node_rank(), 2);
}

}  // namespace
}  // namespace muster::rendezvous
