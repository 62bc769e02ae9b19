// Which statuses the coordinator accepts, and which of them it decides upon at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/wire/ranges.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

using Change = std::function<void(v1::AgentStatus*)>;

// Why a node whose status is changed so is refused; "": it is not.
std::string WhyRefused(const Change& change) {
  Cluster c(Fixed(2));
  c.Join("a");
  v1::AgentStatus& status = c.At("a").status;
  status.mutable_last()->mutable_id()->set_number(1);
  status.mutable_last()->mutable_id()->mutable_epoch()->set_number(1);
  status.mutable_last()->set_node_count(3);
  change(&status);
  c.Say("a");
  return c.Told("a").refused().reason();
}

v1::PrimaryEnded* Farewell(v1::AgentStatus* status) {
  v1::PrimaryEnded* ended = status->mutable_last()->mutable_primary_ended();
  ended->set_known_to(1);
  return ended;
}

TEST(CoordinatorStatuses, CountsHaveBounds) {
  using Set = std::function<void(v1::AgentStatus*, int)>;
  struct Bounds {
    const char* name;
    Set set;
    int least;
    int most;
  };
  const Bounds all[] = {
      {"restarts", [](auto* s, int n) { s->mutable_last()->set_restart_count(n); }, 0, kMaxCount},
      {"failures", [](auto* s, int n) { s->mutable_last()->set_failures(n); }, 0, kMaxCount},
      {"fast", [](auto* s, int n) { s->mutable_last()->set_fast_failures(n); }, 0, kMaxCount},
      {"idle failures", [](auto* s, int n) { s->mutable_last()->set_idle_failures(n); }, 0, kMaxCount},
      {"idle changes", [](auto* s, int n) { s->mutable_last()->set_idle_changes(n); }, 0, kMaxCount},
      {"streak", [](auto* s, int n) { s->mutable_last()->set_culprit_streak(n); }, 0, kMaxCount},
      {"nodes", [](auto* s, int n) { s->mutable_last()->set_node_count(n); }, 1, kMaxNodes},
      {"largest", [](auto* s, int n) { s->mutable_last()->set_largest_node_count(n); }, 0, kMaxNodes},
      {"ended rank", [](auto* s, int n) { Farewell(s)->set_node_rank(n); }, 0, 2},
  };
  for (const Bounds& bounds : all) {
    const auto why = [&](int n) { return WhyRefused([&](v1::AgentStatus* s) { bounds.set(s, n); }); };
    EXPECT_EQ(why(bounds.least), "") << bounds.name;
    EXPECT_EQ(why(bounds.most), "") << bounds.name;
    EXPECT_EQ(why(bounds.least - 1).find("invalid status: "), 0u) << bounds.name;
    EXPECT_EQ(why(bounds.most + 1).find("invalid status: "), 0u) << bounds.name;
  }
}

TEST(CoordinatorStatuses, AFarewellIsToldToSomebodyInThePast) {
  EXPECT_EQ(WhyRefused([](auto* s) { Farewell(s); }), "");
  EXPECT_NE(WhyRefused([](auto* s) { Farewell(s)->set_known_to(0); }), "");
  EXPECT_NE(WhyRefused([](auto* s) { Farewell(s)->set_age_ms(-1); }), "");
}

TEST(CoordinatorStatuses, TheNumberOfFailureAgesIsLimited) {
  const auto with = [](int ages) {
    return WhyRefused([ages](auto* s) {
      for (int i = 0; i < ages; ++i) s->mutable_last()->add_failure_ages_ms(0);
    });
  };
  EXPECT_EQ(with(kMaxFailureAges), "");
  EXPECT_EQ(
      with(kMaxFailureAges + 1),
      "invalid status: Round.failure_ages_ms occurs 1001 times, not at most 1000; use one version of muster on "
      "all nodes");
}

TEST(CoordinatorStatuses, ARefusalNamesTheFieldAndItsRange) {
  EXPECT_EQ(WhyRefused([](auto* s) { s->set_place(-1); }),
            "invalid status: AgentStatus.place is -1, not 0 to 999999; use one version of muster on all nodes");
  EXPECT_EQ(
      WhyRefused([](auto* s) { s->set_version(std::string(kMaxShortText + 1, 'x')); }),
      "invalid status: AgentStatus.version has 1025 bytes, not at most 1024; use one version of muster on all "
      "nodes");
}

TEST(CoordinatorStatuses, AStatusWithoutAHostIsIgnored) {
  Cluster c(Fixed(1));
  Cluster::Node& node = c.At("");
  node.stream = 1;
  node.status.set_run_id("job");
  node.status.set_protocol(kProtocol);
  c.Say("");
  EXPECT_FALSE(c.Told("").has_id());
}

// A stream that an older agent of the host still holds is closed, so that the agent ends.
TEST(CoordinatorStatuses, AnOlderAgentsStreamIsClosed) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  Cluster::Node& old = c.At("old");
  old.status = c.At("a").status;
  old.stream = 77;
  c.Attach("a");
  EXPECT_FALSE(c.At("old").closed);
  c.Say("old");
  EXPECT_TRUE(old.closed);
}

// Number of hosts that the coordinator looks at because of one more status of a member of its round.
// Each decision looks at all of them.
constexpr uint64_t kNodes = 6;

uint64_t VisitsOf(const Change& change) {
  Cluster c(Fixed(static_cast<int>(kNodes)));
  std::vector<std::string> names;
  for (size_t place = 0; place < kNodes; ++place) {
    names.push_back(absl::StrCat("n", place));
    c.Join(names.back(), static_cast<int>(place));
  }
  for (const std::string& name : names) c.Apply(name);
  c.Pass(absl::Seconds(1), names);
  EXPECT_EQ(c.state(), State::kRunning);
  const uint64_t before = c.core().host_visits();
  change(&c.At("n1").status);
  c.Say("n1");
  return c.core().host_visits() - before;
}

TEST(CoordinatorStatuses, ABeatCausesNoDecision) {
  EXPECT_LT(VisitsOf([](auto*) {}), kNodes);
  EXPECT_LT(VisitsOf([](auto* s) { s->set_in_job_ms(12'345); }), kNodes);
}

TEST(CoordinatorStatuses, NewsIsDecidedUponAtOnce) {
  EXPECT_GE(VisitsOf([](auto* s) { s->set_preparing("its preflight runs"); }), kNodes);
}

TEST(CoordinatorStatuses, ApplyingAStopIsNewsOnce) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Fail("b", 1);
  ASSERT_TRUE(c.Told("a").has_stop());
  const auto visits = [&c] {  // of a, whose workers are still ending
    const uint64_t before = c.core().host_visits();
    *c.At("a").status.mutable_applied() = c.Told("a").id();
    c.Say("a");
    return c.core().host_visits() - before;
  };
  EXPECT_GE(visits(), 2u);
  EXPECT_LT(visits(), 2u);
}

// With very many hosts a decision serves for all statuses of some time, unless a status is urgent.
class UrgencyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int place = 0; place < 3; ++place) c_.Join(std::string(1, static_cast<char>('a' + place)), place);
    c_.Join("s");
    c_.Pass(absl::Seconds(20), {"a", "b", "c", "s"});
    ASSERT_EQ(c_.state(), State::kRunning);
    ASSERT_EQ(c_.Told("s").order_case(), v1::Directive::kWait);
    c_.Pass(kTick, {});
  }
  static CoordinatorOptions Large() {
    CoordinatorOptions options = Fixed(3);
    options.many_hosts = 3;
    options.decision_spacing = absl::Milliseconds(10);
    return options;
  }
  bool IsDecidedAtOnce(const std::string& name, v1::Phase phase) {
    const uint64_t before = c_.core().host_visits();
    c_.Phase(name, phase);
    return c_.core().host_visits() - before >= 4;
  }

  Cluster c_{Large()};
};

TEST_F(UrgencyTest, AMembersStopMayWait) {
  EXPECT_FALSE(IsDecidedAtOnce("b", v1::PHASE_STOPPING));
  c_.Pass(kTick, {});
  c_.Sleep(absl::Milliseconds(39));
  EXPECT_FALSE(IsDecidedAtOnce("b", v1::PHASE_RUNNING)) << "10 ms for each of four hosts";
  c_.Sleep(absl::Milliseconds(1));
  EXPECT_TRUE(IsDecidedAtOnce("b", v1::PHASE_STOPPING));
}

TEST_F(UrgencyTest, AMembersFailureIsUrgent) {
  EXPECT_TRUE(IsDecidedAtOnce("b", v1::PHASE_FAILED));
  EXPECT_FALSE(IsDecidedAtOnce("c", v1::PHASE_FAILED)) << "the round ends already";
}

TEST_F(UrgencyTest, AMembersLeaveIsUrgent) { EXPECT_TRUE(IsDecidedAtOnce("b", v1::PHASE_LEAVING)); }

// Found by the simulation (seed 284963).
TEST_F(UrgencyTest, AMemberThatBecomesUnusableIsUrgent) { EXPECT_TRUE(IsDecidedAtOnce("b", v1::PHASE_UNUSABLE)); }

TEST_F(UrgencyTest, AMembersDeathIsUrgent) { EXPECT_TRUE(IsDecidedAtOnce("b", v1::PHASE_HOST_GONE)); }

TEST_F(UrgencyTest, ASparesEndIsNotUrgent) {
  EXPECT_FALSE(IsDecidedAtOnce("s", v1::PHASE_FAILED));
  EXPECT_FALSE(IsDecidedAtOnce("s", v1::PHASE_LEAVING));
  EXPECT_FALSE(IsDecidedAtOnce("s", v1::PHASE_HOST_GONE));
  EXPECT_TRUE(c_.Told("s").has_release()) << "but it is acknowledged";
}

TEST_F(UrgencyTest, ThePrimarysEndIsAlwaysUrgent) {
  c_.At("s").status.set_at_primary(true);
  EXPECT_TRUE(IsDecidedAtOnce("s", v1::PHASE_LEAVING)) << "while a round runs";
  c_.Pass(kTick, {});
  c_.Fail("b", 1);
  EXPECT_TRUE(IsDecidedAtOnce("s", v1::PHASE_HOST_GONE)) << "in any state: its coordinator ends with it";
}

TEST(CoordinatorStatuses, FewHostsAreAlwaysDecidedUponAtOnce) {
  CoordinatorOptions options = Fixed(2);
  options.many_hosts = 2;
  options.decision_spacing = absl::Hours(1);
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  EXPECT_TRUE(c.Told("a").has_run());
}

TEST(CoordinatorStatuses, NewsIsAnsweredOnce) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) c.Apply(name);
  const uint64_t before = std::max(c.Told("a").id().seq(), c.Told("b").id().seq());
  c.Fail("b", 1);
  EXPECT_EQ(std::max(c.Told("a").id().seq(), c.Told("b").id().seq()), before + 2) << "one STOP for each";
}

// The status or the closed stream is the first event after a pause of the coordinator.
TEST(CoordinatorStatuses, APauseIsNoticedByEachEvent) {
  for (const bool by_status : {true, false}) {
    Cluster c(Fixed(3));
    for (int place = 0; place < 3; ++place) c.Join(std::string(1, static_cast<char>('a' + place)), place);
    for (const char* name : {"a", "b", "c"}) c.Apply(name);
    ASSERT_EQ(c.state(), State::kRunning);
    c.Close("b");
    c.Sleep(absl::Seconds(5));
    if (by_status) {
      c.At("a").status.set_live_workers(1);
      c.Say("a");
    } else {
      c.Close("c");
    }
    EXPECT_EQ(c.state(), State::kRunning) << "b has had no time to reconnect";
  }
}

TEST(CoordinatorStatuses, APauseIsNotANodesSilence) {
  Cluster c(Elastic(1, 2));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Pass(absl::Seconds(17), {"a", "b"});
  ASSERT_EQ(c.state(), State::kRunning);
  c.Apply("b");
  c.Pass(absl::Seconds(8), {"a"});
  c.Jump(absl::Milliseconds(4900));
  EXPECT_EQ(c.state(), State::kRunning);
  c.Pass(absl::Seconds(3), {"a"});
  EXPECT_EQ(c.state(), State::kRunning);
  c.Pass(absl::Milliseconds(300), {"a"});
  EXPECT_EQ(c.Said("node 1 (b) was lost"), 1);
}

TEST(CoordinatorStatuses, ANewStreamReplacesTheHostsEarlierOne) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.At("old").stream = c.At("b").stream;
  c.Attach("b");
  EXPECT_TRUE(c.At("old").closed);
  EXPECT_FALSE(c.At("b").closed);
  EXPECT_TRUE(c.Told("b").has_run()) << "its order is repeated at once";
  c.Close("old");
  c.Pass(absl::Seconds(5), {"a", "b"});
  EXPECT_EQ(c.state(), State::kRunning) << "the end of the old stream means nothing";
}

TEST(CoordinatorStatuses, AnObserverHoldsNoPlace) {
  Cluster c(Fixed(2));
  c.Join("o", 1, v1::ROLE_OBSERVER);
  c.Join("a", 0);
  c.Join("b", 1);
  EXPECT_TRUE(c.Told("b").has_run());
}

// A node that said that it leaves, and has no workers, has ended once its stream is closed.
TEST(CoordinatorStatuses, ALeavingNodesPlaceIsFreeOnceItHasClosed) {
  Cluster c(Fixed(2));
  c.Join("b", 1);
  c.Join("twin", 1);
  c.Phase("b", v1::PHASE_LEAVING);
  c.Join("a", 0);
  EXPECT_FALSE(c.Told("twin").has_run());
  c.Close("b");
  EXPECT_TRUE(c.Told("twin").has_run());
}

TEST(CoordinatorStatuses, AMemberThatLeftIsTheRoundsLoss) {
  Cluster c(Elastic(1, 2));
  c.Join("a", 0);
  c.Join("b", 1);
  c.Pass(absl::Seconds(17), {"a", "b"});
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.At("b").status.set_live_workers(0);
  c.Phase("b", v1::PHASE_LEAVING);
  c.Close("b");
  c.Pass(absl::Seconds(1), {"a"});
  ASSERT_EQ(c.core().greatest().node_count(), 1);
  EXPECT_EQ(c.core().greatest().loss_ages_ms_size(), 1);
  EXPECT_EQ(c.Said("round 1 ended; root cause: node 1 (b) left the job"), 1);
}

TEST(CoordinatorStatuses, TheFirstRefusedNodesAreNamed) {
  for (size_t refused = kMaxRefusalsNamed; refused <= kMaxRefusalsNamed + 1; ++refused) {
    Cluster c(Fixed(2));
    c.Join("a", 0);
    for (size_t i = 0; i < refused; ++i) c.TurnAway(absl::StrCat("10.0.0.", i), "no token");
    c.Apply("a");
    const std::string reason = c.Told("a").wait().reason();
    EXPECT_NE(reason.find("10.0.0.2 (no token)"), std::string::npos) << reason;
    EXPECT_EQ(reason.ends_with(" and others"), refused > kMaxRefusalsNamed) << reason;
  }
  Cluster c(Fixed(2));
  c.TurnAway("", "no token");
  EXPECT_EQ(c.Said("refused a node at an unknown address: no token"), 1);
}

// ---- epochs and numbers of rounds

TEST(Epochs, BeginWithOneAndDifferBetweenCoordinators) {
  EXPECT_EQ(Cluster(Fixed(1), 42).core().epoch().number(), 1u);
  EXPECT_NE(Cluster(Fixed(1), 42).core().epoch().random(), Cluster(Fixed(1), 43).core().epoch().random());
}

TEST(Epochs, AGreaterOneIsExceededByOne) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  const uint64_t random = c.core().epoch().random();
  c.At("a").status.mutable_epoch()->set_number(7);
  c.Say("a");
  EXPECT_EQ(c.core().epoch().number(), 8u);
  EXPECT_NE(c.core().epoch().random(), random);
  EXPECT_EQ(c.Told("a").id().epoch().number(), 8u);
}

// The other coordinator may be cut off with the node that is missing, and takes a lease and its margin to notice.
TEST(Epochs, ANewOneWaitsForLeaseAndMarginAgain) {
  Cluster c(Elastic(1, 2));
  const CoordinatorOptions& options = c.core().job().options;
  c.Join("a", 0);
  c.Pass(absl::Seconds(10), {"a"});
  c.At("a").status.mutable_epoch()->set_number(7);
  c.Say("a");
  c.Pass(2 * (options.lease + options.margin()) + options.shutdown_grace - absl::Milliseconds(100), {"a"});
  EXPECT_EQ(c.state(), State::kRecovering);
  c.Pass(absl::Milliseconds(200), {"a"});
  EXPECT_EQ(c.state(), State::kGathering);
}

TEST(RoundNumbers, ExceedTheGreatestThatWasReported) {
  Cluster c(Fixed(2));
  v1::Round* last = c.At("a").status.mutable_last();
  last->mutable_id()->set_number(5);
  last->set_node_count(2);
  c.Join("a", 0);
  c.At("b").status.mutable_last()->mutable_id()->set_number(3);
  c.At("b").status.mutable_last()->set_node_count(2);
  c.Join("b", 1);
  c.Pass(absl::Minutes(1), {"a", "b"});
  ASSERT_TRUE(c.Told("a").has_run());
  EXPECT_EQ(c.Told("a").run().id().number(), 6u);
  EXPECT_TRUE(Same(c.Told("a").run().id().epoch(), c.core().epoch()));
}

TEST(RoundNumbers, ARoundTellsItsHistory) {
  CoordinatorOptions options = Elastic(1, 3);
  options.scale_up = ScaleUp::kOnRestart;
  Cluster c(options);
  for (int place = 0; place < 3; ++place) c.Join(std::string(1, static_cast<char>('a' + place)), place);
  for (const char* name : {"a", "b", "c"}) c.Apply(name);
  EXPECT_EQ(c.Told("b").run().seat(), 1);
  EXPECT_EQ(c.Told("b").run().max_restarts(), 3);
  EXPECT_EQ(c.Told("b").run().largest_node_count(), 3);
  EXPECT_EQ(c.Told("b").run().master().port(), c.At("a").status.offer().port());
  EXPECT_EQ(c.Said("starting 6 workers on 3 nodes, round 1, master 127.0.0.1:5001 (3 of 3 nodes ready)"), 1);
  c.At("c").status.set_live_workers(0);
  c.Phase("c", v1::PHASE_HOST_GONE);
  c.Pass(absl::Seconds(8), {"a", "b"});
  ASSERT_EQ(c.Told("b").run().node_count(), 2);
  EXPECT_EQ(c.Told("b").run().largest_node_count(), 3);
  EXPECT_EQ(c.Told("b").greatest().largest_node_count(), 3);
  EXPECT_EQ(c.Said("restart 1 (left: 3 worker failures, 9 node losses): starting 4 workers on 2 nodes, round 2"),
            1)
      << "a loss spends no restart";
}

TEST(RoundNumbers, ARestartIsCountedWithItsLimit) {
  Cluster c(Fixed(1, 2));
  c.Join("a", 0);
  c.Apply("a");
  EXPECT_EQ(c.Said("starting 2 workers on 1 node, round 1"), 1);
  c.Fail("a", 1);
  c.Pass(absl::Seconds(1), {"a"});
  EXPECT_EQ(c.Said("restart 1 of 2: starting 2 workers on 1 node, round 2"), 1);
}

TEST(RoundNumbers, AnEarlierCoordinatorsLargestRoundBoundsTheNext) {
  CoordinatorOptions options = Elastic(2, 8);
  options.scale_up = ScaleUp::kNever;
  Cluster c(options);
  v1::Round* last = c.At("a").status.mutable_last();
  last->mutable_id()->set_number(5);
  last->set_node_count(2);
  last->set_largest_node_count(3);
  for (const char* name : {"a", "b", "c", "d"}) c.Join(name);
  c.Pass(absl::Minutes(2), {"a", "b", "c", "d"});
  EXPECT_EQ(c.core().greatest().node_count(), 3);
}

TEST(RoundNumbers, AProvedDeathIsLoggedAndItsPlacePassesOn) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Close("b");
  c.At("b2").status.set_predecessor_dead("b");
  c.Join("b2", 1);
  c.Pass(absl::Seconds(1), {"a", "b2"});
  EXPECT_TRUE(c.Told("b2").has_run());
  EXPECT_EQ(c.Said("node 1 (b) was lost: its main process and agent died; restarted 0 after its last heartbeat"),
            1)
      << "the loss stops the round";
  c.Fail("a", 1);
  c.Pass(absl::Seconds(1), {"a", "b2"});
  EXPECT_EQ(c.Said("node 1 (b) was lost"), 1) << "a later round ends for its own reason";
}

TEST(Facts, OfTheNewestSessionAreCompared) {
  Cluster c(Fixed(2));
  (*c.At("a").status.mutable_facts())["NCCL_DEBUG"] = "INFO";
  (*c.At("a").status.mutable_facts())["OLD"] = "1";
  c.Join("a", 0);
  c.At("a").status.mutable_facts()->erase("OLD");
  c.Attach("a");
  (*c.At("b").status.mutable_facts())["NCCL_DEBUG"] = "WARN";
  c.Join("b", 1);
  c.Pass(absl::Seconds(1), {"a", "b"});
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Said("nodes differ: NCCL_DEBUG is "), 1);
  EXPECT_EQ(c.Said("OLD"), 0);
}

TEST(Facts, VersionAndSizeAreAmongThem) {
  Cluster c(Fixed(2));
  for (const char* name : {"a", "b"}) {
    c.At(name).status.set_max_nodes(2);
    c.At(name).status.set_min_nodes(name[0] == 'a' ? 2 : 1);
    c.At(name).status.set_version(name[0] == 'a' ? "1.0" : "1.1");
    (*c.At(name).status.mutable_facts())["--nnodes"] = "not an option of its own";
  }
  c.Join("a", 0);
  c.Join("b", 1);
  c.Pass(absl::Seconds(1), {"a", "b"});
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Said("nodes differ: --nnodes is 1:2 on node 1 (b); 2 on node 0 (a); the primary's value applies"),
            1);
  EXPECT_EQ(c.Said("nodes differ: muster's version is 1.1 on node 1 (b); 1.0 on node 0 (a)"), 1);
}

// ---- places

TEST(Places, AStandbysEndDoesNotFreeThePlace) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  c.Join("twin", 0);
  c.Phase("twin", v1::PHASE_HOST_GONE);
  c.Join("late", 0);
  EXPECT_EQ(c.Told("late").wait().held_by().process(), "a");
  c.Join("b", 1);
  EXPECT_TRUE(c.Told("a").has_run());
}

TEST(Places, AHolderThatLeavesOrIsUnusableIsNoRival) {
  for (const v1::Phase phase : {v1::PHASE_LEAVING, v1::PHASE_UNUSABLE}) {
    Cluster c(Fixed(3));
    c.Join("b", 1);
    c.At("b").status.set_live_workers(1);
    c.Phase("b", phase);
    c.Join("again", 1);
    for (int i = 0; i < 3; ++i) {
      c.Pass(absl::Seconds(1), {});
      c.Say("b");
    }
    EXPECT_EQ(c.Said("both claim"), 0) << v1::Phase_Name(phase);
  }
}

TEST(Places, AnAbsentMemberIsNamedByItsRank) {
  Cluster before(Fixed(3));
  for (int place = 0; place < 3; ++place) before.Join(std::string(1, static_cast<char>('a' + place)), place);
  for (const char* name : {"a", "b", "c"}) before.Apply(name);
  Cluster after(Fixed(3), 43);
  after.At("a") = before.At("a");
  after.Attach("a");
  after.Apply("a");
  after.Pass(absl::Milliseconds(11'100), {"a"});
  ASSERT_EQ(after.state(), State::kDraining);
  EXPECT_EQ(after.Told("a").stop().cause(), "node 1, node 2 (of 3 nodes) did not reconnect to this coordinator");
  EXPECT_EQ(after.core().Waiting(), "");
}

}  // namespace
}  // namespace muster::rendezvous
