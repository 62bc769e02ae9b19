#include "agent/process/core/round_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/wire/ids.h"
#include "base/wire/ranges.h"
#include "tests/unit/agent/process/core/agent_core_fixture.h"

namespace muster::agent {
namespace {

v1::Round SoundRound() {
  v1::Round round;
  round.mutable_id()->set_number(1);
  round.mutable_id()->mutable_epoch()->set_number(1);
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
  EXPECT_EQ(Said([](v1::Round* round) { round->clear_id(); }), "a round without a number");
  EXPECT_EQ(Said([](v1::Round* round) { round->clear_node_rank(); }), "no rank for this node");
  EXPECT_EQ(Said([](v1::Round* round) { round->set_node_rank(2); }),
            "a round without members, or a rank beyond them");
  EXPECT_EQ(Said([](v1::Round* round) { round->set_first_rank(5); }), "ranks from 5 on of a world of 8");
  EXPECT_EQ(Said([](v1::Round* round) { round->set_first_rank(INT32_MAX); }),
            "ranks from 2147483647 on of a world of 8");
}

TEST(RoundCheckTest, ARoundOfOthersNeedsNoRankHere) {
  v1::Round round = SoundRound();
  round.clear_node_rank();
  EXPECT_EQ(WhyImpossible(round), "");
  round.mutable_master()->set_host("a b");
  EXPECT_EQ(WhyImpossible(round), "an address with characters that none has");
}

TEST(RoundCheckTest, AnAddressThatIsNoneIsNotShown) {
  for (const char* host : {"a b", "$(touch x)", "a\nb", "\x1b[2J"}) {
    EXPECT_EQ(Said([host](v1::Round* round) { round->mutable_master()->set_host(host); }),
              "an address with characters that none has");
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
  v1::Directive without_members = Run(5, 1);
  without_members.mutable_run()->clear_node_count();
  Give(without_members);
  v1::Directive farewell = Directive(6);
  *farewell.mutable_greatest() = Run(6, 1).run();
  farewell.mutable_greatest()->mutable_primary_ended()->set_node_rank(5);
  farewell.mutable_greatest()->mutable_primary_ended()->set_known_to(1);
  Give(farewell);
  EXPECT_FALSE(LastOrder().has_start());
  EXPECT_FALSE(IsSet(core_.memory().last().id()));
  EXPECT_FALSE(core_.memory().has_verdict());
  EXPECT_EQ(Errors(Took<Note>()), 1);
}

// Its own main process would be taken for one that does not answer.
TEST_F(UnsoundDirectiveTest, ALeaseThatNobodyCanSetIsNotTaken) {
  Connected();
  Give(Directive(1));
  for (const absl::Duration lease : {absl::Milliseconds(1), absl::Hours(25)}) {
    v1::Directive directive = Directive(2);
    directive.mutable_settings()->set_lease_ms(absl::ToInt64Milliseconds(lease));
    Give(directive);
    EXPECT_EQ(core_.memory().settings().lease_ms(), 0) << lease;
  }
}

// What is not obeyed does not count either: the right coordinator's ids may be smaller.
TEST_F(UnsoundDirectiveTest, OneThatIsNotObeyedMakesNoLaterOneOld) {
  Connected();
  v1::Directive unsound = Directive(1, uint64_t{1} << 40);
  unsound.mutable_wait()->set_reason(std::string(1'000'000, 'r'));
  Give(unsound);
  v1::Directive without_order = Directive(1, uint64_t{1} << 40);
  without_order.clear_order();
  Give(without_order);
  Give(Directive(1));
  EXPECT_EQ(core_.memory().epoch().number(), 1u);
}

// 398 STOPs of 260 KB filled a hundred megabytes of log in 9 s.
TEST_F(UnsoundDirectiveTest, StopsWithoutEndDoNotFillTheLog) {
  Connected();
  for (uint64_t i = 1; i <= 1000; ++i) {
    v1::Directive stop = Directive(i);
    *stop.mutable_stop()->mutable_round() = Run(i, i).run().id();
    stop.mutable_stop()->set_cause(std::string(200'000, 'c'));
    Give(stop);
  }
  size_t bytes = 0;
  for (const Note& note : Took<Note>()) bytes += note.text.size();
  EXPECT_LT(bytes, 200'000u);
}

}  // namespace
}  // namespace muster::agent
