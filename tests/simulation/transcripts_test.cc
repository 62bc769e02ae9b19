// The protocol by example. Each story runs a small job in virtual time, without random faults, and what its
// processes say to each other is compared with a file of transcripts/, which is to be read. MUSTER_RENDER=1 writes
// the files anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

namespace fs = std::filesystem;

constexpr Micros kAction = 4 * kSecond;  // when something happens to the job; its round runs by then

struct Story {
  const char* name;
  const char* about;  // the first lines of the file
  std::function<void(Scenario*)> shape;
  std::function<void(World*)> act;  // at kAction
};

// Two nodes of one worker each, which work for 8 s. Machines come up at once, clocks agree, the network is quick.
Scenario SmallJob() {
  Scenario s;
  s.seed = 7;
  s.mix = "a story";
  s.nodes = s.min_nodes = s.max_nodes = 2;
  s.max_restarts = 3;
  s.lease = 4 * kSecond;
  s.run_time = 8 * kSecond;
  s.term_exits_zero_percent = 100;
  s.fault_phase = 30 * kSecond;
  s.replace_low = s.replace_high = kSecond;
  // Faults may happen, since those of the stories do; the random ones come too late.
  s.weight[static_cast<int>(Fault::kWorkerFails)] = 1;
  s.fault_gap = 1000 * s.fault_phase;
  return s;
}

WorkerProcess* WorkerOf(World* world, int place) { return world->HostAt(place)->workers.at(0); }

void FailWith(World* world, int place, int code) {
  host::Ending ending;
  ending.number = code;
  world->FailWorker(WorkerOf(world, place), ending);
}

const std::vector<Story>& Stories() {
  static const std::vector<Story> stories = {
      {"join_and_verdict", "Two nodes join, run one round, and end with the verdict 0.", {}, {}},
      {"worker_fails",
       "A worker of node 1 exits with 7. The round ends on both nodes, and another one begins.",
       {},
       [](World* world) { FailWith(world, 1, 7); }},
      {"restarts_are_spent",
       "The same where no restart is allowed: all nodes exit with the code of the root cause.",
       [](Scenario* s) { s->max_restarts = 0; }, [](World* world) { FailWith(world, 1, 7); }},
      {"node_is_lost",
       "The machine of node 1 loses power. Its lease must end before another round begins; a new machine takes "
       "its place.",
       {},
       [](World* world) { world->PowerOff(world->HostAt(1)->machine); }},
      {"host_is_killed",
       "The host of node 1 is killed. Its agent ends the workers and says so: nobody waits for a lease.",
       {},
       [](World* world) { world->KillHost(world->HostAt(1)); }},
      {"agent_is_killed",
       "The agent of node 1 is killed. Its host starts another one; the workers run on.",
       {},
       [](World* world) { world->KillAgent(world->HostAt(1)->agent); }},
      {"coordinator_is_replaced",
       "The agent of node 0 is killed, and the coordinator with it. The new one is told of the round and lets it "
       "run.",
       {},
       [](World* world) { world->KillAgent(world->HostAt(0)->agent); }},
      {"worker_fails_without_coordinator",
       "The same, and the worker of node 1 fails while there is no coordinator.",
       {},
       [](World* world) {
         world->KillAgent(world->HostAt(0)->agent);
         FailWith(world, 1, 7);
       }},
      {"spare_takes_over",
       "Three nodes of a job of two: one is a spare. A member's machine loses power, and the spare takes its "
       "rank.",
       [](Scenario* s) {
         s->nodes = 3;
         s->places = Places::kNone;
       },
       [](World* world) { world->PowerOff(world->HostAt(1)->machine); }},
      {"job_grows", "A job of one to two nodes begins with one, and grows when the other comes.",
       [](Scenario* s) {
         s->min_nodes = 1;
         s->places = Places::kNone;
         s->late_place = 1;
       },
       [](World* world) { world->Replace(1, true); }},
      {"node_is_cut_off",
       "Node 1 is cut off for longer than its lease: it ends its workers by itself, and is back for the next "
       "round.",
       {},
       [](World* world) { world->Cut(world->HostAt(1)->machine, true, true, 7 * kSecond); }},
      {"node_is_asked_to_leave",
       "Node 1 gets SIGTERM: it leaves, and the node that is started in its place runs the next round.",
       {},
       [](World* world) { world->SignalHost(world->HostAt(1), 15); }},
      {"job_is_cancelled",
       "Node 0 gets SIGINT: the job ends on all nodes.",
       {},
       [](World* world) { world->SignalHost(world->HostAt(0), 2); }},
  };
  return stories;
}

// What stays the same from run to run and is worth reading: no random part of an epoch, no numbers of documents.
std::string Readable(std::string text) {
  static const std::vector<std::pair<std::regex, std::string>> rules = {
      {std::regex(R"( echo \d+#\d+)"), ""},
      {std::regex(R"((\d+)@(\d+)\.[0-9a-f]{4})"), "$1@$2"},     // a round, of an epoch
      {std::regex(R"( (\d+)\.[0-9a-f]{4}#\d+)"), " epoch $1"},  // a directive
      {std::regex(R"( \d+#\d+ )"), " "},                        // a status
      {std::regex(R"(epoch (\d+)\.[0-9a-f]{4})"), "epoch $1"},
      {std::regex(R"( last 0@0)"), ""},
      {std::regex(R"( OUTCOME_NONE)"), ""},
      {std::regex(R"( epoch 0$)"), " nothing"},
      {std::regex(R"(OUTCOME_)"), ""},
  };
  for (const auto& [pattern, with] : rules) text = std::regex_replace(text, pattern, with);
  return text;
}

// Who speaks to whom: what comes before the first ": ", or the first three words.
std::string SpeakersOf(const std::string& text) {
  std::istringstream words(text);
  std::string one, two, three;
  words >> one >> two >> three;
  return two == "->" ? one + two + three : one;
}

// The lines of a story. What one says again and again (a beat) is there once.
class Transcript {
 public:
  void Add(Micros now, const std::string& category, const std::string& text) {
    static const std::set<std::string> left_out = {"agent"};
    if (left_out.count(category) > 0) return;
    const std::string readable = Readable(text);
    std::string& last = last_[category + SpeakersOf(readable)];
    if (last == readable) return;
    last = readable;
    absl::StrAppendFormat(&text_, "%9.3f  %-11s %s\n", static_cast<double>(now) / kSecond, category, readable);
  }
  const std::string& text() const { return text_; }

 private:
  std::map<std::string, std::string> last_;
  std::string text_;
};

class TranscriptsTest : public ::testing::TestWithParam<Story> {};

TEST_P(TranscriptsTest, IsAsWritten) {
  const Story& story = GetParam();
  Scenario scenario = SmallJob();
  if (story.shape) story.shape(&scenario);
  Transcript transcript;
  World world(scenario, [&](Micros now, const std::string& category, const std::string& text) {
    transcript.Add(now, category, text);
  });
  if (story.act) world.scheduler().At(kAction, [&] { story.act(&world); });
  ASSERT_TRUE(world.Run()) << world.invariants().message() << "\n" << transcript.text();
  const std::string text = absl::StrCat(story.about, "\n\n", transcript.text());

  const fs::path path =
      fs::path(MUSTER_SOURCE_DIR) / "tests/simulation/transcripts" / absl::StrCat(story.name, ".txt");
  if (std::getenv("MUSTER_RENDER") != nullptr) std::ofstream(path) << text;
  std::stringstream written;
  written << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, written.str()) << "MUSTER_RENDER=1 writes it anew: is the difference meant?";
}

INSTANTIATE_TEST_SUITE_P(Stories, TranscriptsTest, ::testing::ValuesIn(Stories()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TranscriptsFolderTest, HasNoFileWithoutAStory) {
  std::set<std::string> names;
  for (const Story& story : Stories()) names.insert(absl::StrCat(story.name, ".txt"));
  for (const auto& entry : fs::directory_iterator(fs::path(MUSTER_SOURCE_DIR) / "tests/simulation/transcripts")) {
    EXPECT_EQ(names.count(entry.path().filename().string()), 1u) << entry.path();
  }
}

}  // namespace
}  // namespace muster::simulation
