// What a coordinator believes of a round and of a success that it did not see itself.
#include "absl/strings/str_cat.h"
#include "rendezvous/core/testimony.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

const std::vector<std::string> kAll = {"a", "b", "c"};

// Nodes a, b and c run a round when its coordinator ends, and attach to the next one. "a" is not in that one's
// process unless a test says so: the coordinator is a separate one, or its machine was replaced.
class TestimonyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int place = 0;
    for (const std::string& name : kAll) before_.Join(name, place++);
    for (const std::string& name : kAll) before_.Apply(name);
    ASSERT_EQ(before_.state(), State::kRunning);
    for (const std::string& name : kAll) after_.At(name) = before_.At(name);
  }

  v1::AgentStatus& Status(const std::string& name) { return after_.At(name).status; }
  void MakePrimary(const std::string& name) { Status(name).set_at_primary(true); }
  void Succeeds(const std::string& name) {
    Status(name).set_phase(v1::PHASE_SUCCEEDED);
    Status(name).set_live_workers(0);
    Status(name).set_outcome(v1::OUTCOME_SUCCEEDED);
  }
  void IsStopped(const std::string& name) {
    Status(name).set_phase(v1::PHASE_READY);
    Status(name).set_live_workers(0);
    Status(name).set_outcome(v1::OUTCOME_LEASE_ENDED);
  }
  void CarriesSuccess(const std::string& name) {
    Succeeds(name);
    Status(name).mutable_verdict()->set_exit_code(0);
    Status(name).mutable_verdict()->set_digest(7);
  }
  void Return(const std::string& name) {
    after_.Attach(name);
    after_.Apply(name);
  }
  // A node that nobody has seen, with a round of its own.
  v1::AgentStatus& Invent(const std::string& name, const v1::Round& round) {
    v1::AgentStatus& status = Status(name);
    status = before_.At("c").status;
    status.set_host_id(name);
    status.set_hostname(name);
    status.clear_place();
    *status.mutable_last() = round;
    return status;
  }
  v1::Round LaterRoundOf(const std::string& name) {
    v1::Round round = before_.At("c").status.last();
    round.mutable_id()->set_number(round.id().number() + 1);
    round.set_node_rank(0);
    round.set_node_count(1);
    round.set_members(MembersDigest({{0, name}}));
    return round;
  }
  bool HasSucceeded() const { return after_.core().verdict() && after_.core().verdict()->exit_code() == 0; }

  Cluster before_{Fixed(3)};
  Cluster after_{Elastic(1, 3), 43};
};

TEST_F(TestimonyTest, WhatThePrimarysOwnHostConfirmsIsBelievedAtOnce) {
  MakePrimary("a");
  for (const std::string& name : kAll) Succeeds(name);
  for (const std::string& name : kAll) Return(name);
  EXPECT_TRUE(HasSucceeded());
}

TEST_F(TestimonyTest, WithoutItTheSuccessIsBelievedOnceEveryNodeHadTimeToReturn) {
  for (const std::string& name : kAll) Succeeds(name);
  for (const std::string& name : kAll) Return(name);
  after_.Pass(absl::Seconds(10), kAll);
  EXPECT_FALSE(HasSucceeded());
  after_.Pass(absl::Seconds(2), kAll);
  EXPECT_TRUE(HasSucceeded());
}

// Nobody waits for that while workers run.
TEST_F(TestimonyTest, TheRoundGoesOnAtOnceWithoutIt) {
  for (const std::string& name : kAll) Return(name);
  EXPECT_EQ(after_.state(), State::kRunning);
}

// The members of the real round are away, and run on under their leases.
TEST_F(TestimonyTest, NoRoundFollowsAnInventedOneBeforeTheLeasesOfTheAbsentHaveEnded) {
  Invent("liar", LaterRoundOf("liar"));
  Return("liar");
  ASSERT_EQ(after_.state(), State::kRunning);
  after_.Join("new", 1);
  Status("liar").set_phase(v1::PHASE_FAILED);
  Status("liar").set_live_workers(0);
  after_.Say("liar");
  after_.Apply("liar");
  after_.Pass(absl::Seconds(10), {"liar", "new"});
  EXPECT_FALSE(after_.Told("new").has_run());
  after_.Pass(absl::Seconds(10), {"liar", "new"});
  EXPECT_TRUE(after_.Told("new").has_run());
}

TEST_F(TestimonyTest, AnInventedRoundThatSucceededIsDoubtedWhileANodeRunsAnotherOne) {
  Invent("liar", LaterRoundOf("liar"));
  Succeeds("liar");
  Return("liar");
  for (const std::string& name : kAll) Return(name);
  std::vector<std::string> beating = kAll;
  beating.emplace_back("liar");
  after_.Pass(absl::Seconds(30), beating);
  EXPECT_FALSE(HasSucceeded());
  EXPECT_EQ(after_.Said("the nodes disagree about round 2: a runs another one"), 1);
}

// The leases of all have ended: the coordinator was away for minutes.
TEST_F(TestimonyTest, AnInventedRoundThatSucceededIsDoubtedWhileANodeKnowsOnlyAnEarlierOne) {
  Invent("liar", LaterRoundOf("liar"));
  Succeeds("liar");
  Return("liar");
  IsStopped("b");
  Return("b");
  after_.Pass(absl::Seconds(12), {"b", "liar"});
  EXPECT_FALSE(HasSucceeded());
  EXPECT_EQ(after_.Said("the nodes disagree about round 2: b knows nothing of it"), 1);
  after_.Pass(absl::Seconds(40), {"b", "liar"});
  EXPECT_TRUE(after_.core().job().MadeItsRound()) << "the job goes on with whoever is here";
  EXPECT_GT(after_.core().greatest().id().number(), 2u);
}

// What nobody contradicts is all that is known: docs/security.md says so.
TEST_F(TestimonyTest, ALoneWitnessIsBelieved) {
  Invent("witness", LaterRoundOf("witness"));
  Succeeds("witness");
  Return("witness");
  after_.Pass(absl::Seconds(11), {"witness"});
  EXPECT_FALSE(HasSucceeded());
  after_.Pass(absl::Seconds(2), {"witness"});
  EXPECT_TRUE(HasSucceeded());
}

TEST_F(TestimonyTest, AStrangerToTheRoundReportsNoMembersSuccess) {
  MakePrimary("a");
  for (const char* name : {"a", "b"}) Succeeds(name);
  for (const char* name : {"a", "b"}) Return(name);
  Invent("liar", before_.At("c").status.last());
  Succeeds("liar");
  Return("liar");
  after_.Pass(absl::Seconds(1), {"a", "b", "liar"});
  EXPECT_FALSE(HasSucceeded());
  EXPECT_EQ(after_.Said("the nodes disagree about round 1: its members are not those that report to be"), 1);
}

TEST_F(TestimonyTest, ARoundIsToldOnOnlyOnceItIsBelieved) {
  Return("a");
  EXPECT_FALSE(after_.Told("a").has_greatest());
  after_.Pass(absl::Seconds(12), {"a"});
  EXPECT_TRUE(after_.Told("a").has_greatest());
}

// ---- a verdict that a node brings ---------------------------------------------------------------------------

TEST_F(TestimonyTest, ASuccessOfThePrimarysOwnHostEndsTheJobAtOnce) {
  MakePrimary("a");
  CarriesSuccess("a");
  Return("a");
  EXPECT_TRUE(HasSucceeded());
}

TEST_F(TestimonyTest, ACarriedSuccessIsBelievedOnceEveryNodeHadTimeToReturn) {
  CarriesSuccess("b");
  Succeeds("c");
  for (const char* name : {"b", "c"}) Return(name);
  after_.Pass(absl::Seconds(11), {"b", "c"});
  EXPECT_FALSE(HasSucceeded());
  after_.Pass(absl::Seconds(2), {"b", "c"});
  EXPECT_TRUE(HasSucceeded());
}

TEST_F(TestimonyTest, ACarriedSuccessThatARunningNodeContradictsIsRefusedAndTheRoundGoesOn) {
  CarriesSuccess("c");
  Status("c").clear_last();
  Return("c");
  for (const char* name : {"a", "b"}) Return(name);
  after_.Pass(absl::Seconds(1), kAll);
  EXPECT_EQ(after_.Told("c").refused().reason(),
            "reports that the job has succeeded, which other nodes contradict")
      << "at once, so that it delays no decision";
  EXPECT_EQ(after_.Said("a node reports that the job has succeeded, but a contradicts it"), 1);
  EXPECT_TRUE(after_.Told("a").has_lease());
  EXPECT_EQ(Status("a").phase(), v1::PHASE_RUNNING);
  after_.Pass(absl::Seconds(12), kAll);
  EXPECT_FALSE(after_.core().verdict().has_value());
}

// They know the job, and do not contradict.
TEST_F(TestimonyTest, SparesOfThePredecessorDoNotMakeASuccessDoubtful) {
  for (const std::string& name : kAll) Succeeds(name);
  for (const char* name : {"d", "e", "f"}) {
    v1::AgentStatus& spare = Invent(name, before_.At("c").status.last());
    spare.mutable_last()->clear_node_rank();
    spare.set_phase(v1::PHASE_READY);
    spare.set_live_workers(0);
    spare.set_outcome(v1::OUTCOME_TOLD);
    after_.Attach(name);
  }
  for (const std::string& name : kAll) Return(name);
  after_.Pass(absl::Seconds(15), {"a", "b", "c", "d", "e", "f"});
  EXPECT_TRUE(HasSucceeded());
}

// Also those below the true round, before its members have come.
TEST_F(TestimonyTest, InventedRoundsDoNotShutTheTrueOneOut) {
  v1::AgentStatus& liar = Invent("liar", before_.At("c").status.last());
  liar.set_phase(v1::PHASE_READY);
  liar.set_live_workers(0);
  liar.mutable_last()->clear_node_rank();
  liar.mutable_last()->mutable_id()->clear_epoch();
  after_.Attach("liar");
  for (int i = 0; i < 2 * kMaxRoundsHeard; ++i) {
    liar.mutable_last()->mutable_id()->mutable_epoch()->set_random(static_cast<uint64_t>(i));
    after_.Say("liar");
  }
  for (const std::string& name : kAll) Return(name);
  EXPECT_EQ(after_.state(), State::kRunning);
  EXPECT_TRUE(Same(after_.core().greatest().id(), before_.core().greatest().id()));
}

// At a job's first start, too: nobody is here who could know better.
TEST_F(TestimonyTest, NoSuccessIsBelievedWhereAWholeJobsNodesAreNew) {
  for (const bool carried : {false, true}) {
    Cluster fresh(Elastic(1, 3), 44);
    v1::AgentStatus& liar = fresh.At("liar").status;
    liar = before_.At("c").status;
    liar.set_host_id("liar");
    liar.clear_place();
    liar.clear_epoch();
    *liar.mutable_last() = LaterRoundOf("liar");
    liar.set_phase(v1::PHASE_SUCCEEDED);
    liar.set_live_workers(0);
    liar.set_outcome(v1::OUTCOME_SUCCEEDED);
    if (carried) {
      liar.mutable_verdict()->set_exit_code(0);
      liar.mutable_verdict()->set_digest(7);
    }
    for (const char* name : {"x", "y", "z"}) fresh.Join(name);
    fresh.Attach("liar");
    fresh.Pass(absl::Seconds(40), {"x", "y", "z", "liar"});
    EXPECT_FALSE(fresh.core().verdict().has_value());
    EXPECT_EQ(fresh.state(), State::kRunning) << carried;
  }
}

// One key after the other has a part in it.
TEST_F(TestimonyTest, TheMembersOfAnInventedRoundAreAwaitedForALimitedTime) {
  for (const std::string& name : kAll) IsStopped(name);
  for (const std::string& name : kAll) Return(name);
  v1::Round round = LaterRoundOf("liar");
  round.set_node_count(1'000);
  const int most = static_cast<int>((kMembersReturn + absl::Minutes(1)) / absl::Seconds(5));
  int rank = 0;
  for (; rank < most && (rank == 0 || after_.state() == State::kRecovering); ++rank) {
    round.set_node_rank(rank);
    const std::string name = absl::StrCat("liar", rank);
    Invent(name, round);
    after_.Attach(name);
    after_.Pass(absl::Seconds(5), kAll);
  }
  EXPECT_LT(rank, most);
}

// A node may invent a later round each time that the coordinator has waited for the members of the one before.
class InventedRoundsTest : public TestimonyTest {
 protected:
  // How often the liar told of one, each changed by `change`, before the job ran.
  template <typename Change>
  int TellLaterRounds(v1::AgentStatus* liar, Change change) {
    int told = 0;
    while (after_.state() != State::kRunning && ++told < 10 * kMaxRoundsHeard) {
      *liar->mutable_last() = LaterRoundOf("liar");
      change(liar->mutable_last());
      liar->mutable_last()->mutable_id()->set_number(uint64_t{100} + static_cast<uint64_t>(told));
      after_.Say("liar");
      after_.Pass(absl::Seconds(5), kAll);
      for (const std::string& name : kAll) after_.Apply(name);
    }
    return told;
  }
};

TEST_F(InventedRoundsTest, KeepTheJobWaitingForALimitedTime) {
  for (const std::string& name : kAll) IsStopped(name);
  for (const std::string& name : kAll) Return(name);
  v1::AgentStatus& liar = Invent("liar", LaterRoundOf("liar"));
  liar.clear_last();
  liar.set_phase(v1::PHASE_READY);
  liar.set_live_workers(0);
  liar.set_outcome(v1::OUTCOME_NONE);
  after_.Attach("liar");
  EXPECT_LT(TellLaterRounds(&liar, [](v1::Round* round) { round->clear_node_rank(); }), 2 * kMaxRoundsHeard);
}

// The liar may say each time that it runs the round, and that another member is still to come.
TEST_F(InventedRoundsTest, WithInventedMembersKeepItWaitingForALimitedTimeToo) {
  for (const std::string& name : kAll) IsStopped(name);
  for (const std::string& name : kAll) Return(name);
  v1::AgentStatus& liar = Invent("liar", LaterRoundOf("liar"));
  liar.set_phase(v1::PHASE_RUNNING);
  liar.set_live_workers(1);
  liar.set_outcome(v1::OUTCOME_RAN);
  after_.Attach("liar");
  EXPECT_LT(TellLaterRounds(&liar, [](v1::Round* round) { round->set_node_count(2); }), 3 * kMaxRoundsHeard);
}

TEST_F(TestimonyTest, NoRoundBeginsWhileACarriedSuccessIsWeighed) {
  IsStopped("a");
  CarriesSuccess("c");
  for (const char* name : {"a", "c"}) Return(name);
  after_.Pass(absl::Seconds(11), {"a", "c"});
  EXPECT_FALSE(after_.Told("a").has_run());
  after_.Pass(absl::Seconds(2), {"a", "c"});
  EXPECT_FALSE(HasSucceeded());
  after_.Pass(absl::Minutes(1), {"a"});
  EXPECT_TRUE(after_.Told("a").has_run());
  EXPECT_EQ(after_.Told("a").run().node_count(), 1) << "whoever brought the success is refused";
}

// As a Ctrl-C there would do.
TEST_F(TestimonyTest, ACarriedFailureIsBelievedAtOnce) {
  Status("c").mutable_verdict()->set_exit_code(3);
  Return("c");
  ASSERT_TRUE(after_.core().verdict().has_value());
  EXPECT_EQ(after_.core().verdict()->exit_code(), 3);
}

}  // namespace
}  // namespace muster::rendezvous
