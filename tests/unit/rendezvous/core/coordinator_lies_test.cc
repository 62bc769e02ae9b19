// A node that was admitted speaks for itself alone: what it claims of others, or of this process, changes nothing.
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

void StartThree(Cluster* c) {
  for (const char* name : {"a", "b", "c"}) c->Join(name);
  c->Pass(absl::Seconds(20), {"a", "b", "c"});
  for (const char* name : {"a", "b", "c"}) c->Apply(name);
  ASSERT_EQ(c->state(), State::kRunning);
}

TEST(CoordinatorLies, OnlyThisProcesssOwnAgentIsThePrimarys) {
  Cluster c(Fixed(2));
  c.Join("a");
  Cluster::Node& liar = c.At("liar");
  liar.status = c.At("a").status;
  liar.status.set_host_id("liar");
  liar.stream = 77;
  c.Say("liar");
  EXPECT_EQ(c.Told("liar").refused().reason(), "");
  liar.status.set_at_primary(true);
  Effects effects;
  Coordinator core(Cluster::Tuned(Fixed(2)), FromBootNanos(1), 1);
  core.OnStatus(FromBootNanos(2), 78, liar.status, &effects);
  const auto* refused = std::get_if<SendDirective>(&effects.back());
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->directive.refused().reason(),
            "invalid status: claims to come from the coordinator's own process");
  EXPECT_TRUE(core.job().hosts.empty());
}

TEST(CoordinatorLies, ANodeCannotReportTheSuccessOfAnother) {
  Cluster c(Fixed(3));
  StartThree(&c);
  const int ranks[] = {c.Told("a").run().node_rank(), c.Told("b").run().node_rank(),
                       c.Told("c").run().node_rank()};
  for (const int rank : ranks) {
    c.At("c").status.mutable_last()->set_node_rank(rank);
    c.Phase("c", v1::PHASE_SUCCEEDED);
  }
  EXPECT_EQ(c.core().greatest().node_count(), 3);
  EXPECT_EQ(c.core().job().greatest.succeeded, std::set<int>({ranks[2]}));
  EXPECT_FALSE(c.core().verdict().has_value());
}

TEST(CoordinatorLies, AStrangerToTheRoundCannotReportItsSuccess) {
  Cluster c(Fixed(2));
  c.Join("a");
  c.Join("b");
  c.Pass(absl::Seconds(20), {"a", "b"});
  c.Apply("a");
  c.Apply("b");
  c.Phase("a", v1::PHASE_SUCCEEDED);
  c.Join("x");
  *c.At("x").status.mutable_last() = c.At("b").status.last();
  c.Phase("x", v1::PHASE_SUCCEEDED);
  EXPECT_FALSE(c.core().verdict().has_value());
  EXPECT_FALSE(c.core().job().Claims(*c.core().job().hosts.Find("x")));
  c.Phase("b", v1::PHASE_SUCCEEDED);
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 0);
}

}  // namespace
}  // namespace muster::rendezvous
