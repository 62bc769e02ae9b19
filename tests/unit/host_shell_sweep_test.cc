// What workers leave behind is ended: by the host as a subreaper, and from outside by the marker.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "agent/host/marked.h"
#include "agent/host/proc_scan.h"
#include "tests/unit/host_shell_support.h"

namespace muster::host {
namespace {

constexpr int kTreeSize = 6;  // pids that `act tree` prints

std::vector<pid_t> ReadPids(LinePipe* pipe, int count) {
  std::vector<pid_t> pids;
  for (int i = 0; i < count; ++i) pids.push_back(std::atoi(pipe->Line().c_str()));
  return pids;
}

bool AllDead(const std::vector<pid_t>& pids) { return std::all_of(pids.begin(), pids.end(), IsDead); }
bool AllAlive(const std::vector<pid_t>& pids) { return std::none_of(pids.begin(), pids.end(), IsDead); }

class SweepTest : public testing::Test {
 protected:
  std::vector<pid_t> StartTree(bool* exited) {
    LinePipe pipe;
    WorkerCommand command{.argv = ActorArgv({"tree"}), .environment = CurrentEnvironment()};
    command.stdout_fd = pipe.in();
    Spawner::WorkerEvents events;
    events.exited = [exited](const Ending&) { *exited = true; };
    EXPECT_TRUE(hostlet_.spawner.SpawnWorker(command, events).ok());
    return ReadPids(&pipe, kTreeSize);
  }

  bool SweepAll() {
    hostlet_.swept = false;
    hostlet_.sweeper.Sweep();
    return hostlet_.RunUntil([this] { return hostlet_.swept; });
  }

  bool exited_ = false;  // outlives the hostlet
  Hostlet hostlet_;
};

TEST_F(SweepTest, AWholeTreeIsGoneAndReapedAfterASweep) {
  bool& exited = exited_;
  const std::vector<pid_t> pids = StartTree(&exited);
  ASSERT_TRUE(AllAlive(pids));
  ASSERT_TRUE(SweepAll());
  EXPECT_TRUE(exited);
  for (pid_t pid : pids) EXPECT_FALSE(ReadProcess(pid)) << pid;  // no zombie either
}

TEST_F(SweepTest, WhatADeadWorkerLeftIsGoneAfterASweep) {
  bool& exited = exited_;
  const std::vector<pid_t> pids = StartTree(&exited);
  kill(pids[0], SIGKILL);
  ASSERT_TRUE(hostlet_.RunUntil([&] { return exited; }));
  ASSERT_FALSE(AllDead(pids));  // those that called setsid are still there
  ASSERT_TRUE(SweepAll());
  for (pid_t pid : pids) EXPECT_FALSE(ReadProcess(pid)) << pid;
}

TEST_F(SweepTest, AChildThatWasThereBeforeUsIsLeftAlone) {
  // The hostlet of the fixture counts as the host here only from its own start on: one more is made.
  LinePipe pipe;
  const pid_t before = SpawnActor({"tree"}, pipe.in());
  ReadPids(&pipe, kTreeSize);
  bool done = false;
  Sweeper later(&hostlet_.loop, &hostlet_.spawner, [&](const std::string& left) { done = left.empty(); });
  later.Sweep();
  ASSERT_TRUE(hostlet_.RunUntil([&] { return done; }));
  EXPECT_FALSE(IsDead(before));
}

TEST_F(SweepTest, ASweepOfNothingEndsAtOnce) {
  hostlet_.sweeper.Sweep();
  EXPECT_TRUE(hostlet_.swept);
  EXPECT_EQ(hostlet_.reports, std::vector<std::string>{""});
}

TEST_F(SweepTest, ZombiesOfStrangersAreReapedWhileWorkersRun) {
  bool& exited = exited_;
  WorkerCommand command{.argv = {"/bin/sh", "-c", "(sh -c 'echo $$; exit 0' &) ; sleep 1000"},
                        .environment = CurrentEnvironment()};
  LinePipe pipe;
  command.stdout_fd = pipe.in();
  Spawner::WorkerEvents events;
  events.exited = [&](const Ending&) { exited = true; };
  ASSERT_TRUE(hostlet_.spawner.SpawnWorker(command, events).ok());
  const pid_t stray = ReadPids(&pipe, 1)[0];
  EXPECT_TRUE(hostlet_.RunUntil([&] { return !ReadProcess(stray); }));
  EXPECT_FALSE(exited);
}

class MarkedTest : public testing::Test {
 protected:
  // A tree whose parents are all dead, so that it belongs to process 1, with one process that lost the marker.
  std::vector<pid_t> Abandon(const std::string& host_id) {
    LinePipe pipe;
    host_ids_.push_back(host_id);
    const pid_t starter = SpawnActor({"abandon", host_id}, pipe.in());
    waitpid(starter, nullptr, 0);
    return ReadPids(&pipe, kTreeSize + 1);
  }

  bool EndAll(const std::string& host_id) {
    return Eventually([&] { return EndMarked(host_id).alive == 0; });
  }

  ~MarkedTest() override {
    for (const std::string& host_id : host_ids_) EXPECT_TRUE(EndAll(host_id));
  }

  std::vector<std::string> host_ids_;
};

TEST_F(MarkedTest, OrphansOfADeadHostAreEnded) {
  const std::string host_id = "test-" + std::to_string(getpid()) + "-a";
  const std::vector<pid_t> pids = Abandon(host_id);
  ASSERT_TRUE(AllAlive(pids));
  ASSERT_TRUE(AnyMarkedAlive(host_id));
  ASSERT_TRUE(EndAll(host_id));
  EXPECT_TRUE(AllDead(pids));
  EXPECT_FALSE(AnyMarkedAlive(host_id));
}

TEST_F(MarkedTest, OtherHostsProcessesAreLeftAlone) {
  const std::string mine = "test-" + std::to_string(getpid()) + "-b";
  const std::vector<pid_t> others = Abandon(mine + "b");  // a longer name with the same beginning
  EXPECT_FALSE(AnyMarkedAlive(mine));
  EXPECT_EQ(EndMarked(mine).alive, 0);
  EXPECT_TRUE(AllAlive(others));
}

TEST_F(MarkedTest, ASessionThatIsNamedIsEndedWithoutAMarker) {
  const std::vector<pid_t> pids = Abandon("test-" + std::to_string(getpid()) + "-c");
  // The session of the tree's first process has most of them.
  std::map<pid_t, std::vector<pid_t>> sessions;
  for (pid_t pid : pids) sessions[ReadProcess(pid).value_or(ProcessInfo{}).session].push_back(pid);
  const auto& [session, members] =
      *std::max_element(sessions.begin(), sessions.end(),
                        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const pid_t id = session;
  ASSERT_GE(members.size(), 2u);
  EXPECT_TRUE(Eventually([&] { return EndMarked("test-unused", {id}).alive == 0; }));
  EXPECT_TRUE(AllDead(members));
  EXPECT_FALSE(AllDead(pids));
}

}  // namespace
}  // namespace muster::host
