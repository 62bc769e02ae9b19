// The coordinator's table of states, and its rendering in the folder's README.
#include "rendezvous/core/states.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

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
    EXPECT_FALSE(IsListed(State::kVerdict, state));
    EXPECT_FALSE(IsListed(State::kReleasing, state));
  }
}

}  // namespace
}  // namespace muster::rendezvous
