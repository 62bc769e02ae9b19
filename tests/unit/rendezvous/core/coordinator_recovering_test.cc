// How a coordinator recovers a round of another coordinator: one test for each rule.
#include <gtest/gtest.h>

#include "rendezvous/core/drain.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

// Nodes a and b run round 1 when its coordinator ends; they attach to the next one.
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
  // The node holds the verdict of a coordinator that ended before it released any node.
  void HoldVerdict(const std::string& name, v1::Phase phase, int live_workers) {
    Left(name).mutable_verdict()->set_exit_code(3);
    Left(name).set_phase(phase);
    Left(name).set_outcome(v1::OUTCOME_STOPPED);
    Left(name).set_live_workers(live_workers);
  }

  Cluster before_{Fixed(2)};
  Cluster after_{Fixed(2), 43};
};

// The RUN of round 2 reached only "b": "a" will never be in it.
TEST_F(RecoveringTest, ARoundUnknownToAMemberEndsAtOnce) {
  Left("b").mutable_last()->mutable_id()->set_number(2);
  Return("b");
  ASSERT_EQ(after_.state(), State::kRecovering);
  Return("a");
  EXPECT_EQ(after_.state(), State::kDraining);
  EXPECT_TRUE(after_.Told("a").has_stop());
}

// Nor if it runs nothing any more.
TEST_F(RecoveringTest, ARoundUnknownToAMemberThatHasStoppedEndsAtOnce) {
  Left("b").mutable_last()->mutable_id()->set_number(2);
  Return("b");
  Left("a").set_phase(v1::PHASE_READY);
  Left("a").set_outcome(v1::OUTCOME_STOPPED);
  Left("a").set_live_workers(0);
  Return("a");
  EXPECT_EQ(after_.state(), State::kDraining);
  EXPECT_EQ(after_.Said("a member of the round was never told to start it"), 1);
}

// The same if "a" attaches first: the older round is ended until "b" names the newest.
TEST_F(RecoveringTest, ARoundUnknownToTheFirstMemberEndsAtOnce) {
  Left("a").set_phase(v1::PHASE_READY);
  Left("a").set_outcome(v1::OUTCOME_STOPPED);
  Left("a").set_live_workers(0);
  Return("a");
  ASSERT_EQ(after_.state(), State::kDraining);
  Left("b").mutable_last()->mutable_id()->set_number(2);
  Return("b");
  after_.Apply("a");
  EXPECT_EQ(after_.state(), State::kDraining);
  EXPECT_TRUE(after_.Told("b").has_stop());
  EXPECT_EQ(after_.Said("a member of the round was never told to start it"), 1);
}

TEST_F(RecoveringTest, ADrainNamesTheEarlierRoundItAwaits) {
  before_.Fail("b", 1);
  Return("b");
  Return("a");
  ASSERT_EQ(after_.state(), State::kDraining);
  after_.Pass(absl::Seconds(2), {"a", "b"});
  EXPECT_EQ(after_.state(), State::kDraining);
  EXPECT_EQ(after_.Said("before the next one: this coordinator has just started"), 1);
}

TEST_F(RecoveringTest, ANodeIsToldHowLongTheOthersMayTakeToReturn) {
  Return("a");
  ASSERT_EQ(after_.state(), State::kRecovering);
  EXPECT_EQ(after_.Told("a").wait().reason(),
            "the coordinator is recovering round 1; its members have 11.1s (--lease) to reconnect");
}

// A round of a (the primary), b, c and d. The platform has replaced the primary by "new", whose coordinator hears
// of the round from some of the others only.
class ReplacedPrimaryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int place = 0;
    before_.At("a").status.set_at_primary(true);
    for (const char* n : {"a", "b", "c", "d"}) before_.Join(n, place++);
    for (const char* n : {"a", "b", "c", "d"}) before_.Apply(n);
    ASSERT_EQ(before_.state(), State::kRunning);
    after_.At("new").status.set_at_primary(true);
    after_.Join("new", 0);
  }
  void Return(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      after_.At(name) = before_.At(name);
      after_.Attach(name);
      after_.Apply(name);
    }
  }
  // Whether the next round has begun after so long.
  bool RunsAfter(absl::Duration time, std::vector<std::string> here) {
    here.emplace_back("new");
    after_.Pass(time, here);
    return after_.Told("c").run().id().number() > 1;
  }
  static CoordinatorOptions Options() {
    CoordinatorOptions options = InAgent(Elastic(2, 4));
    options.last_call = absl::ZeroDuration();
    options.rejoin_timeout = absl::ZeroDuration();
    return options;
  }

  const absl::Duration lease_ = Options().lease + Options().margin();
  Cluster before_{InAgent(Fixed(4))};
  Cluster after_{Options(), 43};
};

// Its own lease has ended: no other member echoes what its coordinator says.
TEST_F(ReplacedPrimaryTest, OfThePrimaryAloneOneLeaseIsAwaited) {
  Return({"b", "c", "d"});
  EXPECT_FALSE(RunsAfter(lease_ - absl::Seconds(1), {"b", "c", "d"}));
  EXPECT_TRUE(RunsAfter(absl::Seconds(3), {"b", "c", "d"}));
}

// The old primary may be cut off together with b: it answers b until it notices that c and d are away, and then
// gives it a grace period.
TEST_F(ReplacedPrimaryTest, WithAnotherMemberItMayHaveGoneOn) {
  Return({"c", "d"});
  EXPECT_FALSE(RunsAfter(2 * lease_ + Options().shutdown_grace - absl::Seconds(1), {"c", "d"}));
  EXPECT_TRUE(RunsAfter(absl::Seconds(3), {"c", "d"}));
}

// Its node failed the preflight, say: then no member's lease says anything about it.
TEST_F(ReplacedPrimaryTest, ThatWasNoMemberMayHaveGoneOnWithOne) {
  for (const char* n : {"a", "c", "d"}) before_.At(n).status.mutable_last()->clear_coordinator_rank();
  Return({"a", "c", "d"});
  EXPECT_FALSE(RunsAfter(2 * lease_ + Options().shutdown_grace - absl::Seconds(1), {"a", "c", "d"}));
  EXPECT_TRUE(RunsAfter(absl::Seconds(3), {"a", "c", "d"}));
}

TEST_F(ReplacedPrimaryTest, WhoseHostIsBackHasNotGoneOn) {
  before_.At("a").status.set_at_primary(false);
  Return({"a", "c", "d"});
  EXPECT_TRUE(RunsAfter(lease_ + absl::Seconds(2), {"a", "c", "d"}));
}

TEST_F(ReplacedPrimaryTest, AMemberThatComesLateMayHoldALeaseOfIt) {
  Return({"c", "d"});
  ASSERT_FALSE(RunsAfter(2 * lease_ + Options().shutdown_grace - absl::Seconds(1), {"c", "d"}));
  after_.At("b") = before_.At("b");
  after_.Attach("b");
  EXPECT_FALSE(RunsAfter(lease_ - absl::Seconds(1), {"c", "d"}));
  EXPECT_TRUE(RunsAfter(absl::Seconds(3), {"c", "d"}));
}

TEST(RecoveringInAnAgent, ACancellationWaitsForTheOwnHostWhichMayKnowTheVerdict) {
  for (const bool knows : {true, false}) {
    Cluster after(InAgent(Fixed(2)), 43);
    after.At("b").status.set_cancelled(true);
    after.At("b").status.set_phase(v1::PHASE_LEAVING);
    after.Join("b", 1);
    EXPECT_FALSE(after.core().verdict().has_value());
    after.At("a").status.set_at_primary(true);
    if (knows) after.At("a").status.mutable_verdict()->set_exit_code(0);
    after.Join("a", 0);
    ASSERT_TRUE(after.core().verdict().has_value());
    EXPECT_EQ(after.core().verdict()->exit_code(), knows ? 0 : 130);
  }
}

// It was cut off together with b as it made the first round, so no RUN has reached c and d.
TEST_F(ReplacedPrimaryTest, ThatWasCutOffInItsFirstRoundMayGoOn) {
  for (const char* n : {"c", "d"}) {
    before_.At(n).status.clear_last();
    before_.At(n).status.set_phase(v1::PHASE_READY);
    before_.At(n).status.set_live_workers(0);
  }
  Return({"c", "d"});
  after_.Pass(absl::Seconds(1), {"c", "d", "new"});
  EXPECT_THAT(after_.Told("c").wait().reason(),
              testing::HasSubstr("(--lease, --shutdown-timeout) for workers of an earlier start"));
  after_.Pass(2 * lease_ + Options().shutdown_grace - absl::Seconds(2), {"c", "d", "new"});
  EXPECT_FALSE(after_.Told("c").has_run());
  after_.Pass(absl::Seconds(3), {"c", "d", "new"});
  EXPECT_TRUE(after_.Told("c").has_run());
}

// It was cut off together with a newcomer as it made the round after this one, which had been drained to let it
// in.
TEST_F(ReplacedPrimaryTest, ThatWasCutOffInTheNextRoundMayGoOn) {
  int rank = 1;  // after that of a
  for (const char* n : {"c", "d"}) {
    v1::AgentStatus& status = before_.At(n).status;
    status.mutable_last()->set_node_count(3);
    status.mutable_last()->set_node_rank(rank++);
    status.set_phase(v1::PHASE_READY);
    status.set_outcome(v1::OUTCOME_STOPPED);
    status.set_live_workers(0);
  }
  Return({"c", "d"});
  EXPECT_FALSE(RunsAfter(2 * lease_ + Options().shutdown_grace - absl::Seconds(1), {"c", "d"}));
  EXPECT_TRUE(RunsAfter(absl::Seconds(3), {"c", "d"}));
}

// The separate coordinator that was replaced may still answer b.
TEST_F(RecoveringTest, ASeparateCoordinatorMayHaveGoneOnWithAMissingMember) {
  const CoordinatorOptions& options = after_.core().job().options;
  Left("a").set_live_workers(0);
  Left("a").set_phase(v1::PHASE_READY);
  Return("a");
  ASSERT_EQ(after_.state(), State::kDraining);
  const absl::Duration noticed = options.lease + options.margin();
  EXPECT_EQ(PredecessorsLeasesEnd(after_.core().job()) - after_.core().job().began,
            2 * noticed + options.shutdown_grace);
  Return("b");
  EXPECT_EQ(PredecessorsLeasesEnd(after_.core().job()) - after_.core().job().began, noticed);
}

// Nodes a and b run the newest round of a job of up to four nodes. "c" was cut off when that round was made, and
// is the first to attach to the next coordinator.
class CutOffTest : public ::testing::Test {
 protected:
  void SetUp() override {
    StartTwo(&before_);
    before_.Join("c");
    before_.Pass(absl::Seconds(1), {"a", "b", "c"});
    ASSERT_EQ(before_.Told("c").run().node_count(), 3);
    after_.At("c") = before_.At("c");
    before_.Close("c");
    before_.Pass(absl::Seconds(20), {"a", "b"});
    ASSERT_EQ(before_.Told("a").run().node_count(), 2);
  }

  void ReturnCutOff() {
    after_.At("c").status.set_phase(v1::PHASE_READY);
    after_.At("c").status.set_outcome(v1::OUTCOME_STOPPED);
    after_.At("c").status.set_live_workers(0);
    Return("c");
    ASSERT_EQ(after_.state(), State::kDraining) << "it drains the only round that it knows";
  }
  void ReturnMember(const std::string& name) {
    after_.At(name) = before_.At(name);
    Return(name);
  }
  void Return(const std::string& name) {
    after_.Attach(name);
    after_.Apply(name);
  }
  // The round runs on until it grows by the new nodes.
  void ExpectTheRoundGoesOn() {
    EXPECT_EQ(after_.Said("all members of the round are back"), 1);
    EXPECT_EQ(after_.core().greatest().id().number(), before_.core().greatest().id().number());
  }

  Cluster before_{Elastic(2, 4)};
  Cluster after_{Elastic(2, 4), 43};
};

TEST_F(CutOffTest, AMemberOfAnOlderRoundEndsNoHealthyOne) {
  ReturnCutOff();
  ReturnMember("a");
  after_.Pass(absl::Seconds(8), {"a", "c"});
  ReturnMember("b");
  ExpectTheRoundGoesOn();
}

// A spare knows the round without being in it, and the members may return later than the reconnect grace.
TEST_F(CutOffTest, ASpareNamingTheRoundGivesMembersTime) {
  ReturnCutOff();
  after_.Pass(absl::Seconds(4), {"c"});
  *after_.At("s").status.mutable_last() = before_.core().greatest();
  after_.Join("s");
  EXPECT_EQ(after_.state(), State::kRecovering);
  after_.Pass(absl::Seconds(8), {"c", "s"});
  ReturnMember("a");
  ReturnMember("b");
  ExpectTheRoundGoesOn();
}

TEST_F(CutOffTest, ANodeRunningAnOlderRoundEndsTheNewest) {
  ReturnMember("a");
  Return("c");
  after_.At("c").status.mutable_last()->CopyFrom(before_.Told("c").run());
  after_.Say("c");
  EXPECT_EQ(after_.state(), State::kDraining);
}

TEST_F(RecoveringTest, ADrainWaitsForWorkersOfAnOlderRound) {
  Return("a");
  after_.Pass(absl::Seconds(5), {"a"});
  ASSERT_TRUE(after_.Told("a").has_lease()) << "it may be a member of the newest round";
  Left("b").mutable_last()->mutable_id()->set_number(2);
  Left("b").mutable_last()->set_node_count(1);
  Left("b").mutable_last()->set_node_rank(0);
  Return("b");
  ASSERT_EQ(after_.state(), State::kDraining);
  for (int second = 0; second < 8; ++second) {  // by then no other lease of the earlier round is left
    after_.Pass(absl::Seconds(1), {"b"});
    after_.Say("a");
  }
  EXPECT_EQ(after_.state(), State::kDraining);
  after_.Apply("a");
  EXPECT_NE(after_.state(), State::kDraining);
}

// An absent member may have succeeded while it was cut off.
TEST_F(RecoveringTest, AnAbsentMemberIsAwaitedAfterASuccess) {
  before_.Phase("a", v1::PHASE_SUCCEEDED);
  Return("a");
  after_.Pass(absl::Minutes(2), {"a"});
  EXPECT_EQ(after_.state(), State::kRecovering);
  before_.Phase("b", v1::PHASE_SUCCEEDED);
  Return("b");
  ASSERT_TRUE(after_.core().verdict().has_value());
  EXPECT_EQ(after_.core().verdict()->exit_code(), 0);
}

// The primary may be cut off together with the coordinator on its machine.
TEST_F(RecoveringTest, PrimaryHasNoLeaseBeforeAnotherMemberAnswers) {
  Left("a").set_at_primary(true);
  Return("a");
  EXPECT_FALSE(after_.Told("a").has_lease());
  Return("b");
  EXPECT_TRUE(after_.Told("a").has_lease());
}

TEST_F(RecoveringTest, ALaterCoordinatorsRoundReplacesOurs) {
  Left("b").mutable_epoch()->set_number(7);
  Left("b").mutable_last()->mutable_id()->set_number(2);
  *Left("b").mutable_last()->mutable_id()->mutable_epoch() = Left("b").epoch();
  before_.Close("a");  // what still runs here was not ended by the later coordinator
  before_.Say("b");
  EXPECT_EQ(before_.state(), State::kRecovering);
  EXPECT_EQ(before_.core().greatest().id().number(), 2u);
}

TEST_F(RecoveringTest, MemberKeepsItsPlaceFromANewNodeThatCameFirst) {
  after_.Join("b2", 1);
  Return("b");
  after_.Apply("b2");
  EXPECT_EQ(after_.Told("b2").wait().held_by().process(), "b");
}

TEST_F(RecoveringTest, AFoundVerdictIsKeptForAbsentMembers) {
  HoldVerdict("a", v1::PHASE_READY, 0);
  Return("a");
  after_.Apply("a");
  EXPECT_EQ(after_.state(), State::kVerdict) << "b must get it too";
  after_.Pass(absl::Seconds(12), {"a"});
  EXPECT_EQ(after_.state(), State::kReleasing);
}

TEST_F(RecoveringTest, NobodyIsReleasedWhileWorkersEnd) {
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
