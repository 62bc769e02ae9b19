// Which statuses the coordinator accepts, and which of them it decides upon at once.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
      {"nodes", [](auto* s, int n) { s->mutable_last()->set_node_count(n); }, 0, kMaxNodes},
      {"largest", [](auto* s, int n) { s->mutable_last()->set_largest_node_count(n); }, 0, kMaxNodes},
      {"ended rank", [](auto* s, int n) { Farewell(s)->set_node_rank(n); }, 0, 2},
  };
  for (const Bounds& bounds : all) {
    const auto why = [&](int n) { return WhyRefused([&](v1::AgentStatus* s) { bounds.set(s, n); }); };
    EXPECT_EQ(why(bounds.least), "") << bounds.name;
    EXPECT_EQ(why(bounds.most), "") << bounds.name;
    EXPECT_EQ(why(bounds.least - 1), "invalid status: count out of range") << bounds.name;
    EXPECT_EQ(why(bounds.most + 1), "invalid status: count out of range") << bounds.name;
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
  EXPECT_EQ(with(kMaxFailureAges + 1), "invalid status: count out of range");
}

TEST(CoordinatorStatuses, NumbersHaveBounds) {
  const std::string number = "invalid status: epoch or round number out of range";
  EXPECT_EQ(WhyRefused([](auto* s) { s->mutable_epoch()->set_number(kMaxNumber); }), "");
  EXPECT_EQ(WhyRefused([](auto* s) { s->mutable_epoch()->set_number(kMaxNumber + 1); }), number);
  EXPECT_EQ(WhyRefused([](auto* s) { s->mutable_last()->mutable_id()->set_number(kMaxNumber); }), "");
  EXPECT_EQ(WhyRefused([](auto* s) { s->mutable_last()->mutable_id()->set_number(kMaxNumber + 1); }), number);
  const std::string place = "invalid status: node number out of range";
  EXPECT_EQ(WhyRefused([](auto* s) { s->set_place(kMaxNodes - 1); }), "");
  EXPECT_EQ(WhyRefused([](auto* s) { s->set_place(kMaxNodes); }), place);
  EXPECT_EQ(WhyRefused([](auto* s) { s->set_place(0); }), "");
  EXPECT_EQ(WhyRefused([](auto* s) { s->set_place(-1); }), place);
  const std::string slots = "invalid status: number of workers out of range";
  EXPECT_EQ(WhyRefused([](auto* s) { s->set_slots(0); }), "");
  EXPECT_EQ(WhyRefused([](auto* s) { s->set_slots(-1); }), slots);
  EXPECT_EQ(WhyRefused([](auto* s) { s->set_slots(kMaxSlots); }), "");
  EXPECT_EQ(WhyRefused([](auto* s) { s->set_slots(kMaxSlots + 1); }), slots);
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

TEST(CoordinatorStatuses, EachChangeIsDecidedUponAtOnce) {
  const std::map<std::string, Change> changes = {
      {"phase", [](auto* s) { s->set_phase(v1::PHASE_STOPPING); }},
      {"workers", [](auto* s) { s->set_live_workers(1); }},
      {"outcome", [](auto* s) { s->set_outcome(v1::OUTCOME_STOPPED); }},
      {"verdict", [](auto* s) { s->mutable_verdict()->set_exit_code(3); }},
      {"failure", [](auto* s) { s->mutable_failure()->set_exit_code(3); }},
      {"cancelled", [](auto* s) { s->set_cancelled(true); }},
      {"cannot start",
       [](auto* s) {
         s->set_at_primary(true);  // any other node is refused
         s->mutable_cannot_start()->set_exit_code(127);
       }},
      {"preparing", [](auto* s) { s->set_preparing("its preflight runs"); }},
      {"predecessor", [](auto* s) { s->set_predecessor_dead("x"); }},
      {"offer's host", [](auto* s) { s->mutable_offer()->set_host("10.0.0.9"); }},
      {"offer's port", [](auto* s) { s->mutable_offer()->set_port(9); }},
      {"farewell", [](auto* s) { Farewell(s); }},
      {"rank", [](auto* s) { s->mutable_last()->clear_node_rank(); }},
      {"round", [](auto* s) { s->mutable_last()->mutable_id()->set_number(7); }},
      {"epoch", [](auto* s) { s->mutable_epoch()->set_random(7); }},
      {"applied epoch", [](auto* s) { s->mutable_applied()->mutable_epoch()->set_random(7); }},
  };
  for (const auto& [name, change] : changes) EXPECT_GE(VisitsOf(change), kNodes) << name;
}

}  // namespace
}  // namespace muster::rendezvous
