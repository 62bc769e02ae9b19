// Snapshots of real processes. The tool that reads Python stacks is a script in its place; tests/integration has
// the real one.
#include "agent/host/watch/snapshot_taker.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/stacks/py_spy.h"
#include "tests/unit/agent/host/host_shell_support.h"
#include "tests/unit/test_folder.h"

namespace muster::host {
namespace {

using ::testing::HasSubstr;

constexpr char kStacks[] =
    R"([{"os_thread_id": '$5', "thread_name": "MainThread", "frames": [{"name": "f", "filename": "/j/a.py", "line": 4}]}])";

class SnapshotTakerTest : public testing::Test {
 protected:
  SnapshotTakerTest() : taker_(&hostlet_.loop, &hostlet_.spawner, CurrentEnvironment()) {}

  // A worker that waits, and has executed its program.
  pid_t Start(const std::vector<std::string>& argv) {
    bool& executing = executing_.emplace_back(false);
    const auto pid = hostlet_.spawner.SpawnWorker(
        {.argv = argv, .environment = CurrentEnvironment()},
        {[&executing] { executing = true; }, [](int, const std::string&) {}, [](const Ending&) {}});
    EXPECT_TRUE(pid.ok()) << pid.status();
    EXPECT_TRUE(hostlet_.RunUntil([&executing] { return executing; }));
    return *pid;
  }
  // What is called python3 may be a script that executes it.
  pid_t StartPython() {
    const pid_t pid = Start({"python3", "-c", "import time; time.sleep(1000)"});
    EXPECT_TRUE(Eventually([pid] {
      const std::string program = std::filesystem::read_symlink(absl::StrCat("/proc/", pid, "/exe")).filename();
      return program.find("python") == 0;
    }));
    return pid;
  }

  // The script in the place of py-spy. Returns the interpreter beside which it is.
  std::string Tool(const std::string& script) {
    std::ofstream(folder_ / kStackTool) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(folder_ / kStackTool, std::filesystem::perms::owner_all);
    return folder_ / "python3";
  }

  std::vector<RankSnapshot> Take(const std::vector<pid_t>& workers, const std::string& python) {
    std::vector<SnapshotTaker::Subject> subjects;
    for (const pid_t worker : workers) subjects.push_back({static_cast<int>(subjects.size()), worker});
    std::optional<std::vector<RankSnapshot>> snapshots;
    taker_.Take(subjects, python, [&snapshots](std::vector<RankSnapshot> taken) { snapshots = std::move(taken); });
    EXPECT_TRUE(taker_.busy());
    EXPECT_TRUE(hostlet_.RunUntil([&snapshots] { return snapshots.has_value(); }));
    EXPECT_FALSE(taker_.busy());
    EXPECT_EQ(snapshots->size(), workers.size());
    return *snapshots;
  }

  Hostlet hostlet_;
  TestFolder folder_;
  std::deque<bool> executing_;
  SnapshotTaker taker_;
};

TEST_F(SnapshotTakerTest, AProcessWithoutPythonHasAState) {
  const pid_t worker = Start({"/bin/sleep", "1000"});
  ASSERT_TRUE(Eventually([worker] { return ReadProcess(worker)->state == 'S'; }));
  const RankSnapshot snapshot = Take({worker}, "").at(0);
  EXPECT_EQ(snapshot.state, 'S');
  EXPECT_EQ(snapshot.program, "sleep");
  EXPECT_EQ(snapshot.threads, 1);
  EXPECT_EQ(snapshot.missing, "it runs no Python");
}

TEST_F(SnapshotTakerTest, AStoppedProcessIsNamed) {
  const pid_t worker = Start({"/bin/sleep", "1000"});
  hostlet_.spawner.Kill(worker, SIGSTOP);
  ASSERT_TRUE(Eventually([worker] { return ReadProcess(worker)->state == 'T'; }));
  EXPECT_EQ(Take({worker}, "").at(0).state, 'T');
}

TEST_F(SnapshotTakerTest, AWorkerThatIsGoneHasEnded) {
  bool ended = false;
  const auto pid = hostlet_.spawner.SpawnWorker(
      {.argv = {"/bin/true"}, .environment = CurrentEnvironment()},
      {[] {}, [](int, const std::string&) {}, [&ended](const Ending&) { ended = true; }});
  ASSERT_TRUE(pid.ok() && hostlet_.RunUntil([&ended] { return ended; }));
  EXPECT_TRUE(Take({*pid}, "").at(0).ended);
}

TEST_F(SnapshotTakerTest, TheToolIsAskedAboutThePythonOfEachRank) {
  std::vector<pid_t> workers;
  for (int i = 0; i < 2 * kStackToolsAtOnce; ++i) workers.push_back(StartPython());
  workers.push_back(Start({"/bin/sh", "-c", "python3 -c 'import time; time.sleep(1000)'; true"}));
  const auto runs_python = [&] { return Take({workers.back()}, Tool("exit 1")).at(0).pid != workers.back(); };
  ASSERT_TRUE(Eventually(runs_python)) << "the shell's child";
  std::vector<RankSnapshot> snapshots;
  const auto is_complete = [&] {  // on a loaded machine a look may come too late
    snapshots = Take(workers, Tool(absl::StrCat("echo '", kStacks, "'")));
    return std::all_of(snapshots.begin(), snapshots.end(),
                       [](const RankSnapshot& one) { return one.missing.empty(); });
  };
  ASSERT_TRUE(Eventually(is_complete)) << snapshots.front().missing;
  for (const RankSnapshot& snapshot : snapshots) {
    ASSERT_EQ(snapshot.python.size(), 1u) << snapshot.rank;
    EXPECT_TRUE(snapshot.python[0].is_main) << snapshot.rank;
    EXPECT_EQ(snapshot.python[0].frames.at(0).line, 4);
  }
}

TEST_F(SnapshotTakerTest, AToolThatIsNotThereIsNamed) {
  EnvironmentMap nothing = CurrentEnvironment();
  nothing["PATH"] = folder_ / "empty";
  SnapshotTaker taker(&hostlet_.loop, &hostlet_.spawner, nothing);
  std::optional<std::vector<RankSnapshot>> snapshots;
  taker.Take({{0, StartPython()}}, "", [&](std::vector<RankSnapshot> taken) { snapshots = std::move(taken); });
  ASSERT_TRUE(hostlet_.RunUntil([&snapshots] { return snapshots.has_value(); }));
  EXPECT_EQ(snapshots->at(0).missing, "py-spy is not installed");
  EXPECT_EQ(snapshots->at(0).program.find("python"), 0u) << "the rest is known";
}

// Eight ranks, of which four at a time are asked: when the snapshot is complete, the tool still runs for the
// others.
TEST_F(SnapshotTakerTest, WhatAnswersTooLateIsNoAnswerToTheNextSnapshot) {
  std::vector<pid_t> workers;
  for (int i = 0; i < 2 * kStackToolsAtOnce; ++i) workers.push_back(StartPython());
  const std::string pids = folder_ / "pids";
  Take(workers, Tool(absl::StrCat("echo $$ >>", pids, "; exec sleep 1000")));
  const std::vector<RankSnapshot> snapshots = Take(workers, Tool(absl::StrCat("echo '", kStacks, "'")));
  for (const RankSnapshot& snapshot : snapshots) EXPECT_EQ(snapshot.missing, "") << snapshot.rank;
  std::ifstream asked(pids);
  for (pid_t pid = 0; asked >> pid;) EXPECT_TRUE(Eventually([pid] { return IsDead(pid); })) << pid;
}

TEST_F(SnapshotTakerTest, AToolThatHangsOrFailsIsNamed) {
  const pid_t worker = StartPython();
  EXPECT_EQ(Take({worker}, Tool("exec sleep 1000")).at(0).missing, "py-spy did not answer within 4s");
  EXPECT_EQ(Take({worker}, Tool("echo no right >&2; exit 1")).at(0).missing, "py-spy failed: no right");
  const std::string script = "printf 'Error: no interpreter\\n\\nStack backtrace:\\n   11: main\\n' >&2; exit 1";
  EXPECT_EQ(Take({worker}, Tool(script)).at(0).missing, "py-spy failed: Error: no interpreter");
  EXPECT_THAT(Take({worker}, Tool("echo garbage")).at(0).missing, HasSubstr("what py-spy prints is not JSON"));
  EXPECT_THAT(Take({worker}, Tool("yes | head -c 10000000")).at(0).missing, HasSubstr("what py-spy prints is"));
}

// A worker that shares a file with this process, as those of --preload do.
class StacksTest : public SnapshotTakerTest {
 protected:
  // script: what it does when its descriptor is open.
  RankSnapshot TakeOf(const std::string& script, int signal = 0) {
    auto file = MakeStacksFile();
    EXPECT_TRUE(file.ok()) << file.status();
    const auto stacks = std::make_shared<OwnedFd>(*std::move(file));
    const OwnedFd above(fcntl(stacks->get(), F_DUPFD_CLOEXEC, kLowestMoreFd));
    const std::string ready = folder_ / "ready";
    const std::string program = absl::StrCat(
        "import faulthandler, os, signal, time\nos.dup2(4, ", kStacksFd, ")\nos.close(4)\n", script, "\nopen('",
        ready, "', 'w').close()\ndef wait_for_ever():\n while True: time.sleep(1000)\n", "wait_for_ever()\n");
    const auto pid = hostlet_.spawner.SpawnWorker(
        {.argv = {"python3", "-c", program}, .environment = CurrentEnvironment(), .more_fds = {above.get()}},
        {[] {}, [](int, const std::string&) {}, [ended = ended_](const Ending&) { *ended = true; }});
    EXPECT_TRUE(pid.ok()) << pid.status();
    EXPECT_TRUE(hostlet_.RunUntil([&] { return std::filesystem::exists(ready); }));
    if (signal != 0) hostlet_.spawner.Kill(*pid, signal);
    std::optional<std::vector<RankSnapshot>> snapshots;
    taker_.Take({{.rank = 0, .worker = *pid, .stacks = stacks}}, Tool("echo no right >&2; exit 1"),
                [&](std::vector<RankSnapshot> taken) { snapshots = std::move(taken); });
    EXPECT_TRUE(hostlet_.RunUntil([&snapshots] { return snapshots.has_value(); }));
    return snapshots->at(0);
  }

  static std::string Register() {
    return absl::StrCat("faulthandler.register(", StacksSignal(), ", file=", kStacksFd, ", all_threads=False)\n");
  }

  // Shared: the worker is ended when this object is gone already.
  const std::shared_ptr<bool> ended_ = std::make_shared<bool>(false);
};

TEST_F(StacksTest, AWorkerWritesItsStacksIfTheToolCannotShowThem) {
  const RankSnapshot snapshot = TakeOf(Register());
  EXPECT_EQ(snapshot.missing, "");
  const PythonThread* const main = MainThread(snapshot);
  ASSERT_NE(main, nullptr);
  EXPECT_EQ(main->frames.at(0).function, "wait_for_ever");
  EXPECT_FALSE(*ended_);
}

TEST_F(StacksTest, AWorkerThatDoesNotHandleTheSignalLivesOn) {
  EXPECT_EQ(TakeOf("").missing, "py-spy failed: no right, and it does not take the signal for its stack");
  EXPECT_FALSE(*ended_);
}

TEST_F(StacksTest, AWorkerThatBlocksTheSignalDoesNotGetIt) {
  const std::string block = absl::StrCat("signal.pthread_sigmask(signal.SIG_BLOCK, [", StacksSignal(), "])\n");
  EXPECT_EQ(TakeOf(Register() + block).missing,
            "py-spy failed: no right, and it does not take the signal for its stack");
}

TEST_F(StacksTest, ADescriptorThatLeadsElsewhereIsNotWrittenTo) {
  const std::string file = folder_ / "of_the_script";
  const RankSnapshot snapshot = TakeOf(
      absl::StrCat(Register(), "os.dup2(os.open('", file, "', os.O_CREAT | os.O_WRONLY), ", kStacksFd, ")\n"));
  EXPECT_EQ(snapshot.missing, "py-spy failed: no right, and it has closed its descriptor for stacks");
  EXPECT_EQ(std::filesystem::file_size(file), 0u);
}

TEST_F(StacksTest, AWorkerThatDoesNotWaitIsNotAsked) {
  EXPECT_EQ(
      TakeOf(Register(), SIGSTOP).missing,
      "py-spy failed: no right, and its main thread does not wait, so that a signal for its stack could end it");
}

TEST_F(StacksTest, AWorkerThatDoesNotAnswerIsNotWaitedForWithoutEnd) {
  const std::string elsewhere = absl::StrCat("faulthandler.register(", StacksSignal(), ", file=2)\n");
  EXPECT_EQ(TakeOf(elsewhere).missing, "py-spy failed: no right, and it did not write its stack within 2s");
}

}  // namespace
}  // namespace muster::host
