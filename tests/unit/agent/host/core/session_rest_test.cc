// Which processes of a worker's session get the rest of the grace once a stop signal has ended its leader.
#include "agent/host/core/session_rest.h"

#include <gtest/gtest.h>

namespace muster::host {
namespace {

constexpr int64_t kLeader = 10;

SessionMember Handles(int64_t pid, int64_t parent) {
  return {.pid = pid, .parent = parent, .start = 1, .handles = true};
}
SessionMember Default(int64_t pid, int64_t parent) { return {.pid = pid, .parent = parent, .start = 1}; }

std::vector<int64_t> Finishing(const std::vector<SessionMember>& session) {
  std::vector<int64_t> pids;
  for (const SessionMember& member : FinishingMembers(kLeader, session)) pids.push_back(member.pid);
  return pids;
}

TEST(SessionRestTest, ATrainingBehindAShellFinishes) {
  EXPECT_EQ(Finishing({Default(kLeader, 1), Handles(11, kLeader)}), std::vector<int64_t>{11});
}

TEST(SessionRestTest, ATrainingBehindTwoShellsFinishes) {
  EXPECT_EQ(Finishing({Default(kLeader, 1), Default(11, kLeader), Handles(12, 11)}), std::vector<int64_t>{12});
}

// For example the resource tracker of Python's multiprocessing, which ignores the signal.
TEST(SessionRestTest, AProcessWithoutAHandlerGetsNoTime) {
  EXPECT_TRUE(Finishing({Default(kLeader, 1), Default(11, kLeader)}).empty());
}

TEST(SessionRestTest, ALeaderWithAHandlerEndsItsSession) {
  EXPECT_TRUE(Finishing({Handles(kLeader, 1), Handles(11, kLeader)}).empty());
}

// A forked pool inherits its parent's handler and would wait for orders forever.
TEST(SessionRestTest, ChildrenOfAFinishingProcessAreNotAwaited) {
  EXPECT_EQ(
      Finishing({Default(kLeader, 1), Handles(11, kLeader), Handles(12, 11), Default(13, 11), Handles(14, 13)}),
      std::vector<int64_t>{11});
}

TEST(SessionRestTest, AnOrphanOfTheSessionFinishes) {
  EXPECT_EQ(Finishing({Default(kLeader, 1), Handles(11, 1), Handles(12, kLeader)}),
            (std::vector<int64_t>{11, 12}));
}

TEST(SessionRestTest, ParentsThatFormACircleEnd) {
  EXPECT_TRUE(Finishing({Default(11, 12), Default(12, 11)}).empty());
  EXPECT_EQ(Finishing({Default(11, 12), Default(12, 11), Handles(13, 11)}), std::vector<int64_t>{13});
}

}  // namespace
}  // namespace muster::host
