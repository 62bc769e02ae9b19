// Refused nodes, and nodes that report from the start that they cannot run their program.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/text/tokens.h"
#include "rendezvous/core/coordinator.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

// The status of "x", on a stream of its own.
v1::AgentStatus& Stranger(Cluster* c, const std::string& run_id) {
  Cluster::Node& node = c->At("x");
  node.stream = 99;
  node.status.set_protocol(kProtocol);
  node.status.set_run_id(run_id);
  node.status.set_host_id("x");
  return node.status;
}

TEST(Coordinator, AnotherRunIdIsRefused) {
  Cluster c(Fixed(1));
  Stranger(&c, "other");
  c.Say("x");
  EXPECT_EQ(c.Told("x").refused().exit_code(), 77);
  c.Join("a", 0);
  EXPECT_TRUE(c.Told("a").has_run());
}

TEST(Coordinator, ANodeThatShowsItsSecondTokenNextIsLoggedAndNotMissed) {
  Cluster c(Fixed(2));
  c.Join("a");
  c.TurnAway("10.0.0.2", kFirstTokenRefused);
  c.Apply("a");
  EXPECT_EQ(c.Said(kFirstTokenRefused), 1);
  EXPECT_EQ(c.Told("a").wait().reason().find("refused"), std::string::npos) << c.Told("a").wait().reason();
  c.TurnAway("10.0.0.3", "it has no token");
  c.Apply("a");
  EXPECT_NE(c.Told("a").wait().reason().find("refused: a node at 10.0.0.3"), std::string::npos);
}

TEST(Coordinator, AStrangerLearnsNothingOfTheJob) {
  Cluster c(Fixed(1));
  c.Join("a", 0);
  Stranger(&c, "other");
  c.Say("x");
  v1::Directive told = c.Told("x");
  EXPECT_EQ(told.refused().reason(), "run id 'other' is not this job's; set the same --rdzv-id on all nodes");
  told.clear_refused();
  told.clear_protocol();
  EXPECT_EQ(told.ByteSizeLong(), 0u) << told.ShortDebugString();
}

TEST(Coordinator, EachStreamOfAMemberIsAdmittedOnce) {
  Cluster c(Fixed(2));
  Stranger(&c, "other");
  c.Say("x");
  EXPECT_TRUE(c.Admitted().empty());
  c.Join("a", 0);
  c.Say("a");
  EXPECT_EQ(c.Admitted(), std::vector<StreamId>({1}));
  c.Attach("a");
  EXPECT_EQ(c.Admitted(), std::vector<StreamId>({1, 2}));
}

// Each WAIT names the refused nodes: with unbounded texts no directive would fit into a message.
TEST(Coordinator, StrangersTextIsCutToOneLine) {
  Cluster c(Fixed(2));
  Stranger(&c, "other" + std::string(400000, 'r'))
      .set_hostname("evil\n\x1b[31mexit code 0" + std::string(400000, 'x'));
  c.Say("x");
  c.Join("a", 0);
  const std::string reason = c.Told("a").wait().reason();
  EXPECT_NE(reason.find("; refused: evil\\n\\x1b[31mexit"), std::string::npos) << reason;
  EXPECT_LT(reason.size(), 1000u);
  EXPECT_LT(c.Told("x").ByteSizeLong(), 1000u);
}

TEST(Coordinator, AnotherProtocolIsRefusedWithBothNamed) {
  Cluster c(Fixed(1));
  Stranger(&c, "job").set_protocol(kProtocol + 1);
  c.Say("x");
  EXPECT_EQ(c.Told("x").refused().exit_code(), 77);
  EXPECT_NE(c.Told("x").refused().reason().find(absl::StrCat("protocol ", kProtocol + 1)), std::string::npos);
}

TEST(Coordinator, ANodeThatCannotStartItsProgramEndsTheJobForAll) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.At("b").status.mutable_cannot_start()->set_exit_code(127);
  c.Join("b", 1);
  EXPECT_EQ(c.Told("a").verdict().exit_code(), 127) << "all nodes are attached";
}

TEST(Coordinator, AStartErrorIsNoVerdictWhileARoundMayRun) {
  Cluster c(Fixed(2));
  c.At("b").status.mutable_cannot_start()->set_exit_code(127);
  c.Join("b", 1);
  EXPECT_EQ(c.state(), State::kRecovering);
  EXPECT_FALSE(c.Told("b").has_verdict());
  EXPECT_EQ(c.Told("b").wait().reason(),
            "0 of 2 nodes ready; ends once the other nodes are here, or had time to come; gives up after 10m "
            "(--join-timeout); node 1 (b) cannot start: ");
  c.Pass(absl::Seconds(22), {"b"});
  EXPECT_EQ(c.Told("b").release().exit_code(), 127) << "a lease has passed, so nothing runs";
}

// A primary that attaches without a program to run.
void BreakPrimary(Cluster* c, const std::string& name, int place = -1) {
  v1::AgentStatus& broken = c->At(name).status;
  broken.set_at_primary(true);
  broken.mutable_cannot_start()->set_exit_code(127);
  broken.mutable_cannot_start()->set_error_text("the program x is not there");
  c->Join(name, place);
}

// The new nodes are as many as the job needs, and know of no round.
TEST(Coordinator, NodesThatCannotStartHideNoRound) {
  for (const int place : {-1, 0}) {
    Cluster c(Fixed(1));
    c.At("new").status.mutable_cannot_start()->set_exit_code(127);
    c.Join("new", place);
    EXPECT_EQ(c.state() == State::kRecovering, place < 0) << "nobody stands in for a node that has a place";
    c.Pass(absl::Seconds(12), {"new"});
    EXPECT_EQ(c.Told("new").release().exit_code(), 127) << "a lease has passed, so nothing runs";
  }
}

TEST(Coordinator, ADepartedNodeWithAStartErrorIsNotCounted) {
  Cluster c(Fixed(2));
  c.At("b").status.mutable_cannot_start()->set_exit_code(127);
  c.Join("b", 1);
  c.Close("b");
  c.Join("a", 0);
  EXPECT_EQ(c.state(), State::kRecovering);
}

TEST(Coordinator, AReturningPrimaryThatCannotStartServes) {
  Cluster before(InAgent(Elastic(1, 2)));
  for (const char* n : {"a", "b"}) before.Join(n);
  for (const char* n : {"a", "b"}) before.Apply(n);
  ASSERT_EQ(before.Told("b").run().node_count(), 2);
  Cluster after(InAgent(Elastic(1, 2)), 43);
  BreakPrimary(&after, "again");
  after.At("b") = before.At("b");
  after.At("b").stream = 50;
  after.Say("b");
  after.Apply("b");
  EXPECT_FALSE(after.Told("again").has_refused());
  after.Pass(absl::Minutes(1), {"again", "b"});
  EXPECT_EQ(after.Told("b").run().node_count(), 1) << "the others go on without it";
  EXPECT_EQ(after.Told("again").wait().reason(),
            "this node cannot start its program (the program x is not there); it only serves as the coordinator");
}

// If the coordinator ended, the other nodes would never get the reason.
TEST(Coordinator, ANeededPrimarysStartErrorReachesTheOthers) {
  Cluster before(InAgent(Fixed(2)));
  for (const char* n : {"a", "b"}) before.Join(n);
  for (const char* n : {"a", "b"}) before.Apply(n);
  CoordinatorOptions options = InAgent(Fixed(2));
  options.rejoin_timeout = absl::Minutes(2);
  Cluster after(options, 43);
  BreakPrimary(&after, "again");
  after.At("b") = before.At("b");
  after.At("b").stream = 50;
  after.Say("b");
  after.Pass(absl::Minutes(1), {"again", "b"});
  EXPECT_EQ(after.Told("b").wait().reason(),
            "1 of 2 nodes ready; gives up after 2m (--rejoin-timeout); again cannot start: the program x "
            "is not there");
  after.Pass(absl::Minutes(2), {"again", "b"});
  EXPECT_EQ(after.Told("b").release().exit_code(), 69);
}

// Nobody can stand in for the primary: it is refused, so that the platform starts it again, once the others know
// why.
TEST(Coordinator, ANeededPrimaryIsRefusedOnceAllKnowWhy) {
  Cluster before(InAgent(Fixed(2)));
  before.At("a").status.set_at_primary(true);
  before.Join("a", 0);
  before.Join("b", 1);
  for (const char* n : {"a", "b"}) before.Apply(n);
  Cluster after(InAgent(Fixed(2)), 43);
  BreakPrimary(&after, "again", 0);
  after.At("b") = before.At("b");
  after.At("b").stream = 50;
  after.Say("b");
  after.Pass(absl::Seconds(20), {"again", "b"});  // a lease, during which the rest of the round might run
  EXPECT_FALSE(after.Told("again").has_refused());
  EXPECT_EQ(after.Told("b").wait().reason(),
            "1 of 2 nodes ready; gives up after 30m (--rejoin-timeout); node 0 (again) cannot start: the program "
            "x is not there");
  after.Pass(after.core().job().state_since + kLatecomers - kTick - after.now(), {"again", "b"});
  after.Say("again");
  EXPECT_FALSE(after.Told("again").has_refused());
  after.Pass(kTick, {});
  after.Say("again");
  EXPECT_EQ(after.Told("again").refused().exit_code(), 127);
}

TEST(Coordinator, APrimaryThatCannotStartAwaitsLatecomers) {
  for (const bool comes : {true, false}) {
    Cluster c(InAgent(Fixed(2)));
    BreakPrimary(&c, "a", 0);
    c.Pass(absl::Seconds(12), {"a"});  // a lease, during which an earlier round might run
    EXPECT_EQ(c.state(), State::kGathering);
    if (comes) {
      c.Join("b", 1);
      c.Pass(absl::Seconds(1), {"a", "b"});
      EXPECT_EQ(c.Told("b").release().exit_code(), 127);
      c.Close("b");
    }
    c.Pass(absl::Seconds(10), {"a"});
    EXPECT_EQ(c.Told("a").release().exit_code(), 127);
  }
}

// The members were disconnected for longer than a lease.
TEST(Coordinator, AReturningMemberKeepsABrokenPrimaryServing) {
  Cluster before(InAgent(Elastic(2, 3)));
  for (const char* n : {"a", "b", "c"}) before.Join(n);
  for (const char* n : {"a", "b", "c"}) before.Apply(n);
  ASSERT_EQ(before.Told("b").run().node_count(), 3);
  Cluster after(InAgent(Elastic(2, 3)), 43);
  BreakPrimary(&after, "again");
  after.Pass(absl::Seconds(15), {"again"});
  ASSERT_EQ(after.state(), State::kGathering);
  for (const char* n : {"b", "c"}) {
    after.At(n) = before.At(n);
    after.At(n).stream = n[0] == 'b' ? 101 : 102;
    after.Say(n);
    after.Apply(n);
  }
  after.Pass(absl::Minutes(1), {"again", "b", "c"});
  EXPECT_EQ(after.Told("b").run().node_count(), 2);
  EXPECT_FALSE(after.Told("again").has_refused());
}

}  // namespace
}  // namespace muster::rendezvous
