// Nodes that come while a job ends, or after it: they get the verdict.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "rendezvous/core/coordinator.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

// A job of one or two of three places. Place 0 is the primary's.
CoordinatorOptions OneOrTwoOfThree() {
  CoordinatorOptions options = InAgent(Elastic(1, 2));
  options.place_names = {"n0:1", "n1:1", "n2:1"};
  return options;
}

// Round 1 of the places 0 and 1 succeeds, and the node of place 1 gets the verdict and ends.
void SucceedWithoutPlace2(Cluster* c) {
  c->At("a").status.set_at_primary(true);
  c->Join("a", 0);
  c->Join("b", 1);
  ASSERT_EQ(c->Told("a").run().node_count(), 2);
  for (const char* n : {"a", "b"}) c->Apply(n);
  for (const char* n : {"a", "b"}) c->Phase(n, v1::PHASE_SUCCEEDED);
  ASSERT_TRUE(c->Told("a").has_verdict());
  for (const char* n : {"a", "b", "b"}) c->Apply(n);
  ASSERT_TRUE(c->Told("b").has_release());
  c->Close("b");
  c->Pass(kTick, {});
}

TEST(CoordinatorLatecomers, AShortJobsVerdictReachesALatecomer) {
  Cluster c(OneOrTwoOfThree());
  SucceedWithoutPlace2(&c);
  EXPECT_FALSE(c.Told("a").has_release()) << "the node of place 2 would find nobody";
  c.Pass(absl::Seconds(3), {"a"});
  EXPECT_EQ(c.Said("to tell nodes that have not joined yet: node 2 (n2:1)"), 1);
  c.Join("late", 2);
  c.Apply("late");
  EXPECT_EQ(c.Told("late").release().exit_code(), 0);
  c.Close("late");
  c.Pass(kTick, {});
  EXPECT_TRUE(c.Told("a").has_release()) << "all nodes have come, so there is nothing to wait for";
}

TEST(CoordinatorLatecomers, ALongerJobEndsAtOnce) {
  Cluster c(OneOrTwoOfThree());
  c.At("a").status.set_at_primary(true);
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* n : {"a", "b"}) c.Apply(n);
  c.Pass(kLatecomers, {"a", "b"});
  for (const char* n : {"a", "b"}) c.Phase(n, v1::PHASE_SUCCEEDED);
  for (const char* n : {"a", "b", "b"}) c.Apply(n);
  c.Close("b");
  EXPECT_TRUE(c.Told("a").has_release());
}

TEST(CoordinatorLatecomers, AreAwaitedForALimitedTime) {
  Cluster c(OneOrTwoOfThree());
  SucceedWithoutPlace2(&c);
  c.Pass(kLatecomers, {"a"});
  EXPECT_TRUE(c.Told("a").has_release());
}

TEST(CoordinatorLatecomers, ALeavingPrimaryDoesNotAwaitThem) {
  Cluster c(OneOrTwoOfThree());
  SucceedWithoutPlace2(&c);
  c.Phase("a", v1::PHASE_LEAVING);
  EXPECT_TRUE(c.Told("a").has_release());
}

// ---- the next job, at the same address and under the same run id

class NextJobTest : public ::testing::Test {
 protected:
  static CoordinatorOptions Options(bool may_repeat) {
    CoordinatorOptions options = OneOrTwoOfThree();
    options.run_id_may_repeat = may_repeat;
    return options;
  }
  // A node of place 2 comes three seconds after the verdict, and has been started so long before. Returns what it
  // is told once it has confirmed the first answer.
  const v1::Directive& Come(absl::Duration started_before, absl::Duration connected_within = absl::ZeroDuration(),
                            bool may_repeat = true) {
    c_.emplace(Options(may_repeat));
    SucceedWithoutPlace2(&*c_);
    c_->Pass(absl::Seconds(3), {"a"});
    c_->At("late").status.set_in_job_ms(absl::ToInt64Milliseconds(started_before));
    c_->At("late").status.set_connect_ms(absl::ToInt64Milliseconds(connected_within));
    c_->Join("late", 2);
    return c_->Told("late");
  }

  std::optional<Cluster> c_;
};

// A node knows the end of a job, and meets a primary whose host was started later.
class FormerJobTest : public ::testing::Test {
 protected:
  // What the node is told whose verdict is so old, by a primary that has been there for 20 s.
  v1::Directive Come(absl::Duration verdict_age, bool may_repeat = true) {
    c_.emplace(Options(may_repeat));
    c_->At("a").status.set_at_primary(true);
    c_->Join("a", 0);
    c_->Pass(absl::Seconds(20), {"a"});
    v1::AgentStatus& status = c_->At("former").status;
    status.mutable_verdict()->set_exit_code(0);
    status.set_verdict_age_ms(absl::ToInt64Milliseconds(verdict_age));
    c_->Join("former", 1);
    return c_->Told("former");
  }
  static CoordinatorOptions Options(bool may_repeat) {
    CoordinatorOptions options = InAgent(Fixed(2));
    options.run_id_may_repeat = may_repeat;
    options.host_began = Cluster(options).core().job().began;
    return options;
  }
  std::optional<Cluster> c_;
};

TEST_F(FormerJobTest, DoesNotEndThisOne) {
  const v1::Directive told = Come(absl::Seconds(30));
  EXPECT_EQ(told.refused().reason(), "this node's job has ended; the next one runs at this address");
  EXPECT_FALSE(told.refused().later());
  EXPECT_FALSE(c_->core().verdict().has_value());
}

TEST_F(FormerJobTest, IsThisOneIfItEndedAfterThePrimarysStart) {
  Come(absl::Seconds(10));
  EXPECT_TRUE(c_->core().verdict().has_value());
}

TEST_F(FormerJobTest, IsThisOneIfTheRunIdCannotRepeat) {
  Come(absl::Seconds(30), false);
  EXPECT_TRUE(c_->core().verdict().has_value());
}

// Its primary was lost, and was started again after the verdict.
TEST_F(FormerJobTest, IsThisOneIfAnotherNodeKnowsItsRound) {
  Cluster before(Options(true));
  before.At("a").status.set_at_primary(true);
  for (const char* name : {"a", "b"}) before.Join(name, name[0] - 'a');
  for (const char* name : {"a", "b"}) before.Apply(name);
  c_.emplace(Options(true), 43);
  c_->At("b") = before.At("b");
  c_->Attach("b");
  v1::AgentStatus& status = c_->At("former").status;
  status.mutable_verdict()->set_exit_code(0);
  status.set_verdict_age_ms(30'000);
  c_->Join("former");
  EXPECT_TRUE(c_->core().verdict().has_value());
}

TEST_F(NextJobTest, IsNotGivenThisJobsVerdict) {
  const v1::Refused& refused = Come(absl::Seconds(1)).refused();
  EXPECT_TRUE(refused.later());
  EXPECT_EQ(refused.reason(), "the job at this address is ending; waiting for the next one");
  EXPECT_EQ(c_->core().job().hosts.Find("late"), nullptr) << "it does not hold the primary";
}

TEST_F(NextJobTest, IsNotThatOfANodeStartedBeforeTheVerdict) { EXPECT_TRUE(Come(absl::Seconds(4)).has_release()); }

// A spare of a job of some milliseconds may attach after the verdict.
TEST_F(NextJobTest, IsNotThatOfANodeThatWasOnItsWay) {
  EXPECT_TRUE(Come(absl::Seconds(1), absl::Seconds(3)).has_release());
}

TEST_F(NextJobTest, CannotHaveTheRunIdOfASingleJob) {
  EXPECT_TRUE(Come(absl::Seconds(1), absl::ZeroDuration(), false).has_release());
}

}  // namespace
}  // namespace muster::rendezvous
