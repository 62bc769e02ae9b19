// What a job looks like from the outside, in each of its states.
#include "rendezvous/core/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "base/core/note.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

v1::JobView Look(const Cluster& cluster) { return Snapshot(cluster.now(), cluster.core().job()); }

// Round 1 of a and b, whose places are 0 and 1.
void StartPlaced(Cluster* c) {
  c->Join("a", 0);
  c->Join("b", 1);
  c->Pass(absl::Seconds(20), {"a", "b"});
  ASSERT_EQ(c->state(), State::kRunning);
}

TEST(SnapshotTest, AGatheringNamesWhoIsMissing) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Pass(absl::Seconds(15), {"a"});
  v1::JobView view = Look(c);
  EXPECT_EQ(view.run_id(), "job");
  EXPECT_EQ(view.state(), v1::JobView::STATE_GATHERING);
  EXPECT_FALSE(view.has_round());
  EXPECT_THAT(view.missing(), ElementsAre("node 1"));
  EXPECT_THAT(view.reason(), HasSubstr("1 of 2 nodes ready"));
  EXPECT_THAT(view.odd(), IsEmpty()) << "the state says it";
  ASSERT_EQ(view.nodes_size(), 1);
  EXPECT_EQ(view.nodes(0).part(), v1::NodeView::PART_READY);
  EXPECT_FALSE(view.nodes(0).has_node_rank());
}

TEST(SnapshotTest, ARoundThatRunsIsWell) {
  Cluster c(Fixed(2));
  StartPlaced(&c);
  const v1::JobView view = Look(c);
  EXPECT_EQ(view.state(), v1::JobView::STATE_RUNNING);
  EXPECT_EQ(view.state_ms(), 20'000);
  EXPECT_THAT(view.odd(), IsEmpty());
  EXPECT_THAT(view.missing(), IsEmpty());
  EXPECT_EQ(view.round().node_count(), 2);
  EXPECT_EQ(view.round().number(), 1u);
  EXPECT_EQ(view.round().master(), "127.0.0.1:5001");
  EXPECT_EQ(view.left().restarts(), 3);
  ASSERT_EQ(view.nodes_size(), 2);
  EXPECT_EQ(view.nodes(1).hostname(), "b");
  EXPECT_EQ(view.nodes(1).part(), v1::NodeView::PART_MEMBER);
  EXPECT_EQ(view.nodes(1).node_rank(), 1);
  EXPECT_EQ(view.nodes(1).first_rank(), 2);
  EXPECT_EQ(view.nodes(1).live_workers(), 2);
}

TEST(SnapshotTest, AMemberThatIsSilentIsNamedBeforeItIsLost) {
  Cluster c(Fixed(2));
  StartPlaced(&c);
  c.Pass(absl::Seconds(5), {"a"});
  EXPECT_THAT(Look(c).odd(), ElementsAre(StartsWith("node 1 (b): no status for ")));
  EXPECT_EQ(c.state(), State::kRunning);
  c.Close("b");
  EXPECT_THAT(Look(c).odd(), ElementsAre(StartsWith("node 1 (b): no connection for ")));
}

TEST(SnapshotTest, AFailureIsTheReasonOfADrain) {
  Cluster c(Fixed(2, 1));
  StartPlaced(&c);
  c.Fail("b", 7);
  const v1::JobView view = Look(c);
  EXPECT_EQ(view.state(), v1::JobView::STATE_DRAINING);
  EXPECT_THAT(view.reason(), HasSubstr("exited with code 7"));
}

TEST(SnapshotTest, TheVerdictIsThere) {
  Cluster c(Fixed(2, 0));
  StartPlaced(&c);
  c.Fail("b", 7);
  for (const char* node : {"a", "b"}) c.Apply(node);
  const v1::JobView view = Look(c);
  EXPECT_EQ(view.state(), v1::JobView::STATE_ENDING);
  EXPECT_EQ(view.exit_code(), 7);
  EXPECT_THAT(view.reason(), HasSubstr("exited with code 7"));
}

TEST(SnapshotTest, EndedRoundsHaveACauseAndACost) {
  Cluster c(Fixed(2, 3));
  StartPlaced(&c);
  c.Pass(absl::Seconds(60), {"a", "b"});
  c.Fail("b", 7);
  c.Pass(absl::Seconds(2), {});
  v1::JobView view = Look(c);
  EXPECT_EQ(view.ended_size(), 0) << "it is still ending";
  for (const char* node : {"a", "b", "a", "b", "a", "b"}) c.Apply(node);
  c.Pass(absl::Seconds(3), {"a", "b"});
  ASSERT_EQ(c.state(), State::kRunning);
  view = Look(c);
  ASSERT_EQ(view.ended_size(), 1);
  EXPECT_EQ(view.ended(0).number(), 1u);
  EXPECT_EQ(view.ended(0).kind(), v1::EndedRound::KIND_WORKER_FAILURE);
  EXPECT_THAT(view.ended(0).cause(), HasSubstr("exited with code 7"));
  EXPECT_GE(view.ended(0).ran_ms(), 60'000);
  EXPECT_GE(view.ended(0).lost_ms(), 2'000);
  EXPECT_EQ(view.lost_ms(), view.ended(0).lost_ms());
}

TEST(SnapshotTest, RestartsAreCountedForTheNodeThatHasCausedThem) {
  Cluster c(Fixed(2, 3));
  StartPlaced(&c);
  for (const int64_t caused : {1, 2}) {
    c.Fail("b", 7);
    for (const char* name : {"a", "b"}) c.Apply(name);
    c.Pass(absl::Seconds(2), {"a", "b"});
    ASSERT_EQ(c.state(), State::kRunning);
    EXPECT_EQ(Look(c).nodes(0).restarts_caused(), 0);
    EXPECT_EQ(Look(c).nodes(1).restarts_caused(), caused);
  }
  c.At("a").status.set_phase(v1::PHASE_LEAVING);
  c.Say("a");
  EXPECT_EQ(Look(c).nodes(0).restarts_caused(), 0) << "no other round has begun";
}

TEST(SnapshotTest, ALostNodeHasCausedTheRestart) {
  Cluster c(Elastic(1, 2));
  StartPlaced(&c);
  c.Pass(absl::Seconds(60), {"a"});
  ASSERT_EQ(c.core().greatest().node_count(), 1);
  c.Join("b", 1);
  const v1::JobView view = Look(c);
  for (const v1::NodeView& node : view.nodes())
    EXPECT_EQ(node.restarts_caused(), node.hostname() == "b" ? 1 : 0) << node.hostname();
}

TEST(SnapshotTest, BudgetsAreThoseOfTheNextRoundOnceOneHasEnded) {
  CoordinatorOptions options = Fixed(2, 2);
  options.restart_delay = absl::Seconds(10);  // after the second failure
  Cluster c(options);
  StartPlaced(&c);
  for (int left : {2, 1}) {
    c.Fail("b", 7);
    EXPECT_EQ(Look(c).left().restarts(), left) << "the round is still ending";
    for (const char* node : {"a", "b", "a", "b"}) c.Apply(node);
  }
  ASSERT_EQ(c.state(), State::kGathering);
  EXPECT_EQ(Look(c).left().restarts(), 0);
  EXPECT_EQ(Look(c).left().restarts_so_far(), 2);
}

// As when the next round's cost is counted (RestartLedger::After).
TEST(SnapshotTest, BudgetsAreFreeAtTheEndOfTheWindow) {
  const BootTime now = FromBootNanos(1'000'000'000'000'000);
  CoordinatorOptions options = Fixed(2, 3);
  options.max_node_losses = 3;
  options.restart_window = options.node_loss_window = absl::Minutes(10);
  Job job(options, now, 1);
  job.state = State::kGathering;
  job.counts.losses =
      job.counts.failure_times = {now - absl::Minutes(10), now - absl::Minutes(10) + absl::Nanoseconds(1)};
  EXPECT_EQ(BudgetsLeft(now, job).node_losses(), 2);
  EXPECT_EQ(BudgetsLeft(now, job).restarts(), 2);
}

TEST(SnapshotTest, LossesAreForgottenAfterTheirWindow) {
  CoordinatorOptions options = Elastic(2, 2);
  options.max_node_losses = 1;
  options.node_loss_window = absl::Minutes(10);
  Cluster c(options);
  StartTwo(&c);
  c.Join("c");
  c.Phase("b", v1::PHASE_HOST_GONE);
  c.Close("b");
  c.Pass(absl::Seconds(20), {"a", "c"});
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(Look(c).left().node_losses(), 0);
  EXPECT_THAT(Look(c).odd(), ElementsAre(HasSubstr("the next loss of a node ends the job")));
  c.Pass(absl::Minutes(11), {"a", "c"});
  EXPECT_EQ(Look(c).left().node_losses(), 1);
  EXPECT_THAT(Look(c).odd(), IsEmpty());
}

TEST(SnapshotTest, ALimitOfNoLossesIsNotOdd) {
  CoordinatorOptions options = Fixed(2);
  options.max_node_losses = 0;
  Cluster c(options);
  StartPlaced(&c);
  EXPECT_THAT(Look(c).odd(), IsEmpty());
}

TEST(SnapshotTest, ALostNodesRoundRanUntilItsLastSign) {
  Cluster c(Elastic(2, 2));
  StartTwo(&c);
  c.Join("c");
  c.Pass(absl::Seconds(60), {"a", "b", "c"});
  c.Pass(absl::Seconds(40), {"a", "c"});  // b's lease ends
  const v1::JobView view = Look(c);
  ASSERT_EQ(view.ended_size(), 1);
  EXPECT_EQ(view.ended(0).kind(), v1::EndedRound::KIND_NODE_LOSS);
  EXPECT_GE(view.ended(0).lost_ms(), 10'000) << "the silence of its whole lease is lost time";
}

TEST(SnapshotTest, ASparesPreflightIsNotOdd) {
  Cluster c(Elastic(2, 2));
  StartTwo(&c);
  c.At("c").status.set_preparing("its preflight runs");
  c.Join("c");
  EXPECT_THAT(Look(c).odd(), IsEmpty());
}

TEST(SnapshotTest, OfVeryManyNodesOnlyTheNamesRemain) {
  CoordinatorOptions options = Elastic(2, 20'000);
  Cluster c(options);
  c.Join("a");
  v1::JobView view = Look(c);
  EXPECT_NE(view.nodes(0).host_id(), "");
  Job job(options, c.now(), 1);
  for (int i = 0; i < 20'000; ++i) {
    v1::AgentStatus& status = job.hosts.Get(absl::StrCat("host-", i)).status;
    status.set_hostname(std::string(100, 'x'));
    status.set_trouble(std::string(100, 'y'));
    status.set_phase(v1::PHASE_UNUSABLE);
  }
  view = Snapshot(c.now(), job);
  EXPECT_EQ(view.nodes(0).trouble(), "");
  EXPECT_LT(view.ByteSizeLong(), size_t{4} << 20);
  EXPECT_THAT(view.odd(0), HasSubstr("yyy"));
}

TEST(RoundHistoryTest, ARoundThatGoesOnAfterAllCostsNoMore) {
  RoundHistory history;
  const BootTime began = FromBootNanos(1'000'000'000);
  history.OnEnd({.number = 1, .trouble = began});
  history.OnEnd({.number = 1, .trouble = began, .ran = absl::Seconds(3)});
  EXPECT_EQ(history.newest().size(), 1u) << "the same round";
  history.OnEnd({.number = 2, .trouble = began + absl::Seconds(7)});
  EXPECT_EQ(history.LostBy(began + absl::Seconds(8)), absl::Seconds(8)) << "none had started in between";
}

TEST(RoundHistoryTest, ATroubleCostsUntilTheNextRoundStarts) {
  RoundHistory history;
  const BootTime began = FromBootNanos(1'000'000'000);
  history.OnStart(began);
  EXPECT_EQ(history.LostBy(began + absl::Hours(1)), absl::ZeroDuration());
  history.OnEnd({.number = 1, .trouble = began + absl::Seconds(10), .ran = absl::Seconds(10)});
  EXPECT_EQ(history.LostBy(began + absl::Seconds(14)), absl::Seconds(4));
  history.OnStart(began + absl::Seconds(15));
  EXPECT_EQ(history.LostBy(began + absl::Hours(1)), absl::Seconds(5));
  EXPECT_EQ(history.newest().back().lost, absl::Seconds(5));
}

TEST(RoundHistoryTest, ARecoveryHasPhases) {
  RoundHistory history;
  const BootTime trouble = FromBootNanos(1'000'000'000);
  EXPECT_FALSE(history.OnSignOfLife(trouble - absl::Seconds(1))) << "the first round follows no other one";
  history.OnEnd({.number = 1,
                 .end = EndCause::kNodeLoss,
                 .trouble = trouble,
                 .detecting = absl::Seconds(4),
                 .draining = absl::Seconds(1)});
  EXPECT_EQ(history.Restarts(EndCause::kNodeLoss), 0) << "it may be the last one";
  history.OnStart(trouble + absl::Seconds(12));
  EXPECT_TRUE(history.OnSignOfLife(trouble + absl::Seconds(15)));
  EXPECT_FALSE(history.OnSignOfLife(trouble + absl::Seconds(16))) << "only the first sign counts";
  const EndedRound& ended = history.newest().back();
  EXPECT_EQ(ended.lost, absl::Seconds(12));
  EXPECT_EQ(ended.gathering, absl::Seconds(7));
  EXPECT_EQ(ended.starting, absl::Seconds(3));
  EXPECT_EQ(history.Restarts(EndCause::kNodeLoss), 1);
  const v1::RecoveryTimes times = history.recoveries().ToMessage();
  const std::map<std::string, int64_t> expected = {
      {"detect", 4'000}, {"drain", 1'000}, {"gather", 7'000}, {"start", 3'000}};
  for (const v1::PhaseTimes& phase : times.phases()) {
    EXPECT_EQ(phase.sum_ms(), expected.at(phase.phase())) << phase.phase();
    EXPECT_EQ(phase.count(), 1);
    for (int i = 0; i < times.bounds_ms_size(); ++i)
      EXPECT_EQ(phase.within(i), phase.sum_ms() <= times.bounds_ms(i) ? 1 : 0) << phase.phase() << i;
  }
}

TEST(RoundHistoryTest, ALaterCoordinatorTakesOverWhatItsPredecessorTold) {
  const BootTime trouble = FromBootNanos(1'000'000'000), next_began = trouble + absl::Seconds(12);
  RoundHistory before;
  before.OnEnd({.number = 1,
                .end = EndCause::kNodeLoss,
                .cause = "node 1 was lost",
                .trouble = trouble,
                .ran = absl::Minutes(3),
                .detecting = absl::Seconds(4),
                .draining = absl::Seconds(1)});
  before.OnStart(next_began);
  google::protobuf::RepeatedPtrField<v1::Event> held;
  v1::Event* const recovered = held.Add();
  recovered->set_name(events::kRecovered);
  *recovered->mutable_recovery() = RecoveryFrom(before.newest().back());
  before.OnSignOfLife(next_began + absl::Seconds(3));
  v1::Event* const first_sign = held.Add();
  first_sign->set_name(events::kFirstSign);
  *first_sign->mutable_recovery() = StartAfter(before.newest().back());
  for (v1::Event& event : held) event.set_age_ms(20'000);

  RoundHistory history;
  history.OnEnd({.number = 2, .trouble = next_began + absl::Seconds(20)});  // found by itself
  const BootTime now = next_began + absl::Seconds(20);
  history.Adopt(now, held);
  history.Adopt(now, held);  // of another member
  ASSERT_EQ(history.newest().size(), 2u);
  const EndedRound& ended = history.newest().front();
  EXPECT_EQ(ended.number, 1u);
  EXPECT_EQ(ended.cause, "node 1 was lost");
  EXPECT_EQ(ended.trouble, trouble);
  EXPECT_EQ(ended.ran, absl::Minutes(3));
  EXPECT_EQ(ended.gathering, absl::Seconds(7));
  EXPECT_EQ(ended.starting, absl::Seconds(3));
  EXPECT_EQ(history.Restarts(EndCause::kNodeLoss), 0) << "a counter begins with its coordinator";
  EXPECT_EQ(history.LostBy(now), absl::Seconds(12));
  history.OnStart(now + absl::Seconds(1));
  EXPECT_EQ(history.newest().back().number, 2u) << "its own is the open one";
  EXPECT_EQ(history.LostBy(now + absl::Hours(1)), absl::Seconds(13));
}

TEST(RoundHistoryTest, AMemberCannotTellOfThisCoordinatorsRoundsNorTurnTimeBack) {
  google::protobuf::RepeatedPtrField<v1::Event> held;
  for (const uint64_t number : {4, 5, 6}) {
    v1::Event* const event = held.Add();
    event->set_name(events::kRecovered);
    event->set_age_ms(-1'000);
    event->mutable_recovery()->set_ended_round(number);
    event->mutable_recovery()->set_draining_ms(-50'000);
  }
  RoundHistory history;
  const BootTime now = FromBootNanos(1'000'000'000);
  history.OnEnd({.number = 5, .trouble = now});
  history.Adopt(now, held);
  ASSERT_EQ(history.newest().size(), 2u);
  EXPECT_EQ(history.newest().front().trouble, now);
  history.OnStart(now + absl::Seconds(2));
  EXPECT_EQ(history.newest().back().number, 5u);
  EXPECT_EQ(history.newest().back().lost, absl::Seconds(2));
  EXPECT_EQ(history.LostBy(now + absl::Hours(1)), absl::Seconds(2));
}

TEST(RoundHistoryTest, OnlyTheNewestAreKept) {
  RoundHistory history;
  const BootTime began = FromBootNanos(1'000'000'000);
  for (uint64_t number = 1; number <= kMaxRoundsKept + 5; ++number) {
    history.OnEnd({.number = number, .trouble = began});
    history.OnStart(began + absl::Seconds(1));
  }
  EXPECT_EQ(history.newest().size(), kMaxRoundsKept);
  EXPECT_EQ(history.newest().front().number, 6u);
  EXPECT_EQ(history.earlier(), 5);
  EXPECT_EQ(history.LostBy(began + absl::Hours(1)), absl::Seconds(kMaxRoundsKept + 5));
}

TEST(RoundHistoryTest, ASignOfLifeAfterTheEndOfItsRoundDoesNotCount) {
  RoundHistory history;
  const BootTime began = FromBootNanos(1'000'000'000);
  history.OnEnd({.number = 1, .trouble = began});
  history.OnStart(began + absl::Seconds(1));
  history.OnEnd({.number = 2, .trouble = began + absl::Seconds(2)});
  EXPECT_FALSE(history.OnSignOfLife(began + absl::Seconds(3)));
  EXPECT_EQ(history.newest().back().starting, std::nullopt);
}

TEST(SnapshotTest, AnEndedRoundShowsThePhasesOfItsRecovery) {
  const BootTime now = FromBootNanos(1'000'000'000'000);
  Job job(Fixed(2), now, 1);
  job.history.OnEnd({.number = 3,
                     .trouble = now - absl::Seconds(20),
                     .detecting = absl::Seconds(4),
                     .draining = absl::Seconds(1)});
  job.history.OnStart(now - absl::Seconds(8));
  job.history.OnSignOfLife(now - absl::Seconds(5));
  const v1::EndedRound ended = Snapshot(now, job).ended(0);
  EXPECT_EQ(ended.age_ms(), 20'000);
  EXPECT_EQ(ended.detecting_ms(), 4'000);
  EXPECT_EQ(ended.draining_ms(), 1'000);
  EXPECT_EQ(ended.gathering_ms(), 7'000);
  EXPECT_EQ(ended.starting_ms(), 3'000);
}

TEST(SnapshotTest, AnExcludedNodeIsSetAsideForTheRestOfItsTime) {
  const BootTime now = FromBootNanos(1'000'000'000'000);
  Job job(Fixed(2), now, 1);
  Host& host = job.hosts.Get("b");
  host.status.set_host_id("b");
  host.status.set_hostname("b");
  host.stream = 1;
  host.last_status_at = now;
  job.counts.excluded["b"] = now + absl::Seconds(90);
  const v1::JobView view = Snapshot(now, job);
  EXPECT_EQ(view.nodes(0).part(), v1::NodeView::PART_SET_ASIDE);
  EXPECT_EQ(view.nodes(0).set_aside_ms(), 90'000);
  EXPECT_THAT(view.odd(), ElementsAre("b: left out of rounds for 1m30s more"));
}

TEST(SnapshotTest, NodesAboveTheMostAreSpares) {
  Cluster c(Elastic(2, 2));
  StartTwo(&c);
  c.Join("c");
  const v1::JobView view = Look(c);
  ASSERT_EQ(view.nodes_size(), 3);
  EXPECT_EQ(view.nodes(2).hostname(), "c");
  EXPECT_EQ(view.nodes(2).part(), v1::NodeView::PART_SPARE);
  EXPECT_THAT(view.odd(), IsEmpty());
}

TEST(SnapshotTest, AJobWithFewerNodesThanItCouldHaveSaysSo) {
  Cluster c(Elastic(2, 3));
  StartTwo(&c);
  EXPECT_THAT(Look(c).odd(), ElementsAre("runs with 2 of 3 nodes"));
}

TEST(SnapshotTest, ANodeThatIsTroubledSaysWhy) {
  Cluster c(Elastic(2, 2));
  StartTwo(&c);
  c.Join("c");
  c.At("c").status.set_trouble("its preflight failed");
  c.Phase("c", v1::PHASE_UNUSABLE);
  EXPECT_THAT(Look(c).odd(), ElementsAre(HasSubstr("its preflight failed")));
}

TEST(SnapshotTest, WhatStrangersSayIsCut) {
  Cluster c(Fixed(2));
  c.At("a").status.set_version(std::string(1'000, 'v') + "\n");
  c.Join("a", 0);
  EXPECT_LE(Look(c).nodes(0).version().size(), kMaxForeignText + 3);
}

}  // namespace
}  // namespace muster::rendezvous
