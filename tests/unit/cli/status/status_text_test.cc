// How people and programs are shown the state of a job.
#include "cli/status/status_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "cli/status/name_ranges.h"
#include "nlohmann/json.hpp"
#include "rendezvous/web/status_json.h"
#include "tests/unit/cli/status/members.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(NameRanges, NamesThatDifferInANumberShareAnEntry) {
  EXPECT_EQ(NameRanges({}), "");
  EXPECT_EQ(NameRanges({"login"}), "login");
  EXPECT_EQ(NameRanges({"gpu-2", "gpu-1", "gpu-3", "gpu-7"}), "gpu-[1-3,7]");
  EXPECT_EQ(NameRanges({"gpu-08", "gpu-09", "gpu-10", "gpu-11"}), "gpu-[08-11]");
  EXPECT_EQ(NameRanges({"gpu-9", "gpu-10"}), "gpu-[9-10]");
  EXPECT_EQ(NameRanges({"a1.x", "a2.x", "b", "a1.x"}), "a[1-2].x,b");
  EXPECT_EQ(NameRanges({"n123456789012", "n123456789013"}), "n123[456789012-456789013]");
}

v1::JobView Running() {
  v1::JobView view;
  view.set_run_id("4711");
  view.set_state(v1::JobView::STATE_RUNNING);
  view.set_state_ms(3 * 3'600'000 + 12 * 60'000 + 5'000);
  view.set_min_nodes(2);
  view.set_max_nodes(2);
  view.set_coordinator("gpu-1");
  view.mutable_progress();
  view.mutable_round()->set_number(3);
  view.mutable_round()->set_node_count(2);
  view.mutable_round()->set_world_size(16);
  view.mutable_round()->set_restart_count(2);
  view.mutable_round()->set_age_ms(view.state_ms());
  view.mutable_left()->set_restarts_so_far(2);
  view.mutable_left()->set_max_restarts(3);
  view.mutable_left()->set_restarts(1);
  view.mutable_left()->set_max_node_losses(10);
  view.mutable_left()->set_node_losses(10);
  for (int rank : {0, 1}) {
    AddMember(rank, absl::StrCat("gpu-", rank + 1), &view);
  }
  return view;
}

TEST(StatusText, BeginsWithWhetherTheJobIsWell) {
  const v1::JobView view = Running();
  EXPECT_EQ(CodeOf(view), 0);
  const std::string text = StatusText(view, false);
  EXPECT_THAT(text, StartsWith("well: job 4711 runs: 16 workers on 2 nodes, round 3 for 3h12m\n"));
  EXPECT_THAT(text, HasSubstr("train      2 nodes: gpu-[1-2]\n"));
  EXPECT_THAT(text, HasSubstr("restarts   2 so far; left: 1 of 3 worker failures, 10 of 10 node losses\n"));
  EXPECT_THAT(text, Not(HasSubstr("heard")));
}

TEST(StatusText, WhatIsOddComesFirst) {
  v1::JobView view = Running();
  view.add_odd("node 1 (gpu-2): no status for 9s");
  EXPECT_EQ(CodeOf(view), kExitAttention);
  EXPECT_THAT(
      StatusText(view, false),
      StartsWith("ATTENTION: job 4711 runs: 16 workers on 2 nodes, round 3 for 3h12m\n"
                 "progress   not watched (--hang-timeout auto would): muster stacks shows where each rank stands\n"
                 "  ! node 1 (gpu-2): no status for 9s\n"));
}

TEST(StatusText, SaysHowFarAndHowFastTheJobGetsOn) {
  v1::JobView view = Running();
  v1::Progress* const progress = view.mutable_progress();
  const auto shown = [&view] {
    const std::string text = StatusText(view, false);
    const size_t at = text.find("progress   ");
    return text.substr(at + 11, text.find('\n', at) - at - 11);
  };
  progress->set_watched(true);
  progress->set_quiet_ms(2'400);
  EXPECT_EQ(shown(), "last sign of life 2s ago, no worker shows steps yet");
  progress->set_ranks(16);
  progress->set_median_step(1'234'567);
  progress->set_slowest_step(1'234'560);
  progress->set_slowest_rank(11);
  progress->set_rate(1'367);
  progress->set_hour_rate(150);
  progress->set_hour_ms(3'600'000);
  progress->set_progress_file_ms(61'000);
  EXPECT_EQ(
      shown(),
      "step 1,234,567 (rank 11: 1,234,560), last sign of life 2s ago, 82 steps a minute (9.0 on average in the "
      "last 1h), progress file touched 1m1s ago");
  progress->set_ranks(0);
  progress->set_by_touches(true);
  progress->set_hour_rate(0);
  progress->clear_progress_file_ms();
  EXPECT_EQ(shown(), "last sign of life 2s ago, 82 heartbeats a minute");
}

TEST(StatusText, HowAJobHasEnded) {
  v1::JobEnd end;
  end.set_reason("all workers have succeeded");
  EXPECT_EQ(EndText(end), "well: the job has ended with exit code 0: all workers have succeeded\n");
  end.set_exit_code(7);
  EXPECT_THAT(EndText(end), StartsWith("ATTENTION: the job has ended with exit code 7: "));
  EXPECT_EQ(nlohmann::json::parse(rendezvous::EndJson(end))["exit_code"], 7);
}

TEST(StatusText, AJobThatDoesNotRunNeedsAttention) {
  v1::JobView view = Running();
  view.set_state(v1::JobView::STATE_GATHERING);
  view.set_reason("1 of 2 nodes ready");
  view.add_missing("node 1 (10.0.0.2:2222)");
  EXPECT_EQ(CodeOf(view), kExitAttention);
  EXPECT_THAT(StatusText(view, false),
              StartsWith("ATTENTION: job 4711 waits for nodes for 3h12m: 1 of 2 nodes ready\n"));
  EXPECT_THAT(StatusText(view, false), HasSubstr("missing    node 1 (10.0.0.2:2222)\n"));
}

// Its state is RECOVERING for as long as nodes of an earlier coordinator might come.
TEST(StatusText, AStartWithoutAllNodesSaysWhatItWaitsFor) {
  v1::JobView view = Running();
  view.set_state(v1::JobView::STATE_RECOVERING);
  view.set_reason("1 of 2 nodes ready");
  EXPECT_THAT(StatusText(view, false),
              StartsWith("ATTENTION: job 4711 has a new coordinator, which finds out what runs, for 3h12m\n"));
  view.clear_round();
  EXPECT_THAT(StatusText(view, false),
              StartsWith("ATTENTION: job 4711 waits for nodes for 3h12m: 1 of 2 nodes ready\n"));
  view.clear_nodes();
  EXPECT_THAT(StatusText(view, false), StartsWith("ATTENTION: job 4711 waits for its first nodes, for 3h12m\n"));
}

TEST(StatusText, TheNewestRoundsSayWhyTheyEndedAndWhatThatCost) {
  v1::JobView view = Running();
  for (uint64_t number : {1, 2, 3, 4}) {
    v1::EndedRound* const ended = view.add_ended();
    ended->set_number(number);
    ended->set_cause("rank 3 exited with code 1");
    ended->set_age_ms(61'000);
    ended->set_ran_ms(3'600'000);
    ended->set_lost_ms(240);
  }
  view.set_lost_ms(960);
  const std::string text = StatusText(view, false);
  EXPECT_THAT(text,
              HasSubstr("           round 4, 1m1s ago: ran 1h, then 240ms lost: rank 3 exited with code 1\n"));
  EXPECT_THAT(text, HasSubstr("lost       960ms by restarts so far\n"));
  EXPECT_THAT(text, Not(HasSubstr("round 1,")));
  EXPECT_THAT(StatusText(view, true), HasSubstr("round 1,"));
}

TEST(StatusText, AJobThatHasEndedIsWellIfItHasSucceeded) {
  v1::JobView view = Running();
  view.set_state(v1::JobView::STATE_ENDING);
  view.set_reason("every worker exited 0");
  view.set_exit_code(0);
  view.add_odd("the next failure of a worker ends the job (--max-restarts)");
  EXPECT_EQ(CodeOf(view), 0);
  view.set_exit_code(7);
  view.set_reason("rank 3 exited with code 7");
  EXPECT_EQ(CodeOf(view), kExitAttention);
  EXPECT_THAT(StatusText(view, false),
              StartsWith("ATTENTION: job 4711 is over, exit code 7: rank 3 exited with code 7\n"));
}

TEST(StatusText, OfAnEarlierCoordinatorsRoundTheAgeIsNotKnown) {
  v1::JobView view = Running();
  view.mutable_round()->clear_age_ms();
  view.set_state_ms(4'000);
  view.add_ended()->set_cause("rank 3 exited with code 1");
  EXPECT_THAT(StatusText(view, false), HasSubstr("round 0, 0s ago: ran: rank 3 exited with code 1\n"));
  EXPECT_THAT(StatusText(view, false),
              StartsWith("well: job 4711 runs: 16 workers on 2 nodes, round 3, taken over 4s ago\n"));
  EXPECT_EQ(nlohmann::json::parse(rendezvous::StatusJson(view, absl::UnixEpoch()))["round"]["started"], nullptr);
}

TEST(StatusText, EachNodeHasALineIfItIsWanted) {
  EXPECT_THAT(StatusText(Running(), true),
              HasSubstr("   1 gpu-2 ranks 8-15 running, heard 1s ago, 8 workers alive\n"));
}

TEST(StatusText, ANodeThatHasCausedRestartsIsKnownByThem) {
  v1::JobView view = Running();
  view.mutable_nodes(1)->set_restarts_caused(2);
  EXPECT_THAT(StatusText(view, true), HasSubstr("8 workers alive, caused 2 restarts\n"));
  EXPECT_EQ(nlohmann::json::parse(rendezvous::StatusJson(view, absl::UnixEpoch()))["nodes"][1]["restarts_caused"],
            2);
}

TEST(StatusText, IsSafeForATerminal) {
  v1::JobView view = Running();
  view.set_run_id("\x1b[31mred");
  view.mutable_nodes(0)->set_hostname("a\nb");
  EXPECT_THAT(StatusText(view, true), Not(HasSubstr("\x1b")));
  EXPECT_THAT(StatusText(view, true), HasSubstr("a\\nb"));
}

TEST(StatusJson, HasTimesAndNullsWherePeopleReadWords) {
  v1::JobView view = Running();
  view.mutable_nodes(1)->set_quiet_ms(2'500);
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  const auto json = nlohmann::json::parse(rendezvous::StatusJson(view, now));
  EXPECT_EQ(json["well"], true);
  EXPECT_EQ(json["state"], "running");
  EXPECT_EQ(json["since"], "2023-11-14T19:01:15.000Z");
  EXPECT_EQ(json["nodes"][0]["sign_of_life"], nullptr);
  EXPECT_EQ(json["nodes"][1]["sign_of_life"], "2023-11-14T22:13:17.500Z");
  EXPECT_EQ(json["nodes"][1]["first_rank"], 8);
  EXPECT_EQ(json["exit_code"], nullptr);
  EXPECT_EQ(json["left"]["restarts"], 1);
}

}  // namespace
}  // namespace muster::cli
