// The first cause of a round's end across all nodes: the first report is often an echo of a later one.
#include <gtest/gtest.h>

#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

// Nodes without a restart budget: a worker's failure that is charged is a verdict at once.
class CauseOfARound : public testing::Test {
 protected:
  static CoordinatorOptions Strict() {
    CoordinatorOptions options = Elastic(1, 3);
    options.max_restarts = 0;
    return options;
  }
  void Start(Cluster* c) {
    c->Join("a", 0);
    c->Join("b", 1);
    c->Join("c", 2);
    for (const char* name : {"a", "b", "c"}) c->Apply(name);
    ASSERT_EQ(c->state(), State::kRunning);
  }
  void EndWith(Cluster* c, const std::vector<std::string>& names) {
    for (const std::string& name : names) c->Apply(name);
  }
  Cluster c_{Strict()};
};

TEST_F(CauseOfARound, IsProvisionalIfItIsAnEcho) {
  Start(&c_);
  c_.At("a").status.mutable_failure()->set_last_output("RuntimeError: Connection closed by peer");
  c_.Fail("a", 1);
  const std::string cause = "rank 0 on a exited with code 1";
  EXPECT_EQ(c_.Said(cause + "; its output reports a lost connection: another rank's failure may be the cause"), 1);
  EndWith(&c_, {"a", "b", "c"});
  ASSERT_TRUE(c_.core().verdict());
  EXPECT_EQ(c_.core().verdict()->reason(), cause + "; no restart is allowed (--max-restarts)");
}

TEST_F(CauseOfARound, IsAVanishedNodeNotItsPeersFailures) {
  Start(&c_);
  c_.Pass(absl::Milliseconds(200), {});
  c_.Fail("a", 1);  // connection reset
  c_.Fail("c", 1);
  c_.Pass(absl::Seconds(20), {"a", "c"});
  EXPECT_FALSE(c_.core().verdict().has_value()) << c_.core().verdict()->reason();
  EXPECT_EQ(c_.state(), State::kRunning);
  EXPECT_EQ(c_.Told("a").run().failures(), 0);
  EXPECT_EQ(c_.Said("round 1 ended; root cause: node 1 (b) was lost: no heartbeat for 1"), 1);
  EXPECT_EQ(c_.Said("node 1 (b) was lost"), 2) << "when it was lost, and as the root cause";
}

// For whoever alerts on the events of the log: the first loss has its event, and each event names its node.
TEST(EventsOfTheLog, ALostNodeHasItsEventAlsoIfItsLossStopsTheRound) {
  Cluster c(Elastic(1, 3));
  for (const char* name : {"a", "b", "c"}) c.Join(name);
  c.Pass(absl::Seconds(60), {"a", "b", "c"});
  ASSERT_EQ(c.state(), State::kRunning);
  c.Pass(absl::Seconds(20), {"a", "c"});
  const std::vector<Note> lost = c.Events(events::kNodeLost);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].severity, Severity::kWarning);
  EXPECT_EQ(lost[0].subject.node_rank, 1);
  EXPECT_EQ(lost[0].subject.round, 1);
  const std::vector<Note> stopping = c.Events(events::kRoundStopping);
  ASSERT_EQ(stopping.size(), 1u);
  EXPECT_EQ(stopping[0].text, "stopping round 1") << "the cause was logged just before";
}

TEST(EventsOfTheLog, ARoundsLinesHaveItsNumber) {
  Cluster c(Elastic(1, 3));
  for (const char* name : {"a", "b", "c"}) c.Join(name);
  c.Pass(absl::Seconds(60), {"a", "b", "c"});
  c.Pass(absl::Seconds(60), {"a", "c"});
  std::vector<int64_t> rounds;
  for (const Note& note : c.Events(events::kRoundStarted)) rounds.push_back(note.subject.round);
  EXPECT_EQ(rounds, std::vector<int64_t>({1, 2}));
}

TEST(EventsOfTheLog, AFailedWorkerThatStopsTheRoundIsNamed) {
  Cluster c(Elastic(1, 3));
  for (const char* name : {"a", "b", "c"}) c.Join(name);
  c.Pass(absl::Seconds(60), {"a", "b", "c"});
  c.Fail("c", 7);
  const std::vector<Note> stopping = c.Events(events::kRoundStopping);
  ASSERT_EQ(stopping.size(), 1u);
  EXPECT_EQ(stopping[0].subject.node_rank, 2);
  EXPECT_EQ(stopping[0].subject.rank, c.At("c").status.failure().rank());
}

TEST_F(CauseOfARound, IsAVanishedNodeDespiteALateClose) {
  Start(&c_);
  c_.Fail("a", 1);
  c_.Pass(absl::Seconds(8), {"a", "c"});
  c_.Close("b");  // its rebooted machine resets the connection
  c_.Pass(absl::Seconds(20), {"a", "c"});
  EXPECT_FALSE(c_.core().verdict().has_value()) << c_.core().verdict()->reason();
  EXPECT_EQ(c_.Said("round 1 ended; root cause: node 1 (b) was lost"), 1);
}

TEST_F(CauseOfARound, IsANodeThatVanishedDuringAPause) {
  Start(&c_);
  c_.Jump(absl::Seconds(5));  // b died a second after the start, and its peers failed because of that
  c_.Fail("a", 1);
  c_.At("a").failed_at -= absl::Seconds(4);
  c_.Say("a");
  c_.Pass(absl::Seconds(20), {"a", "c"});
  EXPECT_FALSE(c_.core().verdict().has_value()) << c_.core().verdict()->reason();
}

TEST_F(CauseOfARound, IsAFailureWellBeforeANodeVanished) {
  Start(&c_);
  c_.Fail("a", 7);
  c_.Pass(absl::Seconds(3), {"c", "b"});
  c_.Close("b");
  c_.Pass(absl::Seconds(20), {"a", "c"});
  ASSERT_TRUE(c_.core().verdict().has_value());
  EXPECT_EQ(c_.core().verdict()->exit_code(), 7);
}

TEST_F(CauseOfARound, NamesARestartedContainer) {
  Start(&c_);
  c_.Close("b");
  c_.Fail("a", 1);
  c_.Pass(absl::Seconds(4), {"a", "c"});
  *c_.At("b2").status.mutable_whereabouts() = Cluster::Here("b2");
  c_.At("b2").status.mutable_whereabouts()->set_container("another container");
  c_.Join("b2", 1);
  c_.Pass(absl::Seconds(8), {"a", "c"});
  EXPECT_EQ(c_.Said("round 1 ended; root cause: node 1 (b) was lost: no heartbeat for 11s"), 1);
  EXPECT_EQ(c_.Said("its container ended (a new one started 4s later)"), 2)
      << "when it was lost, and as the root cause";
  EXPECT_EQ(c_.state(), State::kRunning);
}

TEST_F(CauseOfARound, NamesARebootedMachine) {
  Start(&c_);
  c_.Close("b");
  c_.Pass(absl::Seconds(4), {"a", "c"});
  c_.At("b2").status.mutable_whereabouts()->set_machine("machine, booted again");
  c_.Join("b2", 1);
  c_.Pass(absl::Seconds(8), {"a", "c"});
  EXPECT_EQ(c_.Said("its machine ended (it or its replacement started 4s later)"), 2)
      << "when it was lost, and as the root cause";
}

TEST_F(CauseOfARound, NamesAVanishedNodesLastStatus) {
  Start(&c_);
  c_.At("b").status.mutable_failure()->set_oom_killed(true);
  c_.At("b").status.mutable_failure()->set_signal(9);
  c_.Fail("b", 137);
  c_.Close("b");
  c_.Pass(absl::Seconds(20), {"a", "c"});
  EXPECT_EQ(c_.Said("; it last reported that rank 2 on b was killed because memory ran out"), 2)
      << "when it was lost, and as the root cause";
}

// Its workers only ended because muster stopped them.
TEST_F(CauseOfARound, DoesNotNameAWorkerThatMusterStopped) {
  Start(&c_);
  v1::AgentStatus& b = c_.At("b").status;
  *b.mutable_failure()->mutable_round() = b.last().id();
  b.mutable_failure()->set_signal(15);
  b.mutable_failure()->set_after_our_signal(true);
  c_.Phase("b", v1::PHASE_STOPPING);
  c_.Close("b");
  c_.Pass(absl::Seconds(20), {"a", "c"});
  EXPECT_GE(c_.Said("node 1 (b) was lost: no heartbeat for 11s"), 1);
  EXPECT_EQ(c_.Said("it last reported"), 0);
}

TEST_F(CauseOfARound, IsADeathThatASuccessorProvedLater) {
  Start(&c_);
  c_.Close("b");
  c_.Fail("a", 1);
  c_.Pass(absl::Seconds(5), {"a", "c"});
  c_.Join("b2", 1);
  c_.At("b2").status.set_predecessor_dead("b");
  c_.Say("b2");
  c_.Pass(absl::Seconds(2), {"a", "c", "b2"});
  EXPECT_FALSE(c_.core().verdict().has_value()) << c_.core().verdict()->reason();
  EXPECT_EQ(c_.Said("node 1 (b) was lost: its main process and agent died; restarted 5s"), 2);
}

TEST_F(CauseOfARound, IsAHostDeathDespiteASlowSweep) {
  Start(&c_);
  c_.Fail("a", 1);
  for (int second = 0; second < 5; ++second) {  // its agent goes on reporting; its host is dead
    c_.Pass(absl::Seconds(1), {"a", "c"});
    c_.Say("b");
  }
  c_.At("b").status.set_live_workers(0);
  c_.At("b").status.set_host_gone_ms(5000);
  c_.Phase("b", v1::PHASE_HOST_GONE);
  c_.Pass(absl::Seconds(2), {"a", "c"});
  EXPECT_FALSE(c_.core().verdict().has_value()) << c_.core().verdict()->reason();
  EXPECT_EQ(c_.Said("node 1 (b) was lost: its main process died"), 2) << "when it was lost, and as the root cause";
}

TEST_F(CauseOfARound, IsTheEndOfAContainerAsItsAgentSawIt) {
  Start(&c_);
  c_.At("b").status.set_live_workers(0);
  c_.At("b").status.set_how_host_ended("its training container ended");
  c_.Phase("b", v1::PHASE_HOST_GONE);
  c_.Pass(absl::Seconds(2), {"a", "c"});
  EXPECT_GE(c_.Said("node 1 (b) was lost: its training container ended"), 1);
}

TEST_F(CauseOfARound, IsAPrimaryThatVanishedWithItsCoordinator) {
  Start(&c_);
  const v1::AgentStatus b = c_.At("b").status;
  const v1::AgentStatus other = c_.At("c").status;
  Cluster successor(Strict(), 43);  // ten seconds later, on a new machine
  successor.Jump(absl::Seconds(10));
  for (const auto& [name, status] : {std::make_pair("b", b), std::make_pair("c", other)}) {
    Cluster::Node& node = successor.At(name);
    node.status = status;
    node.status.set_coordinator_silent_ms(10'100);
    node.stream = name[0] == 'b' ? 100 : 101;
    successor.Say(name);
  }
  successor.At("b").failed_at = FromBootNanos(1'000'000'000);  // ten seconds ago: connection reset
  successor.Fail("b", 1);
  successor.At("b").failed_at = FromBootNanos(1'000'000'000);
  successor.Say("b");
  successor.Apply("c");
  successor.Pass(absl::Minutes(1), {"b", "c"});
  EXPECT_FALSE(successor.core().verdict().has_value()) << successor.core().verdict()->reason();
  EXPECT_EQ(successor.Told("b").run().failures(), 0);
  EXPECT_EQ(successor.Said("round 1 ended; root cause: no heartbeat from node 0"), 1);
}

TEST_F(CauseOfARound, IsALeaveThoughPeersReportedFirst) {
  CoordinatorOptions options = Strict();
  options.max_node_losses = 0;
  Cluster c(options);
  Start(&c);
  c.Fail("a", 1);
  c.Phase("b", v1::PHASE_LEAVING);
  c.At("b").status.set_live_workers(0);
  c.Say("b");
  EndWith(&c, {"a", "c"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->reason(),
            "node 1 (b) was asked to leave; no node loss is allowed (--max-node-losses)");
}

// The workers of "a" fail as "b" is lost; "c" is lost during the drain.
TEST_F(CauseOfARound, IsTheFirstOfTwoLosses) {
  Start(&c_);
  c_.Fail("a", 1);
  c_.Pass(absl::Milliseconds(500), {});
  for (const char* name : {"b", "c"}) {
    c_.At(name).status.set_live_workers(0);
    c_.Phase(name, v1::PHASE_HOST_GONE);
    c_.Pass(absl::Seconds(4), {});
  }
  EndWith(&c_, {"a"});
  EXPECT_FALSE(c_.core().verdict().has_value()) << c_.core().verdict()->reason();
  EXPECT_EQ(c_.Said("round 1 ended; root cause: node 1 (b) was lost"), 1);
}

TEST_F(CauseOfARound, IsTheOlderFailureThoughReportedLater) {
  Start(&c_);
  c_.Fail("a", 1);
  c_.Pass(absl::Milliseconds(600), {});
  c_.Fail("c", 7);
  c_.At("c").failed_at -= absl::Seconds(1);
  c_.Say("c");
  EndWith(&c_, {"a", "b", "c"});
  ASSERT_TRUE(c_.core().verdict().has_value());
  EXPECT_EQ(c_.core().verdict()->exit_code(), 7);
}

TEST_F(CauseOfARound, IsNotMovedByADelayedStatus) {
  Start(&c_);
  c_.Fail("a", 7);
  c_.Pass(absl::Milliseconds(100), {});
  c_.Fail("c", 1);
  c_.At("a").failed_at += absl::Milliseconds(500);  // as if the status had been delayed
  EndWith(&c_, {"a", "b", "c"});
  ASSERT_TRUE(c_.core().verdict().has_value());
  EXPECT_EQ(c_.core().verdict()->exit_code(), 7);
}

// Found by the simulation (seed 79311): a drain took long, and the age of a later failure grew by 0.5 % too much.
TEST_F(CauseOfARound, IsNotMovedByAClockThatRunsFast) {
  Start(&c_);
  c_.Fail("a", 7);
  c_.Say("a");
  c_.Pass(absl::Milliseconds(100), {});
  c_.Fail("c", 1);
  c_.Say("c");
  for (int i = 0; i < 60; ++i) {  // nobody's workers have ended yet
    c_.Pass(absl::Milliseconds(500), {});
    c_.At("c").failed_at -= absl::Milliseconds(500) / 200;
    for (const char* name : {"a", "b", "c"}) c_.Say(name);
  }
  EndWith(&c_, {"a", "b", "c"});
  ASSERT_TRUE(c_.core().verdict().has_value());
  EXPECT_EQ(c_.core().verdict()->exit_code(), 7);
}

TEST_F(CauseOfARound, IsLoggedOnceAllIsKnown) {
  CoordinatorOptions options = Strict();
  options.max_restarts = 3;
  Cluster c(options);
  Start(&c);
  c.Fail("a", 1);
  c.Fail("c", 7);
  c.At("c").failed_at -= absl::Seconds(1);
  c.Say("c");
  EndWith(&c, {"a", "b", "c"});
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Said("round 1 ended; root cause: rank 4 on c exited with code 7"), 1);
  Cluster alone(options);
  Start(&alone);
  alone.Fail("a", 1);
  EndWith(&alone, {"a", "b", "c"});
  EXPECT_EQ(alone.Said("rank 0 on a exited with code 1"), 1) << "the drain said so already";
}

}  // namespace
}  // namespace muster::rendezvous
