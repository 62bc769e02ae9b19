#include "agent/core/round_check.h"

#include <gtest/gtest.h>

#include <functional>

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
  EXPECT_EQ(Said([](v1::Round* round) { round->set_role_first_rank(-1); }), "first rank of the role -1");
  EXPECT_EQ(Said([](v1::Round* round) { round->set_restart_count(-5); }), "restart count -5");
  EXPECT_EQ(Said([](v1::Round* round) { round->mutable_master()->set_port(70'000); }), "master port 70000");
}

TEST(RoundCheckTest, AnAddressThatIsNoneIsNotShown) {
  for (const char* host : {"a b", "$(touch x)", "a\nb", "\x1b[2J"}) {
    EXPECT_EQ(Said([host](v1::Round* round) { round->mutable_master()->set_host(host); }),
              "a master address that is none");
  }
}

}  // namespace
}  // namespace muster::agent
