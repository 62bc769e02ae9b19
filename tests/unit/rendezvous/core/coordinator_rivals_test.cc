// Reasons why a job does not start: two nodes that claim one place, and refused nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "rendezvous/core/coordinator.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

using ::testing::HasSubstr;

// Two live nodes claim place 1, and place 2 of three is missing.
void ClaimPlaceOneTwice(Cluster* c) {
  c->Join("a", 0);
  c->Join("b", 1);
  c->Join("again", 1);
}

TEST(CoordinatorRivals, TwoLiveNodesOfOnePlaceAreNamedToAll) {
  CoordinatorOptions options = Fixed(3);
  options.join_timeout = absl::Seconds(30);
  Cluster c(options);
  ClaimPlaceOneTwice(&c);
  c.Pass(absl::Seconds(20), {"a", "b", "again"});
  const std::string both = "b and again both claim node 1";
  EXPECT_EQ(c.Said(both + "; the later one, on again, stands by"), 1) << "in the log of the primary, once";
  EXPECT_THAT(c.Told("a").wait().reason(), HasSubstr(both + "; give each node its own --node-rank"));
  EXPECT_THAT(c.Told("again").wait().reason(),
              HasSubstr("another process on b has already joined as node 1 and is running; unless"));
  c.Pass(absl::Seconds(15), {"a", "b", "again"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 69);
  EXPECT_THAT(c.core().verdict()->reason(), HasSubstr(both));
}

TEST(CoordinatorRivals, ASilentHolderIsNoRival) {
  Cluster c(Fixed(3));
  ClaimPlaceOneTwice(&c);
  c.Pass(absl::Seconds(8), {"a", "again"});
  EXPECT_EQ(c.Said("both claim"), 0) << "it may be the node that the other one stands in for";
  EXPECT_THAT(c.Told("again").wait().reason(), HasSubstr("node 1 was a process on b that does not answer any "
                                                         "more; this one takes its place when its lease of 10s "
                                                         "(--lease) is surely over"));
}

TEST(CoordinatorRivals, AHolderIsNotCalledSilentBeforeItsNextBeat) {
  CoordinatorOptions options = Fixed(3);
  options.beat = absl::Milliseconds(1500);
  Cluster c(options);
  ClaimPlaceOneTwice(&c);
  c.Pass(kRivalAfter + 2 * options.beat - kTick, {"a", "again"});
  EXPECT_THAT(
      c.Told("again").wait().reason(),
      HasSubstr("another process on b has already joined as node 1; finding out whether it is still alive"));
  c.Pass(absl::Seconds(1), {"a", "again"});
  EXPECT_THAT(c.Told("again").wait().reason(), HasSubstr("does not answer any more"));
}

TEST(CoordinatorRivals, TwoOfOneMachineAreToldApartFromTwoMachines) {
  Cluster c(Fixed(3));
  ClaimPlaceOneTwice(&c);
  c.At("again").status.set_hostname("b");
  c.Pass(absl::Seconds(3), {"a", "b", "again"});
  EXPECT_EQ(c.Said("two processes on b both claim node 1"), 1);
}

// All nodes of a batch job claim rank 0, under the name torchrun with the c10d backend.
TEST(CoordinatorRivals, ARankThatIsAHintIsDealtAnew) {
  enum class Holder { kLives, kIsSilent, kHasEnded, kLeaves };
  const struct {
    const char* what;
    bool hint;
    bool one_machine;
    Holder holder;
    bool dealt;
  } cases[] = {
      {"two machines", true, false, Holder::kLives, true},
      {"two processes of one machine", true, true, Holder::kLives, true},
      {"the rank is an order", false, false, Holder::kLives, false},
      {"the replacement of a silent node", true, false, Holder::kIsSilent, false},
      {"the same machine is back, and the agent of before ends the rest", true, true, Holder::kHasEnded, false},
      {"the replacement of a node that leaves", true, false, Holder::kLeaves, false},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.what);
    Cluster c(Fixed(2));
    for (const char* name : {"b", "again"}) c.At(name).status.set_place_is_hint(one.hint);
    c.Join("b", 0);
    if (!one.one_machine) *c.At("again").status.mutable_whereabouts() = v1::Whereabouts();
    c.Join("again", 0);
    c.At("b").status.set_host_has_ended(one.holder == Holder::kHasEnded);
    if (one.holder == Holder::kLeaves) c.At("b").status.set_phase(v1::PHASE_LEAVING);
    const bool silent = one.holder == Holder::kIsSilent;
    // The coordinator, which has no host of its own, waits for a lease before a first round of nodes without
    // places.
    c.Pass(absl::Seconds(14), silent ? std::vector<std::string>{"again"} : std::vector<std::string>{"b", "again"});
    EXPECT_EQ(c.Said("both claim node 0; with this --rdzv-backend --node-rank is a hint"), one.dealt ? 1 : 0);
    EXPECT_EQ(c.Told("b").run().node_count(), one.dealt ? 2 : 0);
    EXPECT_EQ(c.Told("again").run().node_rank(), one.dealt ? 1 : 0);
  }
}

TEST(CoordinatorRivals, AllNodesMayClaimOneRankByAHint) {
  Cluster c(Fixed(4));
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  for (const std::string& name : names) {
    c.At(name).status.set_place_is_hint(true);
    c.Join(name, 0);
  }
  c.Pass(absl::Seconds(14), names);
  std::set<int> ranks;
  for (const std::string& name : names) ranks.insert(c.Told(name).run().node_rank());
  EXPECT_THAT(ranks, testing::ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(c.Said("a and b both claim node 0, and so do 2 more; with this"), 1);
}

// A coordinator without memory hears of the seat that the node has had.
TEST(CoordinatorRivals, ANewCoordinatorDealsNoRankAnewTwice) {
  Cluster c(Fixed(2));
  v1::AgentStatus& dealt = c.At("b").status;
  dealt.set_place_is_hint(true);
  dealt.mutable_last()->mutable_id()->set_number(5);
  dealt.mutable_last()->mutable_id()->mutable_epoch()->set_number(1);
  dealt.mutable_last()->set_node_rank(1);
  dealt.mutable_last()->set_node_count(2);
  dealt.mutable_last()->set_seat(1);
  c.Join("b", 0);
  EXPECT_EQ(c.core().job().hosts.HolderOf(0), nullptr);
  // It hears of a round without it, and knows its seat no more.
  dealt.mutable_last()->clear_node_rank();
  c.Say("b");
  EXPECT_FALSE(c.Told("b").has_refused());
  EXPECT_EQ(c.core().job().hosts.HolderOf(0), nullptr);
}

// Its host was stopped, and stores the round with its seat only after it has reached the next coordinator.
TEST(CoordinatorRivals, ASeatThatIsKnownLateVoidsTheHint) {
  Cluster c(Fixed(2));
  v1::AgentStatus& dealt = c.At("b").status;
  dealt.set_place_is_hint(true);
  c.Join("b", 0);
  dealt.mutable_last()->mutable_id()->set_number(5);
  dealt.mutable_last()->mutable_id()->mutable_epoch()->set_number(1);
  dealt.mutable_last()->set_node_rank(1);
  dealt.mutable_last()->set_node_count(2);
  dealt.mutable_last()->set_seat(1);
  c.Say("b");
  EXPECT_FALSE(c.Told("b").has_refused());
  EXPECT_EQ(c.core().job().hosts.HolderOf(0), nullptr);
}

TEST(CoordinatorRefusals, TheFinalMessageNamesRefusedNodes) {
  CoordinatorOptions options = Fixed(2);
  options.join_timeout = absl::Seconds(30);
  Cluster c(options);
  c.Join("a", 0);
  Cluster::Node& stranger = c.At("x");
  stranger.stream = 99;
  stranger.status.set_protocol(kProtocol);
  stranger.status.set_run_id("other");
  stranger.status.set_host_id("x");
  stranger.status.set_hostname("x");
  c.Say("x");
  c.Pass(absl::Seconds(35), {"a"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 69);
  EXPECT_THAT(c.core().verdict()->reason(), HasSubstr("refused: x (run id 'other' differs from this job's 'job'; "
                                                      "set the same --rdzv-id on all nodes)"));
}

TEST(CoordinatorRefusals, RefusalsByTheShellAreNamedOnce) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  for (int i = 0; i < 3; ++i) c.TurnAway("10.0.0.7", "the token is not this job's");
  c.Apply("a");
  EXPECT_EQ(c.warnings(), std::vector<std::string>{"refused a node at 10.0.0.7: the token is not this job's"});
  EXPECT_THAT(c.Told("a").wait().reason(),
              HasSubstr("; refused: a node at 10.0.0.7 (the token is not this job's)"));
}

TEST(CoordinatorRefusals, StrangersFillNeitherTheLogNorTheDirectives) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  for (int i = 0; i < 1000; ++i) c.TurnAway("10.0.0." + std::to_string(i), "no token");
  c.Apply("a");
  EXPECT_EQ(c.warnings().size(), kMaxRefusalsLogged + 1) << "one more line for those that are not listed";
  EXPECT_LT(c.Told("a").ByteSizeLong(), 1000u);
}

TEST(CoordinatorRefusals, StrangersDoNotHideARefusedNodeForEver) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  for (size_t i = 0; i < kMaxRefusalsLogged; ++i) c.TurnAway("10.0.0." + std::to_string(i), "no token");
  c.TurnAway("10.1.0.1", "no token");
  EXPECT_EQ(c.warnings().back(), "64 refusals of this kind were logged; further ones are logged from 10m on");
  c.Sleep(kRefusalsLoggedAgain);
  c.TurnAway("10.1.0.1", "no token");
  EXPECT_EQ(c.warnings().back(), "refused a node at 10.1.0.1: no token");
}

// Stranded nodes of another job: each returns repeatedly, on a new stream.
TEST(CoordinatorRefusals, NodesThatKeepComingBackAreLoggedOnceEach) {
  constexpr int kStranded = 6;
  Cluster c(Fixed(2));
  c.Join("a", 0);
  std::string told;
  for (int attempt = 0; attempt < 5; ++attempt) {
    for (int i = 0; i < kStranded; ++i) {
      Cluster::Node& stranger = c.At("x");
      stranger.stream = StreamId{1000} + static_cast<StreamId>(attempt) * kStranded + static_cast<StreamId>(i);
      stranger.status.set_protocol(kProtocol);
      stranger.status.set_run_id("other");
      stranger.status.set_host_id("x" + std::to_string(i));
      stranger.status.set_hostname("x" + std::to_string(i));
      c.Say("x");
      c.Close("x");
      c.Apply("a");
      if (attempt == 0 && i == kStranded - 1) told = c.Told("a").wait().reason();
      if (attempt == 0) continue;
      EXPECT_EQ(c.Told("a").wait().reason(), told) << "each change is a line in a node's log";
    }
  }
  EXPECT_EQ(c.warnings().size(), static_cast<size_t>(kStranded));
  EXPECT_THAT(told, HasSubstr("; refused: x0 (run id 'other' differs from this job's 'job'; "
                              "set the same --rdzv-id on all nodes), x1 ("));
}

}  // namespace
}  // namespace muster::rendezvous
