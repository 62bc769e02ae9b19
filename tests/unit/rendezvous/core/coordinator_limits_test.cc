// Each time limit of the coordinator to the tick, and what it says when the limit is over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

using ::testing::HasSubstr;

// Nodes a and b run round 1 of a job of one or two nodes.
class LimitsTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(&c_); }
  static void Start(Cluster* c) {
    c->Join("a", 0);
    c->Join("b", 1);
    c->Pass(absl::Seconds(17), {"a", "b"});
    for (const char* name : {"a", "b"}) c->Apply(name);
    ASSERT_EQ(c->state(), State::kRunning);
    ASSERT_EQ(c->Told("a").run().node_count(), 2);
  }
  static std::string Reason(const Cluster& c) { return c.core().verdict().value_or(v1::Verdict()).reason(); }

  Cluster c_{Elastic(1, 2)};
};

TEST(CoordinatorLimits, TheFirstGatheringEndsAtTheJoinTimeout) {
  CoordinatorOptions options = Fixed(2);
  options.join_timeout = absl::Seconds(30);
  Cluster c(options);
  c.Join("a", 0);
  c.Pass(absl::Seconds(30) - kTick, {"a"});
  EXPECT_EQ(c.core().Waiting(), "1 of 2 nodes ready; gives up after 30s (--join-timeout); missing: node 1");
  EXPECT_FALSE(c.core().verdict().has_value());
  c.Pass(kTick, {"a"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 69);
  EXPECT_EQ(c.core().verdict()->origin(), "muster");
  EXPECT_EQ(c.core().verdict()->reason(),
            "too few nodes: 1 of 2 ready within 30s (--join-timeout); missing: node 1");
  EXPECT_EQ(c.core().Waiting(), "");
}

TEST(CoordinatorLimits, AShortJoinTimeoutIsShownAsTheLeaseThatIsWaitedFor) {
  CoordinatorOptions options = Elastic(2, 2);
  options.join_timeout = absl::Seconds(3);
  Cluster c(options);
  c.Join("a");
  c.Pass(absl::Seconds(5), {"a"});
  ASSERT_EQ(c.state(), State::kRecovering);
  EXPECT_EQ(c.Told("a").wait().reason(),
            "1 of 2 nodes ready; gives up after 10s (--join-timeout, at least the lease)");
}

TEST(WaitLimits, AFixedGroupGivesUp) {
  CoordinatorOptions options = Fixed(2);
  options.join_timeout = absl::Seconds(60);
  options.rejoin_timeout = absl::Seconds(90);
  Cluster c(options);
  c.Join("a", 0);
  c.Pass(absl::Seconds(5), {"a"});
  ASSERT_EQ(c.state(), State::kRecovering);
  EXPECT_EQ(c.Told("a").wait().reason(), "1 of 2 nodes ready; gives up after 1m (--join-timeout)");
  c.Pass(absl::Seconds(20), {"a"});
  ASSERT_EQ(c.state(), State::kGathering);
  EXPECT_EQ(c.Told("a").wait().reason(), "1 of 2 nodes ready; gives up after 1m (--join-timeout)");
  c.Join("b", 1);
  EXPECT_EQ(c.Said("(2 of 2 nodes ready)"), 1) << "no limit any more";
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Phase("b", v1::PHASE_HOST_GONE);
  c.Apply("a");
  c.Pass(absl::Seconds(5), {"a"});
  EXPECT_EQ(c.Told("a").wait().reason(), "1 of 2 nodes ready; gives up after 1m30s (--rejoin-timeout)");
}

TEST(WaitLimits, AnElasticGroupStartsWithThoseThatAreReady) {
  CoordinatorOptions options = Elastic(1, 3);
  options.last_call = absl::Seconds(30);
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  c.Pass(absl::Seconds(15), {"a", "b"});
  ASSERT_EQ(c.state(), State::kGathering);
  EXPECT_EQ(c.Told("a").wait().reason(),
            "2 of 3 nodes ready; starts with 2 nodes after 30s (--last-call-timeout)");
  c.Pass(absl::Seconds(30), {"a", "b"});
  EXPECT_EQ(c.state(), State::kRunning) << "as announced";
}

TEST(WaitLimits, TheJoinTimeoutMayEndALongerLastCall) {
  CoordinatorOptions options = Elastic(1, 3);
  options.last_call = absl::Minutes(10);
  options.join_timeout = absl::Minutes(1);
  Cluster c(options);
  c.Join("a", 0);
  c.Pass(absl::Seconds(15), {"a"});
  EXPECT_EQ(c.Told("a").wait().reason(), "1 of 3 nodes ready; starts with 1 node after 1m (--join-timeout)");
}

// Not for the last call: its own time limits apply.
TEST(WaitLimits, AMemberThatPreparesHasTheRejoinTimeout) {
  CoordinatorOptions options = Elastic(1, 2);
  options.rejoin_timeout = absl::Seconds(90);
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Fail("a", 1);
  c.At("b").status.clear_offer();
  c.At("b").status.set_preparing("its preflight runs");
  for (const char* name : {"b", "a"}) c.Apply(name);
  c.Pass(absl::Seconds(5), {"a", "b"});
  ASSERT_EQ(c.state(), State::kGathering);
  EXPECT_EQ(
      c.Told("a").wait().reason(),
      "1 of 2 nodes ready; starts with 1 node after 1m30s (--rejoin-timeout); node 1 (b): its preflight runs");
}

TEST(CoordinatorLimits, WithoutAnyNodeTheJobEndsAtTheJoinTimeout) {
  CoordinatorOptions options = Fixed(2);
  options.join_timeout = absl::Seconds(30);
  Cluster c(options);
  c.Pass(absl::Seconds(30) - kTick, {});
  EXPECT_EQ(c.state(), State::kRecovering);
  c.Pass(kTick, {});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 69);
  EXPECT_EQ(c.core().verdict()->reason(), "no node joined within 30s (--join-timeout)");
}

// The second is a job of one node: its own host joins a moment after the coordinator begins.
TEST(CoordinatorLimits, TheFirstNodeHasAtLeastALease) {
  for (const absl::Duration lease : {absl::Seconds(10), absl::ZeroDuration()}) {
    CoordinatorOptions options = Fixed(1);
    options.lease = lease;
    options.join_timeout = absl::ZeroDuration();
    Cluster c(options);
    c.Pass(absl::Seconds(10) - kTick, {});
    EXPECT_FALSE(c.core().verdict().has_value());
    c.Pass(kTick, {});
    ASSERT_TRUE(c.core().verdict().has_value());
    EXPECT_EQ(c.core().verdict()->reason(), "no node joined within 10s (--join-timeout)");
  }
}

// A gathering that the coordinator before began: its nodes report for how long.
TEST(CoordinatorLimits, AGatheringGoesOnWithAnotherCoordinator) {
  CoordinatorOptions options = Fixed(2);
  options.join_timeout = absl::Seconds(60);
  Cluster c(options);
  c.At("a").status.set_gathering_ms(40'000);
  c.Join("a", 0);
  c.At("a").status.clear_gathering_ms();
  c.Pass(absl::Seconds(20) - kTick, {"a"});
  EXPECT_FALSE(c.core().verdict().has_value());
  c.Pass(kTick, {"a"});
  EXPECT_TRUE(c.core().verdict().has_value());
}

TEST(CoordinatorLimits, ANewCoordinatorWaitsForLeaseAndMargin) {
  Cluster c(Elastic(1, 2));
  c.Join("a", 0);
  c.Pass(absl::Seconds(11), {"a"});
  EXPECT_EQ(c.state(), State::kRecovering);
  c.Pass(kTick, {"a"});
  EXPECT_EQ(c.state(), State::kGathering);
}

TEST(CoordinatorLimits, TheLastCallBeginsOnceMinNodesAreReady) {
  Cluster c(Elastic(1, 2));
  c.Join("a", 0);
  c.Pass(absl::Milliseconds(11'100), {"a"});
  ASSERT_EQ(c.state(), State::kGathering);
  c.Pass(absl::Seconds(5) - kTick, {"a"});
  EXPECT_EQ(c.state(), State::kGathering);
  c.Pass(kTick, {"a"});
  EXPECT_EQ(c.state(), State::kRunning);
}

TEST_F(LimitsTest, ADisconnectedMemberEndsTheRoundAfterTheGrace) {
  c_.Close("b");
  c_.Pass(absl::Seconds(2), {"a"});
  EXPECT_EQ(c_.state(), State::kRunning);
  c_.Pass(kTick, {"a"});
  ASSERT_EQ(c_.state(), State::kDraining);
  EXPECT_EQ(c_.Told("a").stop().cause(), "node 1 (b) disconnected and did not reconnect within 2s");
}

TEST_F(LimitsTest, AMemberThatReconnectsInTimeEndsNothing) {
  c_.Close("b");
  c_.Pass(absl::Seconds(2), {"a"});
  c_.Attach("b");
  c_.Pass(absl::Seconds(20), {"a", "b"});
  EXPECT_EQ(c_.state(), State::kRunning);
  EXPECT_EQ(c_.core().greatest().id().number(), 1u);
}

TEST_F(LimitsTest, ALostNodesRankIsFreeAfterLeaseAndMargin) {
  c_.Say("b");
  c_.Close("b");
  c_.Pass(absl::Milliseconds(11'100), {"a"});
  EXPECT_EQ(c_.state(), State::kDraining);
  c_.Pass(kTick, {"a"});
  EXPECT_EQ(c_.state(), State::kRunning);
  EXPECT_EQ(c_.core().greatest().node_count(), 1);
  EXPECT_EQ(c_.Events(events::kNodeLost).size(), 1u);
  EXPECT_EQ(c_.core().greatest().loss_ages_ms_size(), 1);
}

TEST_F(LimitsTest, AnAttachedNodeThatIsSilentIsLostAfterLeaseAndMargin) {
  c_.Say("b");
  c_.Pass(absl::Milliseconds(11'100), {"a"});
  EXPECT_EQ(c_.state(), State::kRunning);
  EXPECT_FALSE(c_.At("b").closed);
  c_.Pass(kTick, {"a"});
  EXPECT_NE(c_.core().greatest().id().number() == 1 && c_.state() == State::kRunning, true);
  EXPECT_TRUE(c_.At("b").closed) << "its agent connects again, if it lives";
  EXPECT_EQ(c_.Said("node 1 (b) was lost: no heartbeat for 11s"), 1);
}

TEST(CoordinatorLimits, AMemberHasARunLimitToStart) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  ASSERT_EQ(c.state(), State::kRunning);
  const auto pass = [&c](absl::Duration duration) {
    c.Pass(duration, {"a"});
    c.Say("b");
  };
  for (int second = 0; second < 70; ++second) pass(absl::Seconds(1));
  EXPECT_EQ(c.state(), State::kRunning);
  pass(kTick);
  EXPECT_EQ(c.state(), State::kDraining);
}

TEST(CoordinatorLimits, AStartErrorIsAVerdictOnceLatecomersHadTime) {
  Cluster c(Fixed(3));
  c.At("b").status.mutable_cannot_start()->set_exit_code(127);
  c.At("b").status.mutable_cannot_start()->set_error_text("no program x");
  c.Join("b", 1);
  c.Join("a", 0);
  c.Pass(absl::Milliseconds(11'100), {"a", "b"});
  ASSERT_EQ(c.state(), State::kGathering);
  c.Pass(kLatecomers - kTick, {"a", "b"});
  EXPECT_FALSE(c.core().verdict().has_value());
  c.Pass(kTick, {"a"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 127);
  EXPECT_EQ(c.core().verdict()->origin(), "muster");
  EXPECT_EQ(c.core().verdict()->reason(), "b cannot start: no program x");
  EXPECT_EQ(c.core().verdict()->root_cause().exit_code(), 127);
}

TEST(CoordinatorLimits, AReleaseIsAwaitedForALimitedTime) {
  Cluster c(Fixed(1, 0));
  c.Join("a", 0);
  c.Apply("a");
  c.Phase("a", v1::PHASE_SUCCEEDED);
  c.Apply("a");
  ASSERT_EQ(c.state(), State::kReleasing);
  EXPECT_FALSE(c.core().finished());
  const auto stay = [&c](absl::Duration duration) {
    for (absl::Duration d; d < duration; d += kTick) {
      c.Say("a");
      c.Pass(kTick, {});
    }
  };
  stay(kReleaseLimit);
  EXPECT_FALSE(c.core().finished());
  stay(kTick);
  EXPECT_TRUE(c.core().finished());
}

TEST(CoordinatorLimits, ALiveHolderOfAPlaceIsARivalAfterASecond) {
  const auto says = [](absl::Duration after) {
    Cluster c(Fixed(3));
    c.Join("b", 1);
    c.Join("again", 1);
    c.Jump(after);
    c.Say("b");
    c.Pass(kTick, {});
    return c.Said("both claim node 1");
  };
  EXPECT_EQ(says(kRivalAfter - absl::Milliseconds(1)), 0);
  EXPECT_EQ(says(kRivalAfter), 1);
}

// A long drain is logged from a second on.
TEST_F(LimitsTest, ALongDrainIsLoggedOnceItIsNoticeable) {
  c_.Fail("a", 1);
  c_.Pass(kNoticeableWait - kTick, {});
  EXPECT_EQ(c_.Said("waiting for workers to stop"), 0);
  c_.Pass(kTick, {});
  EXPECT_EQ(c_.Said("round 1 ends; waiting for workers to stop or leases to expire on node 0 (a), node 1 (b); "
                    "SIGKILL follows in 29s (--shutdown-timeout); the last lease ends in 11s (--lease)"),
            1)
      << "nobody knows yet whether they have heard of the end";
  c_.Pass(absl::Seconds(3), {});
  EXPECT_EQ(c_.Said("waiting for workers to stop"), 1);
}

TEST_F(LimitsTest, WorkersThatAreBeingStoppedHaveTheirGracePeriod) {
  c_.Fail("a", 1);
  c_.Apply("a");
  *c_.At("b").status.mutable_applied() = c_.Told("b").id();
  c_.Phase("b", v1::PHASE_STOPPING);
  c_.Pass(kNoticeableWait, {"a"});
  EXPECT_EQ(c_.Said("waiting for workers to end on node 1 (b); SIGKILL follows in 29s (--shutdown-timeout)"), 1);
  EXPECT_EQ(c_.Said("(--lease)"), 0);
}

TEST_F(LimitsTest, ALongDrainNamesTheEndOfTheLeases) {
  c_.Close("b");
  c_.Fail("a", 1);
  c_.Apply("a");
  c_.Pass(kNoticeableWait, {"a"});
  EXPECT_EQ(
      c_.Said(
          "waiting for workers to stop or leases to expire on node 1 (b); the last lease ends in 11s (--lease)"),
      1);
}

TEST_F(LimitsTest, TheGracePeriodOfALeavingNodeIsItsOwn) {
  c_.Phase("b", v1::PHASE_LEAVING);
  c_.Apply("a");
  c_.Pass(kNoticeableWait, {"a"});
  EXPECT_EQ(c_.Said("waiting for workers to end on node 1 (b)"), 1);
  EXPECT_EQ(c_.Said("--shutdown-timeout"), 0);
}

// This coordinator may be the one that is cut off, together with the node that saves: its successor waits only so
// long.
TEST_F(LimitsTest, ALeavingNodeIsServedForAGraceOnceAnotherIsMissed) {
  c_.Phase("b", v1::PHASE_LEAVING);
  const auto is_served_for = [&](absl::Duration time) {
    for (absl::Duration t; t < time; t += absl::Seconds(1)) {
      c_.Pass(absl::Seconds(1), {});
      c_.Say("b");
      if (!c_.Told("b").has_lease()) return false;
    }
    return true;
  };
  const CoordinatorOptions& options = c_.core().job().options;
  const absl::Duration noticed = options.lease + options.margin();
  EXPECT_TRUE(is_served_for(noticed + options.shutdown_grace - absl::Seconds(1)));
  EXPECT_FALSE(is_served_for(absl::Seconds(4)));
}

TEST_F(LimitsTest, EachLongDrainIsLogged) {
  for (int round = 1; round <= 2; ++round) {
    c_.Fail("a", 1);
    c_.Pass(absl::Seconds(2), {});
    EXPECT_EQ(c_.Said("waiting for workers to stop"), round);
    c_.Pass(absl::Seconds(2), {"a", "b"});
    ASSERT_EQ(c_.state(), State::kRunning);
  }
}

TEST(CoordinatorLimits, ALeaseIsComparedWithAllNodesThatAttach) {
  CoordinatorOptions options = Fixed(3000);
  options.lease = absl::Seconds(10);
  Cluster c(options);
  c.Pass(absl::Seconds(1), {});
  EXPECT_EQ(c.Said("3000 nodes cannot all reconnect to a restarted coordinator within a lease of 10s"), 1);
  options.lease = absl::ZeroDuration();
  Cluster leaseless(options);
  leaseless.Pass(absl::Seconds(1), {});
  EXPECT_TRUE(leaseless.warnings().empty());
}

// ---- pauses of the coordinator's own process: every deadline moves by the time missed

TEST_F(LimitsTest, APauseProlongsTheReconnectGrace) {
  c_.Close("b");
  c_.Jump(absl::Seconds(5));
  EXPECT_EQ(c_.state(), State::kRunning);
  c_.Pass(absl::Milliseconds(1900), {"a"});  // 0.1 s of the grace had passed
  EXPECT_EQ(c_.state(), State::kRunning);
  c_.Pass(kTick, {"a"});
  EXPECT_EQ(c_.state(), State::kDraining);
}

TEST_F(LimitsTest, APauseProlongsLeases) {
  c_.Say("b");
  c_.Close("b");
  c_.Pass(absl::Seconds(3), {"a"});
  ASSERT_EQ(c_.state(), State::kDraining);
  c_.Jump(absl::Seconds(5));  // 4.9 s late
  c_.Pass(absl::Seconds(8), {"a"});
  EXPECT_EQ(c_.state(), State::kDraining);
  c_.Pass(kTick, {"a"});
  EXPECT_EQ(c_.state(), State::kRunning);
}

TEST_F(LimitsTest, PausesProlongLeasesByOneLeaseInAll) {
  c_.Say("b");
  c_.Close("b");
  c_.Pass(absl::Seconds(3), {"a"});
  c_.Jump(absl::Seconds(8));  // 7.9 s late
  c_.Jump(absl::Seconds(8));  // counts for the rest of 10 s
  c_.Apply("a");
  EXPECT_EQ(c_.state(), State::kDraining);
  c_.Pass(absl::Seconds(2), {"a"});
  EXPECT_EQ(c_.state(), State::kDraining);
  c_.Pass(absl::Milliseconds(300), {"a"});
  EXPECT_EQ(c_.state(), State::kRunning);
}

TEST_F(LimitsTest, AnEventThatIsALittleLateMovesNothing) {
  c_.Close("b");
  for (int i = 0; i < 4; ++i) c_.Jump(kLateness);  // each 0.4 s late
  EXPECT_EQ(c_.state(), State::kRunning);
  c_.Jump(kTick);
  EXPECT_EQ(c_.state(), State::kDraining);
}

TEST(CoordinatorLimits, APauseProlongsTheTimeToStart) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.Jump(absl::Seconds(5));
  for (int second = 0; second < 69; ++second) {
    c.Pass(absl::Seconds(1), {"a"});
    c.Say("b");
  }
  EXPECT_EQ(c.state(), State::kRunning);
}

// ---- each verdict's text

class BudgetTextTest : public ::testing::Test {
 protected:
  // The verdict's reason when b fails as often as the options allow, and once more.
  static v1::Verdict AfterFailures(int max_restarts, int exit_code = 3) {
    Cluster c(Fixed(2, max_restarts));
    c.Join("a", 0);
    c.Join("b", 1);
    for (int i = 0; i <= max_restarts; ++i) {
      for (const char* name : {"a", "b"}) c.Apply(name);
      c.Fail("b", exit_code);
      c.Pass(absl::Seconds(3), {"a", "b"});
    }
    return c.core().verdict().value_or(v1::Verdict());
  }
  // The same for losses of nodes.
  static v1::Verdict AfterLosses(int max_losses) {
    CoordinatorOptions options = Elastic(1, 5);
    options.max_node_losses = max_losses;
    Cluster c(options);
    std::vector<std::string> names = {"n0", "n1", "n2", "n3", "n4"};
    for (size_t i = 0; i < names.size(); ++i) c.Join(names[i], static_cast<int>(i));
    while (!c.core().verdict() && !names.empty()) {
      c.Pass(absl::Seconds(2), names);
      const std::string last = names.back();
      names.pop_back();
      c.At(last).status.set_live_workers(0);
      c.Phase(last, v1::PHASE_HOST_GONE);
      c.Pass(absl::Seconds(1), names);
    }
    return c.core().verdict().value_or(v1::Verdict());
  }
};

TEST_F(BudgetTextTest, RestartsNamesItsLimit) {
  const std::string failed = "rank 2 on b exited with code 3";
  EXPECT_EQ(AfterFailures(0).reason(), failed + "; no restart is allowed (--max-restarts)");
  EXPECT_EQ(AfterFailures(1).reason(), failed + "; the only allowed restart is used up (--max-restarts)");
  EXPECT_EQ(AfterFailures(2).reason(), failed + "; all 2 allowed restarts are used up (--max-restarts)");
  EXPECT_EQ(AfterFailures(0).origin(), "worker");
  EXPECT_EQ(AfterFailures(0).exit_code(), 3);
}

// A wrong command line, or a program that is not there, would fail again.
TEST_F(BudgetTextTest, NoRestartIsMissedWhereItWouldFailAgain) {
  for (const int code : {2, kExitUsage, kExitNotExecutable, kExitNotFound})
    EXPECT_THAT(AfterFailures(0, code).reason(), Not(HasSubstr("restart"))) << code;
}

TEST_F(BudgetTextTest, LossesNameTheirLimit) {
  EXPECT_EQ(AfterLosses(0).reason(),
            "node 4 (n4) was lost: its main process died; no node loss is allowed (--max-node-losses)");
  EXPECT_EQ(
      AfterLosses(1).reason(),
      "node 3 (n3) was lost: its main process died; the only allowed node loss is used up (--max-node-losses)");
  EXPECT_EQ(AfterLosses(2).reason(),
            "node 2 (n2) was lost: its main process died; all 2 allowed node losses are used up "
            "(--max-node-losses)");
  EXPECT_EQ(AfterLosses(0).origin(), "muster");
  EXPECT_EQ(AfterLosses(0).exit_code(), 69);
}

// ---- why a node is not ready

// What a, ready, hears of the absent nodes of a job of three.
std::vector<std::string> Absent(bool placed, const std::function<void(Cluster*)>& change) {
  Cluster c(Fixed(3));
  c.Join("a", placed ? 0 : -1);
  c.Join("b", placed ? 1 : -1);
  c.Pass(absl::Seconds(12), {"a", "b"});
  change(&c);
  c.Pass(absl::Milliseconds(500), {"a"});
  const v1::Wait wait = c.Told("a").wait();
  return {wait.absent().begin(), wait.absent().end()};
}

TEST(AbsentNodes, AreNamedWithTheReason) {
  using Names = std::vector<std::string>;
  const auto disconnected = [](Cluster* c) { c->Close("b"); };
  const auto leaving = [](Cluster* c) {
    c->At("b").status.set_live_workers(1);
    c->Phase("b", v1::PHASE_LEAVING);
  };
  const auto stopping = [](Cluster* c) {
    c->At("b").status.set_live_workers(1);
    c->Phase("b", v1::PHASE_STOPPING);
  };
  const auto portless = [](Cluster* c) {
    c->At("b").status.clear_offer();
    c->Say("b");
  };
  const auto preparing = [](Cluster* c) {
    c->At("b").status.clear_offer();
    c->At("b").status.set_preparing("its preflight runs");
    c->Say("b");
  };
  const auto unusable = [](Cluster* c) { c->Phase("b", v1::PHASE_UNUSABLE); };
  const auto unusable_and_gone = [](Cluster* c) {
    c->Phase("b", v1::PHASE_UNUSABLE);
    c->Close("b");
  };
  EXPECT_EQ(Absent(true, unusable_and_gone), (Names{"node 1", "node 2"}));
  EXPECT_EQ(Absent(true, disconnected), (Names{"node 1 (b: disconnected)", "node 2"}));
  EXPECT_EQ(Absent(false, disconnected), (Names{"1 more node", "b (disconnected)"}));
  EXPECT_EQ(Absent(true, leaving), (Names{"node 1 (b: leaving)", "node 2"}));
  EXPECT_EQ(Absent(false, leaving), (Names{"1 more node", "b (leaving)"}));
  EXPECT_EQ(Absent(true, stopping), (Names{"node 1 (b: stopping its workers)", "node 2"}));
  EXPECT_EQ(Absent(true, portless),
            (Names{"node 1 (b: no port reserved for its workers, see its log)", "node 2"}));
  EXPECT_EQ(Absent(true, preparing), Names{"node 2"}) << "the reason for waiting names it";
  EXPECT_EQ(Absent(true, unusable), Names{"node 2"}) << "the reason for waiting names it";
  EXPECT_EQ(Absent(false, unusable), Names{"1 more node"});
}

// A primary that nobody has connected to: it has a port, but does not know its own address.
std::string WaitingOfPrimary(const CoordinatorOptions& options, bool has_port, absl::Duration wait,
                             int place = 0) {
  Cluster c(options);
  c.At("a").status.set_at_primary(true);
  c.At("a").status.set_preparing("its setup runs");
  c.Join("a", place);
  c.At("a").status.clear_preparing();
  if (has_port) c.At("a").status.mutable_offer()->set_port(5000);
  c.Say("a");
  c.Pass(wait, {"a"});
  return c.core().verdict() ? c.core().verdict()->reason() : c.core().Waiting();
}

TEST(AbsentNodes, APrimaryWithoutAnAddressCountsAsReady) {
  const auto says = [](const CoordinatorOptions& options, bool has_port) {
    return WaitingOfPrimary(options, has_port, absl::Milliseconds(200));
  };
  const std::string end = "; gives up after 10m (--join-timeout)";
  EXPECT_EQ(says(Fixed(2), true), "1 of 2 nodes ready" + end + "; missing: node 1");
  EXPECT_EQ(says(Fixed(2), false), "0 of 2 nodes ready" + end +
                                       "; missing: node 0 (a: no port reserved for its workers, see its log), "
                                       "node 1");
  EXPECT_EQ(says(Fixed(1), true),
            "0 of 1 node ready" + end + "; missing: node 0 (a: ready once another node has joined)")
      << "its address alone is missing";
  EXPECT_EQ(WaitingOfPrimary(Fixed(2), true, absl::Milliseconds(200), -1),
            "1 of 2 nodes ready" + end + "; missing: 1 more node");
}

TEST(AbsentNodes, TooFewAreNeverAsManyAsAreNeeded) {
  for (CoordinatorOptions options : {Fixed(1), Fixed(2), Elastic(1, 2)}) {
    options.join_timeout = absl::Seconds(15);
    const std::string why = WaitingOfPrimary(options, true, absl::Seconds(20));
    const int ready = options.min_nodes - 1;
    EXPECT_THAT(why, HasSubstr(absl::StrCat("too few nodes: ", ready, " of ", options.min_nodes, " ready")));
  }
}

TEST(AbsentNodes, UnfitNodesAreNamedUpToALimit) {
  Cluster c(Fixed(6));
  c.Join("a", 0);
  for (int i = 1; i <= kMaxUnusableNamed + 1; ++i) {
    const std::string name = absl::StrCat("n", i);
    c.Join(name, i);
    c.At(name).status.set_trouble("a GPU is gone");
    c.Phase(name, v1::PHASE_UNUSABLE);
  }
  c.Pass(absl::Seconds(1), {"a"});
  EXPECT_EQ(c.Told("a").wait().reason(),
            "1 of 6 nodes ready; gives up after 10m (--join-timeout); a GPU is gone; a GPU is gone; a GPU is "
            "gone; and 1 more");
}

TEST(AbsentNodes, ExactlyAsManyAsTheLimitAreAllNamed) {
  Cluster c(Fixed(6));
  c.Join("a", 0);
  for (int i = 1; i <= kMaxUnusableNamed; ++i) {
    const std::string name = absl::StrCat("n", i);
    c.At(name).status.clear_offer();
    c.At(name).status.set_preparing("its preflight runs");
    c.Join(name, i);
  }
  c.Pass(absl::Seconds(1), {"a"});
  EXPECT_EQ(
      c.Told("a").wait().reason(),
      "1 of 6 nodes ready; gives up after 10m (--join-timeout); node 1 (n1): its preflight runs; node 2 (n2): "
      "its preflight runs; node 3 (n3): its preflight runs");
}

// ---- the cost of waiting

uint64_t VisitsOfATick(Cluster* c) {
  const uint64_t before = c->core().host_visits();
  c->Pass(kTick, {});
  return c->core().host_visits() - before;
}

// A decision ends as soon as a step changes nothing.
TEST(CoordinatorDecisions, WaitingCostsTheSameAtEachTick) {
  constexpr uint64_t kLoops = 14;  // over all hosts; a decision may take kMaxSteps steps, with a few loops each
  constexpr int kNodes = 4;
  std::vector<std::string> names;
  for (int i = 0; i < kNodes; ++i) names.push_back(absl::StrCat("n", i));
  CoordinatorOptions options = Fixed(kNodes + 1);
  options.restart_delay = absl::Seconds(30);
  options.scale_up = ScaleUp::kOnRestart;
  Cluster c(options);
  for (int i = 0; i < kNodes; ++i) c.Join(names[static_cast<size_t>(i)], i);
  EXPECT_LE(VisitsOfATick(&c), kLoops * kNodes) << "recovering";
  c.Pass(absl::Seconds(12), names);
  ASSERT_EQ(c.state(), State::kGathering);
  EXPECT_LE(VisitsOfATick(&c), kLoops * kNodes) << "gathering";
  names.emplace_back("n4");
  c.Join("n4", kNodes);
  c.Pass(absl::Seconds(1), names);
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_LE(VisitsOfATick(&c), kLoops * names.size()) << "running";
  for (int failures = 0; failures < 2; ++failures) {
    ASSERT_EQ(c.state(), State::kRunning);
    c.Fail("n0", 1);
    c.Pass(absl::Seconds(1), {"n0", "n1", "n2", "n3"});
    ASSERT_EQ(c.state(), State::kDraining);
    EXPECT_LE(VisitsOfATick(&c), kLoops * names.size()) << "draining";
    c.Pass(absl::Seconds(1), names);
  }
  ASSERT_EQ(c.state(), State::kGathering);
  EXPECT_LE(VisitsOfATick(&c), kLoops * names.size()) << "pausing";
  c.Pass(absl::Minutes(1), names);
  ASSERT_EQ(c.state(), State::kRunning);
  for (const std::string& name : names) c.Phase(name, v1::PHASE_SUCCEEDED);
  ASSERT_EQ(c.state(), State::kVerdict);
  EXPECT_LE(VisitsOfATick(&c), kLoops * names.size()) << "the verdict";
  for (const std::string& name : names) c.Apply(name);
  ASSERT_EQ(c.state(), State::kReleasing);
  EXPECT_LE(VisitsOfATick(&c), kLoops * names.size()) << "releasing";
}

}  // namespace
}  // namespace muster::rendezvous
