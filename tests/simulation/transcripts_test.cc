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
  const char* about;                          // the first lines of the file
  const char* shows;                          // a line contains this: the story is what it says
  std::function<void(World*)> act = {};       // what happens to the job; empty: nothing
  std::function<void(Scenario*)> shape = {};  // what is different from SmallJob
  Micros at = kAction;
};

// Two nodes of one worker each, which work for 8 s. Machines come up at once, clocks agree, the network is quick.
Scenario SmallJob() {
  Scenario s;
  s.seed = 7;
  s.mix = "a story";
  s.job.nodes = s.job.min_nodes = s.job.max_nodes = 2;
  s.policy.max_restarts = 3;
  s.limits.lease = 4 * kSecond;
  s.workers.run_time = 8 * kSecond;
  s.workers.term_exits_zero_percent = 100;
  s.faults.phase = 30 * kSecond;
  s.faults.replace_low = s.faults.replace_high = kSecond;
  // Faults may happen, since those of the stories do; the random ones come too late.
  s.faults.weight[static_cast<int>(Fault::kWorkerFails)] = 1;
  s.faults.gap = 1000 * s.faults.phase;
  return s;
}

WorkerProcess* WorkerOf(World* world, int place) { return world->cluster().HostAt(place)->workers.at(0); }

void FailWith(World* world, int place, int code) {
  host::Ending ending;
  ending.number = code;
  world->workers().Fail(WorkerOf(world, place), ending);
}

// The member of the round that is not on node 0.
Machine* OtherMember(World* world) {
  int place = 1;
  while (world->cluster().HostAt(place)->workers.empty()) ++place;
  return world->cluster().HostAt(place)->machine;
}

void WithoutPlaces(Scenario* s) { s->job.places = Places::kNone; }

const std::vector<Story>& Stories() {
  static const std::vector<Story> stories = {
      {.name = "join_and_verdict",
       .about = "Two nodes join, run one round, and end with the verdict 0.",
       .shows = "verdict 0: every worker exited 0"},
      {.name = "worker_fails",
       .about = "A worker of node 1 exits with 7. The round ends on both nodes, and another one begins.",
       .shows = "round 2",
       .act = [](World* world) { FailWith(world, 1, 7); }},
      {.name = "restarts_are_spent",
       .about = "A worker of node 1 exits with 7, and no restart is allowed: all nodes exit with 7.",
       .shows = "verdict 7",
       .act = [](World* world) { FailWith(world, 1, 7); },
       .shape = [](Scenario* s) { s->policy.max_restarts = 0; }},
      {.name = "node_is_lost",
       .about =
           "The machine of node 1 loses power, and a new one takes its place. Node 0, on which the coordinator "
           "is, "
           "gets no answer of another member and stops its workers by its own lease. The next round begins once "
           "the lease of the lost node has ended.",
       .shows = "starts h1.2",
       .act = [](World* world) { world->deaths().PowerOff(world->cluster().HostAt(1)->machine); }},
      {.name = "host_is_killed",
       .about =
           "The host of node 1 is killed. Its agent ends the workers and reports it, so nobody waits for a lease.",
       .shows = "round 2",
       .act = [](World* world) { world->deaths().KillHost(world->cluster().HostAt(1)); }},
      {.name = "agent_is_killed",
       .about = "The agent of node 1 is killed. Its host starts another one; the workers run on.",
       .shows = "agent 2 takes over",
       .act = [](World* world) { world->deaths().KillAgent(world->cluster().HostAt(1)->agent); }},
      {.name = "coordinator_is_replaced",
       .about =
           "The agent of node 0 is killed, and the coordinator with it. The nodes report their round to the new "
           "coordinator, which lets it run.",
       .shows = "all members of the round are back",
       .act = [](World* world) { world->deaths().KillAgent(world->cluster().HostAt(0)->agent); }},
      {.name = "worker_fails_without_coordinator",
       .about = "The agent of node 0 is killed, and the coordinator with it; at the same moment a worker of node "
                "1 exits "
                "with 7. The new coordinator ends the round, and waits for lease and margin before the next one: "
                "a node "
                "that it has not heard of may still run a later round.",
       .shows = "restart 1 of 3",
       .act =
           [](World* world) {
             world->deaths().KillAgent(world->cluster().HostAt(0)->agent);
             FailWith(world, 1, 7);
           }},
      {.name = "spare_takes_over",
       .about =
           "Three nodes of a job of two: one is a spare. The machine of a member loses power, and the spare takes "
           "its rank.",
       .shows = "round 2",
       .act = [](World* world) { world->deaths().PowerOff(OtherMember(world)); },
       .shape =
           [](Scenario* s) {
             WithoutPlaces(s);
             s->job.nodes = 3;
           }},
      {.name = "job_grows",
       .about = "A job of one to two nodes begins with one, and grows when the other comes.",
       .shows = "starting 2 workers on 2 nodes, round 2",
       .act = [](World* world) { world->platform().Replace(1, true); },
       .shape =
           [](Scenario* s) {
             WithoutPlaces(s);
             s->job.min_nodes = 1;
             s->script.late_place = 1;
             s->workers.run_time = 16 * kSecond;
           },
       .at = 2 * kAction},
      {.name = "node_is_cut_off",
       .about =
           "Node 1 is cut off for longer than its lease: it ends its workers by itself, and is back for the next "
           "round. Node 0 does the same, since no other member answers its coordinator.",
       .shows = "round 2",
       .act =
           [](World* world) {
             world->network().Cut(world->cluster().HostAt(1)->machine, true, true, 7 * kSecond);
           }},
      {.name = "node_is_asked_to_leave",
       .about = "Node 1 gets SIGTERM: it leaves, and the node that is started in its place runs the next round.",
       .shows = "round 2",
       .act = [](World* world) { world->host_shell().Signal(world->cluster().HostAt(1), 15); }},
      {.name = "primarys_host_is_killed",
       .about =
           "The host of node 0 is killed. Its agent, which holds the coordinator, ends the workers, and tells all "
           "nodes before it ends itself (the farewell). So the next coordinator waits for no lease.",
       .shows = "node 0 was lost: its main process died",
       .act = [](World* world) { world->deaths().KillHost(world->cluster().HostAt(0)); }},
      {.name = "primarys_machine_is_lost",
       .about = "The machine of node 0 loses power, and the coordinator with it. The coordinator of the new node "
                "0 knows "
                "nothing, and waits for lease and margin before the next round.",
       .shows = "round 2",
       .act = [](World* world) { world->deaths().PowerOff(world->cluster().HostAt(0)->machine); }},
      {.name = "coordinator_is_away_for_longer_than_a_lease",
       .about = "The machine of node 0 loses power, and is replaced after 9 s only. Node 1 stops its workers "
                "before its "
                "lease ends, and goes on trying to reach the coordinator.",
       .shows = "the coordinator did not answer",
       .act = [](World* world) { world->deaths().PowerOff(world->cluster().HostAt(0)->machine); },
       .shape = [](Scenario* s) { s->faults.replace_low = s->faults.replace_high = 9 * kSecond; }},
      {.name = "separate_coordinator",
       .about = "The coordinator is on a machine of its own, which loses power. Its successor lets the round run.",
       .shows = "all members of the round are back",
       .act = [](World* world) { world->coordinators().End(world->coordinators().current(), true); },
       .shape = [](Scenario* s) { s->job.coordinator_alone = true; }},
      {.name = "job_shrinks",
       .about = "A job of one to two nodes loses one. After the lease of the lost node the other one goes on by "
                "itself.",
       .shows = "starting 1 worker on 1 node, round 2",
       .act = [](World* world) { world->deaths().PowerOff(OtherMember(world)); },
       .shape =
           [](Scenario* s) {
             WithoutPlaces(s);
             s->job.min_nodes = 1;
             s->faults.replace_low = s->faults.replace_high = 60 * kSecond;
           }},
      {.name = "replacement_comes_too_late",
       .about = "The machine of node 1 loses power, and nothing replaces it within --rejoin-timeout, here 10 s: "
                "the job "
                "ends with 69.",
       .shows = "verdict 69",
       .act = [](World* world) { world->deaths().PowerOff(world->cluster().HostAt(1)->machine); },
       .shape =
           [](Scenario* s) {
             s->limits.rejoin_timeout = 10 * kSecond;
             s->faults.replace_low = s->faults.replace_high = 60 * kSecond;
           }},
      {.name = "node_fails_its_preflight",
       .about = "Each node runs a preflight first. One that fails is tried again after a while, and the round "
                "begins once "
                "both nodes are fit.",
       .shows = "preflight",
       .shape =
           [](Scenario* s) {
             s->fitness.preflight_timeout = 5 * kSecond;
             s->fitness.preflight_fails_percent = 60;
           }},
      {.name = "job_is_cancelled",
       .about = "Node 0 gets SIGINT: the job ends on all nodes.",
       .shows = "verdict 130",
       .act = [](World* world) { world->host_shell().Signal(world->cluster().HostAt(0), 2); }},
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
    static const std::set<std::string> left_out = {"agent", "heal"};
    if (left_out.count(category) > 0) return;
    const std::string readable = Readable(text);
    std::string& last = last_[category + SpeakersOf(readable)];
    if (last == readable) return;
    last = readable;
    absl::StrAppendFormat(&text_, "%9.3f  %-11s %s\n", static_cast<double>(now) / kSecond, category, readable);
  }
  // Where something happens to the job.
  void Mark() { absl::StrAppend(&text_, "  >>>\n"); }
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
  if (story.act) {
    world.env().scheduler().At(story.at, [&] {
      transcript.Mark();
      story.act(&world);
    });
  }
  ASSERT_TRUE(world.Run()) << world.invariants().message() << "\n" << transcript.text();
  EXPECT_NE(transcript.text().find(story.shows), std::string::npos) << "it does not show " << story.shows;
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
  std::set<std::string> names = {"README.md"};
  for (const Story& story : Stories()) names.insert(absl::StrCat(story.name, ".txt"));
  for (const auto& entry : fs::directory_iterator(fs::path(MUSTER_SOURCE_DIR) / "tests/simulation/transcripts")) {
    EXPECT_EQ(names.count(entry.path().filename().string()), 1u) << entry.path();
  }
}

}  // namespace
}  // namespace muster::simulation
