// Where the worker of --debug runs, why it cannot start, and what the log says about it.
#include "agent/host/core/debugged_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace muster::host {
namespace {

constexpr int kSlots = 2;

// The second of three nodes.
v1::Round SecondNode() {
  v1::Round round;
  round.set_first_rank(2);
  round.set_world_size(6);
  return round;
}

DebuggedRank Pdb(int rank) { return {.rank = rank, .option = absl::StrCat("--debug ", rank), .hostname = "n1"}; }
DebuggedRank Debugpy(int rank) {
  DebuggedRank debugged = Pdb(rank);
  debugged.port = 5678;
  debugged.option += ":5678";
  return debugged;
}

std::string Why(const DebuggedRank& debugged, bool keyboard, const std::string& no_port = "") {
  const auto found = FindUndebuggable(debugged, SecondNode(), kSlots, keyboard, no_port);
  return found ? found->why : "";
}

TEST(DebuggedRankTest, OneNodeRunsTheRank) {
  EXPECT_EQ(LocalRankOf(Pdb(1), SecondNode(), kSlots), std::nullopt);
  EXPECT_EQ(LocalRankOf(Pdb(2), SecondNode(), kSlots), 0);
  EXPECT_EQ(LocalRankOf(Pdb(3), SecondNode(), kSlots), 1);
  EXPECT_EQ(LocalRankOf(Pdb(4), SecondNode(), kSlots), std::nullopt);
}

TEST(DebuggedRankTest, PdbNeedsTheKeyboardOnItsNodeOnly) {
  EXPECT_EQ(Why(Pdb(3), true), "");
  EXPECT_EQ(
      Why(Pdb(3), false),
      "--debug 3: pdb needs a terminal as standard input and output, with muster in its foreground, and n1 has "
      "none; for debugpy give --debug 3:PORT");
  EXPECT_EQ(Why(Pdb(1), false), "") << "another node's";
  EXPECT_EQ(Why(Debugpy(3), false), "");
  DebuggedRank of_local = Pdb(3);
  of_local.keyboard_is_elsewhere = true;
  EXPECT_EQ(Why(of_local, false), "");
}

TEST(DebuggedRankTest, DebugpyNeedsAFreePortOnItsNodeOnly) {
  EXPECT_EQ(Why(Debugpy(3), true, "is in use; choose another"),
            "--debug 3:5678: port 5678 of 127.0.0.1 on n1 is in use; choose another");
  EXPECT_EQ(Why(Debugpy(4), true, "is in use"), "");
  EXPECT_EQ(FindUndebuggable(Debugpy(3), SecondNode(), kSlots, true, "is in use")->local_rank, 1);
}

TEST(DebuggedRankTest, ARankThatTheJobLacksFailsOnEveryNode) {
  EXPECT_EQ(Why(Debugpy(6), true), "--debug 6:5678: the job has 6 workers: expected a rank, 0 to 5");
  EXPECT_EQ(FindUndebuggable(Debugpy(6), SecondNode(), kSlots, true, "")->local_rank, 0);
  v1::Round alone;
  alone.set_world_size(1);
  EXPECT_EQ(FindUndebuggable(Pdb(1), alone, 1, true, "")->why,
            "--debug 1: the job has 1 worker: expected a rank, 0");
}

TEST(DebuggedRankTest, TheLogSaysWhereToAttach) {
  EXPECT_EQ(DescribeDebugger(Debugpy(3), SecondNode(), kSlots),
            "rank 3 starts once a debugger attaches to 127.0.0.1:5678 on n1 (from elsewhere: ssh -L "
            "5678:127.0.0.1:5678 n1); the other 5 workers run until they need rank 3, and then wait for it");
  EXPECT_EQ(
      DescribeDebugger(Debugpy(0), SecondNode(), kSlots),
      "rank 0, which runs on another node, starts under debugpy; the other 5 workers run until they need rank "
      "0, and then wait for it");
  EXPECT_EQ(
      DescribeDebugger(Pdb(2), SecondNode(), kSlots),
      "rank 2 starts under pdb and has the keyboard; the other 5 workers run until they need rank 2, and then "
      "wait for it");
}

TEST(DebuggedRankTest, TheLogCountsTheOthers) {
  v1::Round round;
  round.set_world_size(2);
  EXPECT_THAT(DescribeDebugger(Pdb(0), round, 2),
              testing::EndsWith("; the other worker runs until it needs rank 0, and then waits for it"));
  round.set_world_size(1);
  EXPECT_THAT(DescribeDebugger(Pdb(0), round, 1), testing::EndsWith("has the keyboard"));
}

}  // namespace
}  // namespace muster::host
