// What a coordinator keeps of what happens, and what is left of it after a takeover.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

v1::Events EventsOf(const Cluster& c) { return c.core().job().events.ToMessage(c.now()); }

std::vector<std::string> NamesOf(const google::protobuf::RepeatedPtrField<v1::Event>& events) {
  std::vector<std::string> names;
  for (const v1::Event& event : events) names.push_back(event.name());
  return names;
}

v1::Event First(const std::string& name, const Cluster& c) {
  const v1::Events events = EventsOf(c);
  for (const v1::Event& event : events.newest()) {
    if (event.name() == name) return event;
  }
  return {};
}

// Ranks 0 and 1 on a, 2 and 3 on b.
void Start(Cluster* c) {
  c->Join("a", 0);
  c->Join("b", 1);
  c->Pass(absl::Seconds(20), {"a", "b"});
  ASSERT_EQ(c->state(), State::kRunning);
}

TEST(CoordinatorEvents, ARestartIsAChainOfEvents) {
  Cluster c(Fixed(2));
  Start(&c);
  c.Fail("b", 1);
  c.Pass(absl::Seconds(10), {"a", "b"});
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_THAT(NamesOf(EventsOf(c).newest()),
              ElementsAre("round_started", "round_stopping", "round_started", "recovered"));
  const v1::Event stopping = First(events::kRoundStopping, c);
  EXPECT_EQ(stopping.round(), 1u);
  EXPECT_EQ(stopping.rank(), 2);
  EXPECT_EQ(stopping.node_rank(), 1);
  EXPECT_EQ(stopping.host(), "b");
  const v1::Event recovered = First(events::kRecovered, c);
  EXPECT_EQ(recovered.round(), 2u);
  EXPECT_TRUE(recovered.recovery().has_gathering_ms());
  const EndedRound& ended = c.core().job().history.newest().back();
  EXPECT_EQ(absl::Milliseconds(recovered.recovery().gathering_ms()),
            absl::Trunc(ended.gathering, absl::Milliseconds(1)));
  EXPECT_FALSE(recovered.recovery().has_starting_ms());
}

TEST(CoordinatorEvents, ALostNodeIsNamedThoughItIsForgotten) {
  for (const auto& [name, node_rank] : {std::pair("a", 0), std::pair("b", 1)}) {
    Cluster c(Fixed(2));
    Start(&c);
    c.Close(name);
    c.Pass(absl::Seconds(60), {node_rank == 0 ? "b" : "a"});
    const v1::Event lost = First(events::kNodeLost, c);
    EXPECT_EQ(lost.host(), name);
    EXPECT_TRUE(lost.has_node_rank());
    EXPECT_EQ(lost.node_rank(), node_rank);
    EXPECT_TRUE(lost.is_bad());
  }
}

TEST(CoordinatorEvents, AVerdictNamesTheWorkerThatCausedIt) {
  Cluster c(Fixed(2, 0));
  Start(&c);
  c.Fail("b", 7);
  for (const char* name : {"a", "b"}) c.Apply(name);
  const v1::Event verdict = First(events::kVerdict, c);
  EXPECT_EQ(verdict.exit_code(), 7);
  EXPECT_EQ(verdict.rank(), 2);
  EXPECT_EQ(verdict.node_rank(), 1);
  EXPECT_EQ(verdict.host(), "b");
}

TEST(CoordinatorEvents, ASuccessNamesNoWorker) {
  Cluster c(Fixed(2));
  Start(&c);
  for (const char* name : {"a", "b"}) c.Phase(name, v1::PHASE_SUCCEEDED);
  const v1::Event verdict = First(events::kVerdict, c);
  EXPECT_TRUE(verdict.has_exit_code());
  EXPECT_FALSE(verdict.has_rank());
}

TEST(CoordinatorEvents, ThePrimarysDepartureIsBad) {
  Cluster c(InAgent(Elastic(2, 8)));
  StartTwo(&c);
  c.Phase("a", v1::PHASE_LEAVING);
  EXPECT_TRUE(First(events::kLeaving, c).is_bad()) << "though its line is of the lowest level";
}

TEST(CoordinatorEvents, OnlyMembersInOtherProcessesHoldThem) {
  Cluster c(InAgent(Elastic(2, 8)));
  StartTwo(&c);
  c.Fail("b", 1);
  c.Say("b");
  EXPECT_THAT(NamesOf(c.Told("b").events()), Contains("round_stopping"));
  c.Say("a");
  EXPECT_THAT(c.Told("a").events(), IsEmpty()) << "it ends with this coordinator";
}

TEST(CoordinatorEvents, TheyAreRepeatedUntilADirectiveWithThemWasApplied) {
  Cluster c(Fixed(2));
  Start(&c);
  c.Attach("b");
  EXPECT_THAT(NamesOf(c.Told("b").events()), Contains("round_started"));
  c.Say("b");
  EXPECT_THAT(NamesOf(c.Told("b").events()), Contains("round_started")) << "it has not applied the first one";
  c.Apply("b");
  EXPECT_THAT(c.Told("b").events(), IsEmpty());
}

TEST(CoordinatorEvents, ANewAgentGetsAllOfThem) {
  Cluster c(Fixed(2));
  Start(&c);
  c.Attach("b");
  EXPECT_THAT(NamesOf(c.Told("b").events()), Contains("round_started"));
}

TEST(CoordinatorEvents, TheNextCoordinatorLearnsThemFromAMember) {
  Cluster before(Fixed(2));
  Start(&before);
  before.Attach("b");
  Cluster c(Fixed(2), 43);
  for (const char* name : {"a", "b"}) c.At(name).status = before.At(name).status;
  *c.At("b").status.mutable_events() = before.Told("b").events();
  c.Join("a", 0);
  c.Join("b", 1);
  c.At("b").status.clear_events();
  EXPECT_THAT(NamesOf(EventsOf(c).newest()), Contains("round_started"));
  EXPECT_THAT(NamesOf(EventsOf(c).newest()), Contains("takeover"));
  EXPECT_THAT(c.core().job().hosts.Find("b")->status.events(), IsEmpty()) << "they are kept once";
}

TEST(CoordinatorEvents, TheNextCoordinatorKnowsTheRoundsBeforeIt) {
  Cluster before(Fixed(2));
  Start(&before);
  before.Fail("b", 1);
  before.Pass(absl::Seconds(10), {"a", "b"});
  before.Attach("b");
  Cluster c(Fixed(2), 43);
  for (const char* name : {"a", "b"}) c.At(name).status = before.At(name).status;
  *c.At("b").status.mutable_events() = before.Told("b").events();
  c.Join("a", 0);
  c.Join("b", 1);
  ASSERT_EQ(c.core().job().history.newest().size(), 1u);
  EXPECT_EQ(c.core().job().history.newest().front().cause, before.core().job().history.newest().front().cause);
}

TEST(CoordinatorEvents, EachCoordinatorAfterAnotherSaysSoOnce) {
  Cluster before(Fixed(2));
  Start(&before);
  for (const uint64_t random : {uint64_t{0}, ~uint64_t{0}}) {  // a greater epoch than its own, and a smaller one
    Cluster c(Fixed(2), 43);
    for (const char* name : {"a", "b"}) {
      c.At(name).status = before.At(name).status;
      c.At(name).status.mutable_epoch()->set_random(random);
    }
    c.Join("a", 0);
    c.Join("b", 1);
    EXPECT_THAT(c.Events(events::kTakeover), SizeIs(1)) << random;
  }
  EXPECT_THAT(before.Events(events::kTakeover), IsEmpty());
}

TEST(CoordinatorEvents, TheLinesOfAPictureOfStacksAreNone) {
  Cluster c(Fixed(2));
  Start(&c);
  EXPECT_THAT(NamesOf(EventsOf(c).newest()), Not(Contains("stacks")));
  EXPECT_THAT(NamesOf(EventsOf(c).newest()), Not(Contains("")));
}

}  // namespace
}  // namespace muster::rendezvous
