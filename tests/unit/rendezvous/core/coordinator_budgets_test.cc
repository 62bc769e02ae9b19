// What the coordinator counts: restarts, pauses, progress; and nodes that are excluded or unfit.
#include <gtest/gtest.h>

#include <limits>

#include "base/exit_codes.h"
#include "rendezvous/core/coordinator.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

void FailAndDrain(Cluster* c, const std::string& name, int code = 7) {
  c->Fail(name, code);
  for (const char* each : {"a", "b"}) c->Apply(each);
}

TEST(Coordinator, ThreeRestartsWithoutProgressAre93) {
  Cluster c(Fixed(2, 100));
  c.At("b").status.set_watches_progress(true);  // one node that can see the file is enough
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
  ASSERT_TRUE(c.Told("a").has_verdict()) << "three restarts after the last progress";
  EXPECT_EQ(c.Told("a").verdict().exit_code(), 93);
}

TEST(Coordinator, ALostNodeThatWatchedProgressStillCounts) {
  Cluster c(Fixed(2));
  c.At("b").status.set_watches_progress(true);
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* each : {"a", "b"}) c.Apply(each);
  c.Pass(kLongRound, {"a", "b"});
  c.Close("b");
  c.Pass(absl::Seconds(60), {"a"});
  ASSERT_EQ(c.state(), State::kGathering);
  EXPECT_EQ(c.core().job().counts.idle_changes, 1) << "a long round without a touch of the file is no progress";
}

// It spends a restart like another failure: the machine may have a process to spare by then.
TEST(Coordinator, AWorkerThatCouldNotBeStartedIsNotTheWorkersFault) {
  Cluster c(Fixed(2, 1));
  c.Join("a", 0);
  c.Join("b", 1);
  const auto run = [&] {
    c.Apply("a");
    c.Apply("b");
  };
  run();
  FailAndDrain(&c, "a", kExitFault);
  ASSERT_EQ(c.Told("a").run().restart_count(), 1);
  run();
  FailAndDrain(&c, "a", kExitFault);
  ASSERT_TRUE(c.Told("b").has_verdict());
  EXPECT_EQ(c.Told("b").verdict().origin(), "muster");
  EXPECT_EQ(c.Told("b").verdict().reason(),
            "rank 0 on a could not be started; the only allowed restart is used up (--max-restarts)");
}

TEST(Coordinator, ATakenPortCostsNoRestart) {
  Cluster c(Fixed(2, 0));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Fail("a", 1);
  c.At("a").status.mutable_failure()->set_port_taken(true);
  for (const char* each : {"a", "b"}) c.Apply(each);
  EXPECT_EQ(c.Told("a").run().restart_count(), 1);
  EXPECT_EQ(c.Told("a").run().failures(), 0);
}

TEST(Coordinator, ARestartIsAnnouncedWithItsLimit) {
  Cluster c(Fixed(2, 3));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  EXPECT_EQ(c.Said("restart "), 0);
  FailAndDrain(&c, "a");
  EXPECT_EQ(c.Said("restart 1 of 3: starting "), 1);
  EXPECT_EQ(c.Said(" on 2 nodes, round 2, master "), 1);
}

TEST(Coordinator, ARestartWithinAWindowIsAnnouncedWithWhatIsLeft) {
  CoordinatorOptions options = Fixed(2, 2);
  options.restart_window = absl::Hours(1);
  options.max_node_losses = 1;
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "a");
  EXPECT_EQ(c.Said("restart 1 (left: 1 worker failure, 1 node loss): starting "), 1);
}

TEST(Coordinator, TheNextRoundWaitsAfterTwoFastFailures) {
  CoordinatorOptions options = Fixed(2, 100);
  options.restart_delay = absl::Seconds(4);
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "a");
  ASSERT_TRUE(c.Told("a").has_run()) << "the first fast failure causes no pause";
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "a");
  EXPECT_TRUE(c.Told("a").has_wait());
  c.Pass(absl::Seconds(1.5), {"a", "b"});
  EXPECT_NE(c.Told("a").wait().reason().find("the last 2 rounds failed"), std::string::npos);
  c.Pass(absl::Seconds(2.6), {"a", "b"});
  EXPECT_TRUE(c.Told("a").has_run());
}

TEST(Coordinator, ARepeatedCauseIsReplacedByASpare) {
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
  ASSERT_TRUE(c.Told("b").has_run()) << "one failure does not exclude a node";
  c.Apply("a");
  c.Apply("b");
  FailAndDrain(&c, "b");
  ASSERT_TRUE(c.Told("spare").has_run());
  EXPECT_EQ(c.Told("spare").run().node_rank(), 1);
  EXPECT_NE(c.Told("b").wait().reason().find("this node is excluded"), std::string::npos);
  ASSERT_EQ(c.warnings().size(), 1u);
  EXPECT_NE(c.warnings()[0].find("root cause 2 times in a row"), std::string::npos);
}

TEST(Coordinator, WaitingReasonsDoNotChangeWithTheClock) {
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
  EXPECT_NE(pause.find("before the next one"), std::string::npos);
  EXPECT_NE(aside.find("this node is excluded for 1h"), std::string::npos);
  c.Pass(absl::Seconds(3), {"a", "b", "spare"});
  EXPECT_EQ(c.Told("a").wait().reason(), pause) << "each change is a line in its log";
  EXPECT_EQ(c.Told("b").wait().reason(), aside);
}

TEST(Coordinator, AnExcludedNodeHasNoPlaceInLine) {
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

TEST(Coordinator, ARoundsAgeComesFromItsMembers) {
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

TEST(Coordinator, ALateReportOfAFastFailureIsStillFast) {
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
    last->set_node_count(1);
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

TEST(Coordinator, ANeededNodeIsNotExcluded) {
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

// The status of a host that is unfit for a round.
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

TEST(Coordinator, StoppedWorkersOfOtherNodesAreListedBesideTheCause) {
  Cluster c(Fixed(2, 0));
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Fail("a", 7);
  v1::Failure* stopped = c.At("b").status.mutable_failure();
  *stopped->mutable_round() = c.At("b").status.last().id();
  stopped->set_rank(2);
  stopped->set_signal(15);
  stopped->set_after_our_signal(true);
  c.Apply("b");
  c.Apply("a");
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 7);
  EXPECT_EQ(c.core().verdict()->root_cause().rank(), 0);
  ASSERT_EQ(c.core().verdict()->other_failures_size(), 1);
  EXPECT_EQ(c.core().verdict()->other_failures(0).rank(), 2);
  EXPECT_TRUE(c.core().verdict()->other_failures(0).after_our_signal());
}

TEST(Coordinator, AnUnfitNodeIsLeftOutAndNamed) {
  Cluster c(Fixed(2));
  c.Join("b", 1);
  Unfit(&c, "b");
  c.Join("a", 0);
  c.Pass(absl::Seconds(20), {"a", "b"});
  ASSERT_TRUE(c.Told("a").has_wait());
  EXPECT_EQ(c.Told("a").wait().reason(),
            "1 of 2 nodes ready; gives up after 10m (--join-timeout); preflight failed on b: exit code 3");
  EXPECT_EQ(c.Told("a").wait().absent_count(), 0) << "it is here";
  EXPECT_EQ(c.Told("b").wait().reason(), "preflight failed on b: exit code 3");
  EXPECT_EQ(c.warnings().size(), 1u);
  FitAgain(&c, "b");
  c.Apply("a");
  EXPECT_TRUE(c.Told("a").has_run());
}

TEST(Coordinator, ASpareTakesAnUnfitNodesRankAtOnce) {
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
  EXPECT_EQ(c.Told("spare").run().failures(), 1) << "being unfit after the round is not charged";
  EXPECT_EQ(c.Told("spare").run().loss_ages_ms_size(), 0);
}

TEST(Coordinator, ANodeInPreflightKeepsItsRank) {
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
  EXPECT_EQ(
      c.Told("a").wait().reason(),
      "2 of 2 nodes ready; starts with 2 nodes after 30m (--rejoin-timeout); node 1 (b): its preflight runs");
  b.clear_preparing();
  *b.mutable_offer() = offer;
  c.Apply("b");
  EXPECT_TRUE(c.Told("b").has_run());
  EXPECT_FALSE(c.Told("spare").has_run());
}

TEST(Coordinator, AStandbyTakesAnUnfitNodesPlace) {
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

TEST(Coordinator, AnUnfitSpareHasNoPlaceInLine) {
  Cluster c(InAgent(Fixed(2, 100)));
  for (const char* name : {"a", "b", "x", "y"}) c.Join(name);
  c.Apply("a");
  c.Apply("b");
  Unfit(&c, "x");
  c.Apply("y");
  EXPECT_EQ(c.Told("x").wait().place_in_line(), 0);
  EXPECT_EQ(c.Told("y").wait().place_in_line(), 1);
}

TEST(Coordinator, TooFewNodesNamesTheUnfit) {
  CoordinatorOptions options = Fixed(2);
  Cluster c(options);
  c.Join("b", 1);
  Unfit(&c, "b");
  c.Join("a", 0);
  c.Pass(options.join_timeout + absl::Seconds(20), {"a", "b"});
  ASSERT_TRUE(c.Told("a").has_release());
  EXPECT_NE(c.Told("a").release().reason().find("preflight failed on b: exit code 3"), std::string::npos);
}

TEST(Coordinator, ACoordinatorThatWasLateSuspectsNobody) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Apply("b");
  c.Close("b");
  c.Jump(absl::Seconds(5));  // the coordinator was stopped for longer than the reconnect grace
  EXPECT_EQ(c.state(), State::kRunning);
  c.Pass(absl::Seconds(3), {"a"});
  EXPECT_EQ(c.state(), State::kDraining);
}

}  // namespace
}  // namespace muster::rendezvous
