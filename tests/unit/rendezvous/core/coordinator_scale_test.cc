// The cost of one event must not grow with the square of the number of nodes. The tests count work, never time:
// the hosts that the coordinator's loops visit. tests/bench/coordinator_load.cc measures the time.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/wire/takeover.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

constexpr int kFew = 60;             // nodes
constexpr uint64_t kAboutTwice = 3;  // a square would make it 4 times as many

// A job whose decisions are deferred as those of thousands of nodes are.
CoordinatorOptions Large(int min_nodes, int max_nodes) {
  CoordinatorOptions options = Elastic(min_nodes, max_nodes);
  options.max_node_losses = 1000;
  options.many_hosts = 16;
  options.decision_spacing = absl::Milliseconds(1);
  return options;
}

std::string Name(int i) { return absl::StrCat("n", 1000 + i); }

std::vector<std::string> Names(int first, int last) {
  std::vector<std::string> names;
  for (int i = first; i < last; ++i) names.push_back(Name(i));
  return names;
}

// All nodes attach; a round of the maximum size runs.
void Start(Cluster* c, int nodes) {
  const std::vector<std::string> all = Names(0, nodes);
  for (const std::string& name : all) c->Join(name);
  c->Pass(absl::Seconds(20), all);
  ASSERT_EQ(c->state(), State::kRunning);
}

uint64_t VisitsOfLosingHalf(int nodes) {
  Cluster c(Large(1, nodes));
  Start(&c, nodes);
  for (const std::string& name : Names(0, nodes / 2)) c.Close(name);
  c.Pass(absl::Seconds(1), Names(nodes / 2, nodes));
  const size_t said = c.warnings().size();
  c.Jump(absl::Minutes(1));  // the coordinator's own pause: no node is taken for dead
  const uint64_t before = c.core().host_visits();
  c.Pass(absl::Seconds(30), {});
  EXPECT_LE(c.warnings().size() - said, 2 * kMaxLossesNamed + 2) << "not a line for each of them";
  // One line for each half: one closed its streams, the other fell silent.
  EXPECT_EQ(c.Said(absl::StrCat("and ", nodes / 2 - static_cast<int>(kMaxLossesNamed), " more nodes were lost")),
            2);
  return c.core().host_visits() - before;
}

TEST(CoordinatorAtScale, LosingHalfTheNodesCostsLinearTime) {
  EXPECT_LT(VisitsOfLosingHalf(2 * kFew), kAboutTwice * VisitsOfLosingHalf(kFew));
}

uint64_t VisitsOfSparesBeats(int nodes) {
  Cluster c(Large(1, 2));
  // Far enough apart that their order does not depend on when a message arrives.
  for (int i = 0; i < nodes; ++i) c.At(Name(i)).status.set_in_job_ms(10'000'000 - 10'000 * i);
  Start(&c, nodes);
  c.Pass(kTick, {});
  const uint64_t before = c.core().host_visits();
  for (const std::string& name : Names(0, nodes)) c.Apply(name);
  EXPECT_EQ(c.Told(Name(nodes - 1)).wait().place_in_line(), nodes - 2) << "each node still knows its place";
  EXPECT_EQ(c.Told(Name(2)).wait().place_in_line(), 1);
  return c.core().host_visits() - before;
}

TEST(CoordinatorAtScale, HeartbeatsOfSparesCostLinearTime) {
  EXPECT_LT(VisitsOfSparesBeats(2 * kFew), kAboutTwice * VisitsOfSparesBeats(kFew));
}

uint64_t VisitsOfDeadHosts(int nodes) {
  Cluster c(Large(1, nodes));
  Start(&c, nodes);
  const uint64_t before = c.core().host_visits();
  for (const std::string& name : Names(1, nodes)) {
    c.At(name).status.set_live_workers(0);
    c.Phase(name, v1::PHASE_HOST_GONE);
    EXPECT_TRUE(c.Told(name).has_release()) << "its agent need not wait for a decision";
  }
  return c.core().host_visits() - before;
}

TEST(CoordinatorAtScale, ManyDeadHostsCostLinearTime) {
  EXPECT_LT(VisitsOfDeadHosts(2 * kFew), kAboutTwice * VisitsOfDeadHosts(kFew));
}

// Spares that end while a round runs, for example because their machines are reclaimed.
uint64_t VisitsOfSparesThatEnd(int nodes, v1::Phase phase) {
  Cluster c(Large(1, 2));
  Start(&c, nodes);
  c.Pass(kTick, {});
  const uint64_t before = c.core().host_visits();
  for (const std::string& name : Names(0, nodes)) {
    if (c.Told(name).has_run()) continue;
    c.Phase(name, phase);
    EXPECT_TRUE(c.Told(name).has_release()) << "its agent need not wait for a decision";
    c.Close(name);
  }
  EXPECT_EQ(c.state(), State::kRunning);
  return c.core().host_visits() - before;
}

TEST(CoordinatorAtScale, EndingSparesCostLinearTime) {
  for (const v1::Phase phase : {v1::PHASE_LEAVING, v1::PHASE_HOST_GONE}) {
    EXPECT_LE(VisitsOfSparesThatEnd(2 * kFew, phase), kAboutTwice * VisitsOfSparesThatEnd(kFew, phase))
        << v1::Phase_Name(phase);
  }
}

// The dead host's agent is released at once and closes its stream before the deferred decision.
TEST(CoordinatorAtScale, ADeadHostIsChargedDespiteADeferredDecision) {
  CoordinatorOptions options = Fixed(3);
  options.many_hosts = 1;
  options.decision_spacing = absl::Milliseconds(20);
  Cluster c(options);
  for (int i = 0; i < 3; ++i) c.Join(absl::StrCat("h", i), i);
  c.Pass(absl::Seconds(1), {"h0", "h1", "h2"});
  ASSERT_EQ(c.state(), State::kRunning);
  c.Pass(kTick, {});
  c.Fail("h1", 1);
  ASSERT_EQ(c.state(), State::kDraining);
  c.Phase("h2", v1::PHASE_HOST_GONE);
  EXPECT_TRUE(c.Told("h2").has_release());
  c.Close("h2");
  c.Join("again", 2);
  c.Pass(absl::Seconds(20), {"h0", "h1", "again"});
  ASSERT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Told("h0").run().loss_ages_ms_size(), 1);
  EXPECT_GE(c.Said("node 2 (h2) was lost: its main process died"), 1)
      << "the log has the cause of death, not a mere silence";
  EXPECT_EQ(c.Told("h0").run().failures(), 0) << "the failure is the loss's echo";
}

TEST(CoordinatorAtScale, ALeaseTooShortForManyNodesIsOneWarning) {
  CoordinatorOptions options = Fixed(5000);
  Cluster c(options);
  c.Pass(absl::Seconds(1), {});
  EXPECT_EQ(c.Said("set --lease 20s"), 1);
  options.lease = LeaseForNodes(5000);
  Cluster enough(options);
  enough.Pass(absl::Seconds(1), {});
  EXPECT_EQ(enough.Said("--lease"), 0);
}

TEST(CoordinatorAtScale, AShortLeaseOfASmallJobIsNoWarning) {
  CoordinatorOptions options = Fixed(8);
  options.lease = absl::Seconds(3);
  Cluster c(options);
  c.Pass(absl::Seconds(1), {});
  EXPECT_EQ(c.Said("--lease"), 0);
}

}  // namespace
}  // namespace muster::rendezvous
