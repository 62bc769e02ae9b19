#include "cli/status/rank_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::JobView OneRank() {
  v1::JobView view;
  view.set_run_id("4711");
  view.mutable_round()->set_number(3);
  view.mutable_progress()->set_watched(true);
  v1::RankView& rank = *view.mutable_rank();
  rank.set_rank(5);
  rank.set_host("node 1 (gpu-02)");
  rank.set_complete(true);
  rank.set_where("at train.py:41 (load)");
  v1::RankSnapshot& found = *rank.mutable_found();
  found.set_pid(4242);
  found.set_program("python3.11");
  found.set_idle_ms(180'000);
  found.set_last_output("step 119\nstep 120");
  v1::StackFrame* const frame = found.add_main_thread();
  frame->set_function("load");
  frame->set_file("/home/me/train.py");
  frame->set_line(41);
  return view;
}

TEST(RankTextTest, SaysWhereItStandsAndWhatItWroteLast) {
  EXPECT_EQ(RankText(OneRank()), R"(rank 5 on node 1 (gpu-02), pid 4242 (python3.11): at train.py:41 (load)
    load (/home/me/train.py:41)
its last sign of life was 3m ago
its last lines of output:
    step 119
    step 120
)");
  EXPECT_EQ(CodeOfRank(OneRank()), 0);
}

TEST(RankTextTest, WhatIsNotKnownIsSaid) {
  v1::JobView view = OneRank();
  view.mutable_progress()->set_watched(false);
  view.mutable_rank()->mutable_found()->clear_last_output();
  EXPECT_THAT(RankText(view), Not(HasSubstr("sign of life")));
  EXPECT_THAT(RankText(view), HasSubstr("no output of it is known"));
  view.mutable_rank()->mutable_found()->set_ended(true);
  EXPECT_THAT(RankText(view), HasSubstr("rank 5 on node 1 (gpu-02): it has ended\n"));
  EXPECT_EQ(CodeOfRank(view), 1);
  view.mutable_rank()->clear_found();
  EXPECT_EQ(RankText(view), "rank 5 on node 1 (gpu-02): the node has not answered in time\n");
  view.mutable_rank()->set_why_not("no round runs");
  EXPECT_EQ(RankText(view), "rank 5: no round runs\n");
  EXPECT_EQ(CodeOfRank(view), 1);
}

TEST(RankTextTest, AWorkersOutputMayHoldAnything) {
  v1::JobView view = OneRank();
  view.mutable_rank()->mutable_found()->set_last_output("\x1b[2J\r");
  view.mutable_rank()->set_where("\x1b");
  EXPECT_THAT(RankText(view), Not(HasSubstr("\x1b")));
}

TEST(RankJsonTest, HasAllThatPeopleAreShown) {
  const auto json = nlohmann::json::parse(RankJson(OneRank()));
  EXPECT_EQ(json["rank"], 5);
  EXPECT_EQ(json["process"]["pid"], 4242);
  EXPECT_EQ(json["process"]["frames"][0]["line"], 41);
  EXPECT_EQ(json["quiet_s"], 180.0);
  EXPECT_EQ(json["last_output"], "step 119\nstep 120");
}

TEST(ParseRankTest, TakesAGlobalRank) {
  EXPECT_EQ(*ParseRank("5"), 5);
  for (const char* wrong : {"", "-1", "x", "1,2"}) EXPECT_FALSE(ParseRank(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace muster::cli
