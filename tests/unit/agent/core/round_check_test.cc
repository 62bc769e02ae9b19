#include "agent/core/round_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/ids.h"
#include "tests/unit/agent/core/agent_core_fixture.h"

namespace muster::agent {
namespace {

v1::Round SoundRound() {
  v1::Round round;
  round.set_node_rank(1);
  round.set_node_count(2);
  round.set_first_rank(4);
  round.set_world_size(8);
  round.mutable_master()->set_host("fe80::1%eth0");
  round.mutable_master()->set_port(65'535);
  return round;
}

std::string Said(const std::function<void(v1::Round*)>& change) {
  v1::Round round = SoundRound();
  change(&round);
  return WhyUnsound(round, 4);
}

TEST(RoundCheckTest, WhatACoordinatorSendsIsSound) {
  EXPECT_EQ(WhyUnsound(SoundRound(), 4), "");
  EXPECT_EQ(Said([](v1::Round* round) { round->mutable_master()->set_host("worker-0.job_1.svc"); }), "");
}

TEST(RoundCheckTest, ImpossibleNumbersAreNamed) {
  EXPECT_EQ(Said([](v1::Round* round) { round->clear_node_rank(); }), "no rank for this node");
  EXPECT_EQ(Said([](v1::Round* round) { round->set_node_rank(2); }), "node rank 2 of 2 nodes");
  EXPECT_EQ(Said([](v1::Round* round) { round->set_first_rank(5); }), "ranks from 5 on of a world of 8");
  EXPECT_EQ(Said([](v1::Round* round) { round->set_first_rank(INT32_MAX); }),
            "ranks from 2147483647 on of a world of 8");
}

TEST(RoundCheckTest, ARoundOfOthersNeedsNoRankHere) {
  v1::Round round = SoundRound();
  round.clear_node_rank();
  EXPECT_EQ(WhyImpossible(round), "");
  round.mutable_master()->set_host("a b");
  EXPECT_EQ(WhyImpossible(round), "a master address that is none");
}

TEST(RoundCheckTest, AnAddressThatIsNoneIsNotShown) {
  for (const char* host : {"a b", "$(touch x)", "a\nb", "\x1b[2J"}) {
    EXPECT_EQ(Said([host](v1::Round* round) { round->mutable_master()->set_host(host); }),
              "a master address that is none");
  }
}

int Errors(const std::vector<Note>& notes) {
  const auto is_error = [](const Note& note) { return note.severity == Severity::kError; };
  return static_cast<int>(std::count_if(notes.begin(), notes.end(), is_error));
}

class UnsoundRoundTest : public AgentCoreTest {};

// An agent that stored it would report it, and the job's own coordinator would refuse the node for that.
TEST_F(UnsoundRoundTest, IsNeitherStartedNorStoredAndNamedOnce) {
  Connected();
  Give(Directive(1));
  HostApplies();
  v1::Directive unsound = Run(2, 1);
  unsound.mutable_run()->mutable_master()->set_host("a $(touch x)");
  Give(unsound);
  v1::Directive of_others = Directive(3);
  *of_others.mutable_greatest() = unsound.run();
  of_others.mutable_greatest()->clear_node_rank();
  Give(of_others);
  EXPECT_FALSE(LastOrder().has_start());
  EXPECT_FALSE(IsSet(core_.memory().last().id()));
  EXPECT_EQ(Errors(Took<Note>()), 1);

  Give(Run(4, 1));
  EXPECT_TRUE(LastOrder().has_start());
}

class UnsoundDirectiveTest : public AgentCoreTest {};

// Its next status would be larger than a message may be.
TEST_F(UnsoundDirectiveTest, OneBeyondTheRangesIsNeitherObeyedNorStored) {
  Connected();
  Give(Directive(1));
  HostApplies();
  v1::Directive large = Directive(2);
  *large.mutable_greatest()->mutable_id() = Run(2, 1).run().id();
  large.mutable_greatest()->set_culprit(std::string(1'000'000, 'c'));
  Give(large);
  v1::Directive verdict = Directive(3);
  verdict.mutable_verdict()->set_reason(std::string(1'000'000, 'r'));
  Give(verdict);
  v1::Directive negative = Run(4, 1);
  negative.mutable_run()->set_restart_count(-1);
  Give(negative);
  EXPECT_FALSE(LastOrder().has_start());
  EXPECT_FALSE(IsSet(core_.memory().last().id()));
  EXPECT_FALSE(core_.memory().has_verdict());
  EXPECT_EQ(Errors(Took<Note>()), 1);
}

}  // namespace
}  // namespace muster::agent
