// Which conditions of a job somebody hears of, and how often.
#include "rendezvous/core/conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rendezvous/core/snapshot.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> Texts(const Cluster& c, const char* name) {
  std::vector<std::string> texts;
  for (const Note& note : c.Events(name)) texts.push_back(note.text);
  return texts;
}

// Round 1 of a and b.
void Start(Cluster* c) {
  c->Join("a", 0);
  c->Join("b", 1);
  c->Pass(absl::Seconds(20), {"a", "b"});
  ASSERT_EQ(c->state(), State::kRunning);
}

void FailAndRestart(Cluster* c) {
  c->Fail("b", 1);
  c->Pass(absl::Seconds(60), {"a", "b"});
  ASSERT_EQ(c->state(), State::kRunning);
}

TEST(Conditions, AWellJobHasNone) {
  Cluster c(Fixed(2));
  Start(&c);
  c.Pass(absl::Minutes(20), {"a", "b"});
  for (const char* name : {events::kStalled, events::kRestartStorm, events::kBudgetLow, events::kSparesExhausted,
                           events::kNodeSuspect, events::kWaitingLong})
    EXPECT_THAT(Texts(c, name), IsEmpty()) << name;
}

TEST(Conditions, TheLastRestartIsToldOnceInAnHour) {
  Cluster c(Fixed(2, /*max_restarts=*/1));
  Start(&c);
  FailAndRestart(&c);
  c.Pass(absl::Minutes(50), {"a", "b"});
  EXPECT_THAT(Texts(c, events::kBudgetLow), ElementsAre(HasSubstr("(--max-restarts)")));
  c.Pass(absl::Minutes(20), {"a", "b"});
  EXPECT_THAT(Texts(c, events::kBudgetLow), SizeIs(2));
}

TEST(Conditions, ThreeFailuresAreAStormAndTheirNodeIsSuspect) {
  Cluster c(Fixed(2, /*max_restarts=*/9));
  Start(&c);
  FailAndRestart(&c);
  EXPECT_THAT(Texts(c, events::kNodeSuspect), IsEmpty());
  FailAndRestart(&c);
  EXPECT_THAT(Texts(c, events::kNodeSuspect),
              ElementsAre("node 1 (b) was the root cause of the last 2 failures in a row"));
  EXPECT_THAT(Texts(c, events::kRestartStorm), IsEmpty());
  FailAndRestart(&c);
  EXPECT_THAT(Texts(c, events::kRestartStorm),
              ElementsAre(AllOf(HasSubstr("3 rounds have failed within 10m"), HasSubstr("exited with code 1"))));
}

// Its successor takes its place.
void Drain(const std::string& node, const std::string& successor, Cluster* c) {
  v1::Order order;
  order.set_kind(v1::Order::KIND_DRAIN);
  order.set_id(node);
  *order.mutable_epoch() = c->core().epoch();
  order.set_node(node);
  c->Order(order);
  c->At(node).status.set_live_workers(0);
  c->Phase(node, v1::PHASE_LEAVING);
  c->Close(node);
  c->Join(successor, 1);
  c->Pass(absl::Seconds(20), {"a", successor});
  ASSERT_EQ(c->state(), State::kRunning) << node;
}

TEST(Conditions, NodesThatSomebodyDrainsAreNoStormAndHaveCausedNothing) {
  Cluster c(Fixed(2));
  Start(&c);
  Drain("b", "c", &c);
  Drain("c", "d", &c);
  Drain("d", "e", &c);
  EXPECT_THAT(Texts(c, events::kRestartStorm), IsEmpty());
  const v1::JobView view = Snapshot(c.now(), c.core().job());
  EXPECT_EQ(view.ended_size(), 3);
  for (const v1::NodeView& node : view.nodes()) EXPECT_EQ(node.restarts_caused(), 0) << node.hostname();
}

TEST(Conditions, FailuresThatAreFarApartAreNoStorm) {
  Cluster c(Fixed(2, /*max_restarts=*/9));
  Start(&c);
  for (int i = 0; i < kStormRestarts + 1; ++i) {
    FailAndRestart(&c);
    c.Pass(kStormWindow / 2, {"a", "b"});
  }
  EXPECT_THAT(Texts(c, events::kRestartStorm), IsEmpty());
}

TEST(Conditions, ALongWaitNamesWhoIsMissing) {
  CoordinatorOptions options = Fixed(2);
  options.join_timeout = absl::Hours(1);
  Cluster c(options);
  c.Join("a", 0);
  c.Pass(kLongWait, {"a"});
  EXPECT_THAT(Texts(c, events::kWaitingLong), IsEmpty());
  c.Pass(absl::Minutes(2), {"a"});
  EXPECT_THAT(Texts(c, events::kWaitingLong), ElementsAre(HasSubstr("node 1")));
}

TEST(Conditions, TheLastSpareIsMissedOnceItIsNeeded) {
  Cluster c(Fixed(2));
  Start(&c);
  c.Join("c");
  c.Pass(absl::Seconds(10), {"a", "b", "c"});
  EXPECT_THAT(Texts(c, events::kSparesExhausted), IsEmpty());
  c.Close("b");
  c.Pass(absl::Minutes(2), {"a", "c"});
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_THAT(Texts(c, events::kSparesExhausted), SizeIs(1));
}

TEST(Conditions, ANodeThatWaitsUntilTheJobGrowsIsNoSpare) {
  CoordinatorOptions options = Elastic(2, 8);
  options.join_settle = absl::Seconds(10);
  Cluster c(options);
  StartTwo(&c);
  c.Pass(absl::Seconds(5), {"a", "b"});
  c.Join("c");
  c.Pass(absl::Minutes(2), {"a", "b", "c"});
  ASSERT_EQ(c.core().greatest().node_count(), 3);
  EXPECT_THAT(Texts(c, events::kSparesExhausted), IsEmpty());
}

TEST(Conditions, AWaitIsAsLongAsNoRoundRuns) {
  CoordinatorOptions options = Fixed(2);
  options.rejoin_timeout = absl::Hours(1);
  Cluster c(options);
  Start(&c);
  c.Close("b");
  c.Pass(kLongWait + absl::Minutes(2), {"a"});
  EXPECT_THAT(Texts(c, events::kWaitingLong), SizeIs(1));
}

}  // namespace
}  // namespace muster::rendezvous
