// What a report says of a job that has ended.
#include "cli/status/report_story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

nlohmann::json Failed() {
  return nlohmann::json::parse(R"({
    "exit_code": 1, "reason": "no restart is left", "run_id": "4711", "host": "gpu-0",
    "started": 1000, "ended": 12520,
    "round": {"number": 3, "world_size": 16, "node_count": 2},
    "restarts": {"lost_s": 11.2, "earlier": 1, "newest": [
      {"round": 1, "cause": "node 1 was lost", "ran_s": 60, "lost_s": 7.2},
      {"round": 2, "cause": "rank 3 exited with code 1", "ran_s": 4000, "lost_s": 0.24}]},
    "time": {"counted_s": 11520, "stepping_s": 11500, "waiting_s": 20,
             "repeated": {"round": 2, "from": 900, "to": 800}},
    "root_cause": {"rank": 3, "host": "gpu-1", "exitcode": 1, "signal": null, "message": "ValueError: x",
                   "hint": "look at x"}})");
}

TEST(ReportStory, TellsHowTheJobEndedAndWhy) {
  const absl::StatusOr<Story> story = StoryOf(Failed().dump(2));
  ASSERT_TRUE(story.ok()) << story.status();
  EXPECT_EQ(story->exit_code, 1);
  EXPECT_THAT(
      story->text,
      StartsWith("ATTENTION: job 4711 has ended with exit code 1: no restart is left\nran        3h12m, from "));
  EXPECT_THAT(story->text,
              HasSubstr("\nround      3 was the last: 16 workers on 2 nodes\n"
                        "first      rank 3 on gpu-1: exit code 1: ValueError: x\n"
                        "           look at x\n"
                        "restarts   3\n"
                        "           round 2: ran 1h6m, then 240ms lost: rank 3 exited with code 1\n"
                        "           round 1: ran 1m, then 7.2s lost: node 1 was lost\n"
                        "lost       11s by restarts\n"
                        "time       3h12m: 3h11m in steps, 20s waiting for nodes; round 2 went from step "
                        "900 back to 800\n"));
}

TEST(ReportStory, OfSeveralReportsInAFileTheLastOneCounts) {
  nlohmann::json second = Failed();
  second["exit_code"] = 0;
  const std::string text =
      absl::StrCat("a line of another kind\n", Failed().dump(), "\n", second.dump(), "\nmore\n");
  EXPECT_EQ(StoryOf(text)->exit_code, 0);
}

TEST(ReportStory, AFileOfEventsTellsOfItsLastJob) {
  const auto line = [](const char* name, const char* severity, const char* message, const char* run_id) {
    return absl::StrCat(R"({"time":"2026-11-28T03:01:09.218Z","event":")", name, R"(","severity":")", severity,
                        R"(","message":")", message, R"(","exit_code":0,"run_id":")", run_id, "\"}\n");
  };
  const std::string first =
      line("round_started", "INFO", "starting", "a") + line("verdict", "INFO", "verdict 0: well", "a");
  EXPECT_EQ(StoryOf(first)->exit_code, 0);
  EXPECT_THAT(StoryOf(first)->text, StartsWith("well: job a has ended: verdict 0: well\n"));
  const std::string second = first + line("node_lost", "WARNING", "node 1 was lost", "b");
  EXPECT_EQ(StoryOf(second)->exit_code, 1);
  EXPECT_EQ(StoryOf(second, "a")->exit_code, 0);
  EXPECT_FALSE(StoryOf(second, "c").ok());
  EXPECT_THAT(StoryOf(second)->text,
              AllOf(StartsWith("ATTENTION: job b has no verdict in this file\n"),
                    HasSubstr(":09.218  ! node_lost         node 1 was lost\n"), Not(HasSubstr("round_started"))));
}

TEST(ReportStory, ARunIdMayRepeatInAFileOfEvents) {
  const auto line = [](const char* name) {
    return absl::StrCat(R"({"time":"2026-11-28T03:01:09.218Z","event":")", name,
                        R"(","severity":"INFO","message":"m","run_id":"a"})", "\n");
  };
  const std::string ended = line("round_started") + line("verdict");
  EXPECT_EQ(StoryOf(ended)->exit_code, 0);
  EXPECT_EQ(StoryOf(ended + line("round_started"))->exit_code, 1) << "that one has no verdict";
}

TEST(ReportStory, AnythingElseIsNone) {
  for (const char* text : {"", "{}", "[1]", "{\"exit_code\": \"x\"}", "exit_code"})
    EXPECT_TRUE(absl::IsInvalidArgument(StoryOf(text).status())) << text;
}

// A file may be of an older version, or anybody's.
TEST(ReportStory, FieldsMayBeMissingOrOfAnotherKind) {
  const nlohmann::json whole = Failed();
  for (const auto& [name, value] : whole.items()) {
    if (name == "exit_code") continue;
    for (const nlohmann::json& other : {nlohmann::json(), nlohmann::json(7), nlohmann::json("\x1b[2J"),
                                        nlohmann::json::array({1}), nlohmann::json{{"newest", {1}}}}) {
      nlohmann::json report = whole;
      report[name] = other;
      const absl::StatusOr<Story> story = StoryOf(report.dump());
      ASSERT_TRUE(story.ok()) << name;
      EXPECT_THAT(story->text, Not(HasSubstr("\x1b"))) << name;
    }
    nlohmann::json report = whole;
    report.erase(name);
    EXPECT_TRUE(StoryOf(report.dump()).ok()) << name;
  }
}

}  // namespace
}  // namespace muster::cli
