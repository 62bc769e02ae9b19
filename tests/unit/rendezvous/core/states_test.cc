// The coordinator's table of states, and its rendering in the folder's README.
#include "rendezvous/core/states.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

constexpr char kBegin[] = "<!-- states: rendered by states_test; MUSTER_RENDER=1 writes it -->\n";
constexpr char kEnd[] = "<!-- end of states -->\n";

std::string Rendered() {
  std::ostringstream out;
  out << "| from | to | event | condition | order to all nodes |\n|---|---|---|---|---|\n";
  for (const Transition& t : Transitions()) {
    out << "| " << Name(t.from) << " | " << Name(t.to) << " | " << t.event << " | " << t.guard << " | " << t.effect
        << " |\n";
  }
  return out.str();
}

TEST(States, TheReadmeShowsTheCurrentTable) {
  const std::string path = std::string(MUSTER_SOURCE_DIR) + "/rendezvous/core/README.md";
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  const std::string readme = content.str();
  const size_t begin = readme.find(kBegin);
  const size_t end = readme.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const size_t start = begin + sizeof(kBegin) - 1;
  if (std::getenv("MUSTER_RENDER") != nullptr) {
    std::ofstream(path) << readme.substr(0, start) << Rendered() << readme.substr(end);
    return;
  }
  EXPECT_EQ(readme.substr(start, end - start), Rendered()) << "run this test once with MUSTER_RENDER=1";
}

TEST(States, EveryStateIsReachableAndLeavable) {
  std::set<State> from, to;
  for (const Transition& t : Transitions()) {
    from.insert(t.from);
    to.insert(t.to);
  }
  EXPECT_EQ(from.size(), 5u);
  EXPECT_EQ(from.count(State::kReleasing), 0u);
  EXPECT_EQ(to.size(), 6u);
}

TEST(States, NothingRunsAfterTheVerdict) {
  for (State state : {State::kRunning, State::kGathering, State::kRecovering, State::kDraining}) {
    for (const Transition& t : Transitions()) {
      const bool is_over = t.from == State::kVerdict || t.from == State::kReleasing;
      EXPECT_FALSE(is_over && t.to == state) << Name(t.from) << " -> " << Name(t.to);
    }
  }
}

// A job of one node, whose coordinator has just started and knows nothing.
Job NewJob(BootTime now) {
  CoordinatorOptions options;
  options.run_id = "r";
  return {options, now, 7};
}

TEST(StateConditions, NothingButTheEndOfEarlierLeasesLetsANewCoordinatorGatherWithoutNodes) {
  const BootTime now = absl::UnixEpoch();
  const Job job = NewJob(now);
  for (State state : {State::kGathering, State::kRunning, State::kVerdict, State::kReleasing}) {
    EXPECT_FALSE(MayEnter(state, now, job)) << Name(state);
  }
  EXPECT_FALSE(MayEnter(State::kGathering, job.succession.members_known_until() - absl::Nanoseconds(1), job));
  EXPECT_TRUE(MayEnter(State::kGathering, job.succession.members_known_until(), job));
}

TEST(StateConditions, NoRoundBeginsBesideWorkersWhoseLeaseRuns) {
  const BootTime now = absl::UnixEpoch();
  Job job = NewJob(now);
  job.state = State::kGathering;
  job.greatest.owned = true;
  job.greatest.round.set_node_count(1);
  EXPECT_TRUE(MayEnter(State::kRunning, now, job));
  Host& host = job.hosts.Get("h");
  host.status.set_phase(v1::PHASE_RUNNING);
  host.lease_until = now;
  EXPECT_FALSE(MayEnter(State::kRunning, now, job));
  EXPECT_TRUE(MayEnter(State::kRunning, now + absl::Nanoseconds(1), job));
}

TEST(StateConditions, AVerdictOfSuccessNeedsEveryNodesSuccess) {
  const BootTime now = absl::UnixEpoch();
  Job job = NewJob(now);
  job.state = State::kRunning;
  job.greatest.round.mutable_id()->set_number(1);
  job.greatest.round.set_node_count(2);
  job.verdict.emplace();
  job.greatest.succeeded = {0};
  EXPECT_FALSE(MayEnter(State::kVerdict, now, job));
  job.greatest.succeeded = {0, 1};
  EXPECT_TRUE(MayEnter(State::kVerdict, now, job));
}

TEST(StateConditions, AJobIsReleasedOnlyOnceEachHostHasAcknowledgedTheVerdict) {
  const BootTime now = absl::UnixEpoch();
  Job job = NewJob(now);
  job.state = State::kVerdict;
  Host& host = job.hosts.Get("h");
  EXPECT_FALSE(MayEnter(State::kReleasing, now, job));
  host.status.mutable_verdict();
  EXPECT_TRUE(MayEnter(State::kReleasing, now, job));
}

}  // namespace
}  // namespace muster::rendezvous
