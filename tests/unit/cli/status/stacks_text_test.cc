// How people and programs are shown where the workers of a job stand.
#include "cli/status/stacks_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/status/status_text.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void AddRange(int first, int last, v1::Place* place) {
  place->add_ranks()->set_first(first);
  place->mutable_ranks()->rbegin()->set_last(last);
}

v1::JobView TwoPlaces() {
  v1::JobView view;
  view.set_run_id("4711");
  view.mutable_round()->set_number(3);
  v1::Stacks& stacks = *view.mutable_stacks();
  stacks.set_complete(true);
  stacks.set_suspects("suspect: rank 3: it stands elsewhere than the other 7");
  stacks.add_suspect_ranks()->set_first(3);
  stacks.mutable_suspect_ranks(0)->set_last(3);
  v1::Place* const odd = stacks.add_places();
  AddRange(3, 3, odd);
  odd->set_where("at data.py:41 (load)");
  odd->set_host("gpu-1");
  odd->mutable_example()->set_pid(812);
  v1::StackFrame* const frame = odd->mutable_example()->add_main_thread();
  frame->set_function("load");
  frame->set_file("/job/data.py");
  frame->set_line(41);
  v1::Place* const others = stacks.add_places();
  AddRange(0, 2, others);
  AddRange(4, 7, others);
  others->set_where("it waits, in do_wait of the kernel (py-spy is not installed)");
  others->set_host("gpu-0");
  return view;
}

TEST(StacksText, TheOddOneComesFirstWithItsStack) {
  EXPECT_EQ(StacksText(TwoPlaces()),
            "suspect: rank 3: it stands elsewhere than the other 7\n"
            "rank 3 (pid 812 on gpu-1): at data.py:41 (load)\n"
            "    load (/job/data.py:41)\n"
            "7 ranks (0-2,4-7): each waits, in do_wait of the kernel (py-spy is not installed)\n");
  EXPECT_EQ(CodeOfStacks(TwoPlaces()), 0);
}

TEST(StacksText, AnExampleOfManyRanksIsNamed) {
  v1::JobView view = TwoPlaces();
  v1::Stacks& stacks = *view.mutable_stacks();
  *stacks.mutable_places(1)->mutable_example() = stacks.places(0).example();
  EXPECT_THAT(StacksText(view), HasSubstr("\n    rank 0 (pid 812 on gpu-0):\n    load (/job/data.py:41)\n"));
}

TEST(StacksText, WhoDidNotAnswerIsNamed) {
  v1::JobView view = TwoPlaces();
  view.mutable_stacks()->add_silent("node 4 (gpu-4)");
  view.mutable_stacks()->set_more_silent(2);
  EXPECT_THAT(StacksText(view), StartsWith("no answer: node 4 (gpu-4) and 2 more\n"));
  EXPECT_EQ(CodeOfStacks(view), kExitAttention);
}

TEST(StacksText, WhyNobodyIsAskedIsSaid) {
  v1::JobView view = TwoPlaces();
  view.mutable_stacks()->Clear();
  EXPECT_THAT(StacksText(view), HasSubstr("have not answered in time"));
  view.mutable_stacks()->set_why_not("no round runs");
  EXPECT_EQ(StacksText(view), "job 4711: no round runs\n");
  EXPECT_EQ(CodeOfStacks(view), kExitAttention);
}

TEST(StacksText, InAJobThatGoesOnADifferenceMayBeChance) {
  v1::JobView view = TwoPlaces();
  view.mutable_progress()->set_quiet_ms(2'000);
  EXPECT_THAT(StacksText(view),
              HasSubstr("\nthe job shows signs of life, the last one 2s ago: ranks may differ by chance"));
  view.mutable_progress()->set_quiet_ms(600'000);
  EXPECT_THAT(StacksText(view), Not(HasSubstr("by chance")));
}

TEST(StacksText, InAJobThatNobodyWatchesADifferenceMayBeChance) {
  v1::JobView view = TwoPlaces();
  view.mutable_progress();
  EXPECT_THAT(StacksText(view), HasSubstr("\nwhether the job gets on is not watched (--hang-timeout): ask again"));
  view.mutable_progress()->set_watched(true);
  EXPECT_THAT(StacksText(view), Not(HasSubstr("ask again")));
}

TEST(StacksText, RanksOfAJobsWorkersMayHoldAnything) {
  v1::JobView view = TwoPlaces();
  v1::Stacks& stacks = *view.mutable_stacks();
  const std::string evil = "\x1b[2J\n.py";
  stacks.mutable_places(0)->set_where(evil);
  stacks.mutable_places(0)->set_host(evil);
  stacks.mutable_places(0)->mutable_example()->mutable_main_thread(0)->set_file(evil);
  stacks.set_suspects(evil);
  stacks.add_silent(evil);
  view.set_run_id(evil);
  EXPECT_THAT(StacksText(view), Not(HasSubstr("\x1b")));
}

TEST(StacksJsonTest, HasAllThatPeopleAreShown) {
  const auto json = nlohmann::json::parse(StacksJson(TwoPlaces()));
  EXPECT_EQ(json["run_id"], "4711");
  EXPECT_EQ(json["round"], 3);
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["suspect_ranks"], nlohmann::json::parse("[[3, 3]]"));
  EXPECT_EQ(json["places"][0]["ranks"], nlohmann::json::parse("[[3, 3]]"));
  EXPECT_EQ(json["places"][0]["example"]["frames"][0]["line"], 41);
  EXPECT_EQ(json["places"][1]["ranks"], nlohmann::json::parse("[[0, 2], [4, 7]]"));
  EXPECT_TRUE(json["why_not"].is_null());
}

TEST(RankRanges, AreRanksAndRangesOfThem) {
  EXPECT_THAT(*ParseRankRanges("3"), ElementsAre(RankPair(3, 3)));
  EXPECT_THAT(*ParseRankRanges("0-7,12"), ElementsAre(RankPair(0, 7), RankPair(12, 12)));
  for (const char* wrong : {"", "x", "3-", "-3", "7-0", "1,,2", "1-2-3"})
    EXPECT_THAT(std::string(ParseRankRanges(wrong).status().message()), StartsWith("--ranks ")) << wrong;
}

TEST(RankRanges, OnlyPlacesWithSuchARankStay) {
  for (const auto& [ranks, left] : std::map<std::vector<RankPair>, int>{
           {{}, 2}, {{{3, 3}}, 1}, {{{2, 3}}, 2}, {{{8, 9}}, 0}, {{{5, 5}, {9, 9}}, 1}}) {
    v1::Stacks stacks = TwoPlaces().stacks();
    KeepPlacesOf(ranks, &stacks);
    EXPECT_EQ(stacks.places_size(), left);
  }
}

}  // namespace
}  // namespace muster::cli
