// Which processes of a worker's session get a stop signal now, which of them are awaited, and which get it later.
#include "agent/host/core/session_stop.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

namespace muster::host {
namespace {

using Pids = std::vector<int64_t>;

constexpr int64_t kLeader = 10;

SessionMember Plain(int64_t pid, int64_t parent) { return {.pid = pid, .parent = parent, .start = 1}; }
SessionMember Handles(int64_t pid, int64_t parent) {
  return {.pid = pid, .parent = parent, .start = 1, .handles = true};
}
SessionMember ShellWithTrap(int64_t pid, int64_t parent) {
  return {.pid = pid, .parent = parent, .start = 1, .handles = true, .shell = true};
}
SessionMember Forked(SessionMember member) {
  member.forked = true;
  return member;
}
SessionMember Reads(int64_t pid, int64_t parent) {
  return {.pid = pid, .parent = parent, .start = 1, .reads = true};
}
SessionMember Ended(SessionMember member) {
  member.ended = true;
  return member;
}

struct Case {
  std::string what;
  std::vector<SessionMember> session;
  Pids now, awaited, later;
  bool whole_group = false;
  int signal = SIGTERM;
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"a trainer alone", {Handles(10, 1)}, {10}, {10}, {}},
      {"a trainer that does not handle the signal ends with all of its children",
       {Plain(10, 1), Plain(11, 10)},
       {10, 11},
       {},
       {},
       true},
      {"a filter behind the output ends by itself: nothing but half of the grace period ends it",
       {Plain(10, 1), Plain(11, 10), Reads(12, 10)},
       {10, 11},
       {},
       {12}},
      {"also once the trainer has saved", {Ended(Handles(10, 1)), Plain(11, 10), Reads(12, 10)}, {11}, {}, {12}},
      {"and behind a shell with a trap", {ShellWithTrap(10, 1), Reads(11, 10)}, {10}, {10}, {11}},
      {"a reader that the trainer is below wraps it",
       {Plain(10, 1), Reads(11, 10), Handles(12, 11)},
       {10, 11, 12},
       {12},
       {}},
      {"from a terminal a filter gets the signal, too",
       {Plain(10, 1), Reads(11, 10)},
       {10, 11},
       {},
       {},
       true,
       SIGINT},
      {"DataLoader workers are left alone while the trainer saves",
       {Handles(10, 1), Forked(Handles(11, 10)), Forked(Handles(12, 10))},
       {10},
       {10},
       {}},
      {"so are copies that have reset their handler, and their copies",
       {Handles(10, 1), Forked(Plain(11, 10)), Forked(Plain(12, 11))},
       {10},
       {10},
       {}},
      {"and those of a trainer behind a shell",
       {Plain(10, 1), Handles(11, 10), Forked(Handles(12, 11))},
       {10, 11},
       {11},
       {}},
      {"a worker of --preload was forked, too, and leads its session",
       {Forked(Handles(10, 1)), Forked(Handles(11, 10))},
       {10},
       {10},
       {}},
      {"copies of a trainer that has ended save nothing",
       {Ended(Handles(10, 1)), Forked(Handles(11, 10)), Forked(Handles(12, 11))},
       {},
       {},
       {},
       true},
      {"workers forked by a process without a handler are trainers themselves",
       {Plain(10, 1), Forked(Handles(11, 10)), Forked(Handles(12, 10))},
       {10, 11, 12},
       {11, 12},
       {}},
      {"a data server and a log shipper get the signal later",
       {Handles(10, 1), Handles(11, 10), Plain(12, 10)},
       {10},
       {10},
       {11, 12}},
      {"what a DataLoader worker has started gets it later",
       {Handles(10, 1), Forked(Handles(11, 10)), Handles(12, 11)},
       {10},
       {10},
       {12}},
      {"a data server has the rest of the grace period once the trainer has ended",
       {Ended(Handles(10, 1)), Handles(11, 10), Plain(12, 10), Handles(13, 11)},
       {11},
       {11},
       {12, 13}},
      {"a shell without a trap is gone through", {Plain(10, 1), Handles(11, 10)}, {10, 11}, {11}, {}},
      {"two shells without a trap", {Plain(10, 1), Plain(11, 10), Handles(12, 11)}, {10, 11, 12}, {12}, {}},
      {"a shell with a trap and its trainer both hear at once",
       {ShellWithTrap(10, 1), Handles(11, 10), Forked(Handles(12, 11))},
       {10, 11},
       {10, 11},
       {}},
      {"a trainer goes on saving when a shell has run its EXIT trap",
       {Ended(ShellWithTrap(10, 1)), Handles(11, 10)},
       {11},
       {11},
       {}},
      {"a shell with a trap around a trainer without a handler",
       {ShellWithTrap(10, 1), Plain(11, 10)},
       {10, 11},
       {10},
       {},
       true},
      {"a subshell is no copy",
       {ShellWithTrap(10, 1), Forked(Plain(11, 10)), Handles(12, 11)},
       {10, 11, 12},
       {10, 12},
       {}},
      {"the `tee` behind a trainer gets it later",
       {Plain(10, 1), Handles(11, 10), Plain(12, 10)},
       {10, 11},
       {11},
       {12}},
      {"it gets it once the trainer has ended, if a shell with a trap waits for it",
       {ShellWithTrap(10, 1), Ended(Handles(11, 10)), Plain(12, 10)},
       {10, 12},
       {10},
       {},
       true},
      {"the child of a launcher that handles the signal",
       {Handles(10, 1), Plain(11, 10), Handles(12, 11)},
       {10},
       {10},
       {11, 12}},
      {"an orphan of the session hears at once", {Handles(10, 1), Handles(11, 1)}, {10, 11}, {10, 11}, {}},
      {"SIGINT goes to all, as from a terminal",
       {Handles(10, 1), Forked(Handles(11, 10)), Handles(12, 10)},
       {10, 11, 12},
       {10},
       {},
       true,
       SIGINT},
      {"parents that form a circle end", {Plain(11, 12), Plain(12, 11), Handles(13, 11)}, {11, 12, 13}, {13}, {}},
  };
  return cases;
}

TEST(SessionStopTest, EveryCaseHasItsPlan) {
  for (const Case& one : Cases()) {
    const StopPlan plan = PlanStop(kLeader, one.session, one.signal);
    EXPECT_EQ(plan.now, one.now) << one.what;
    EXPECT_EQ(plan.awaited, one.awaited) << one.what;
    EXPECT_EQ(plan.later, one.later) << one.what;
    EXPECT_EQ(plan.whole_group, one.whole_group) << one.what;
  }
}

// A fork inherits the handler: with Lightning's requeue on Slurm it would write a second, wrong checkpoint.
TEST(SessionStopTest, OnlyTopmostHandlersGetSignalsPassedThrough) {
  EXPECT_EQ(TopmostHandlers(kLeader, {Handles(10, 1), Forked(Handles(11, 10)), Handles(12, 10)}), Pids{10});
  EXPECT_EQ(TopmostHandlers(kLeader, {Plain(10, 1), Handles(11, 10), Plain(12, 11), Handles(13, 12)}), Pids{11});
  EXPECT_EQ(TopmostHandlers(kLeader, {ShellWithTrap(10, 1), Handles(11, 10)}), (Pids{10, 11}));
  EXPECT_TRUE(TopmostHandlers(kLeader, {Plain(10, 1), Plain(11, 10)}).empty());
}

TEST(SessionStopTest, ShellsAreKnownByTheirProgramFiles) {
  for (const char* shell : {"bash", "dash", "sh", "busybox", "zsh"}) EXPECT_TRUE(IsShell(shell)) << shell;
  for (const char* other : {"python3.11", "bashful", "timeout", ""}) EXPECT_FALSE(IsShell(other)) << other;
}

}  // namespace
}  // namespace muster::host
