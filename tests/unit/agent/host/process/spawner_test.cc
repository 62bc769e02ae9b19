// Workers as the kernel sees them: how they start, and how their exits are reported.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "agent/host/process/exec_stage.h"
#include "base/proc/proc_scan.h"
#include "tests/unit/agent/host/host_shell_support.h"

namespace muster::host {
namespace {

struct Told {
  bool executing = false;
  std::optional<std::pair<int, std::string>> failed;
  std::optional<Ending> exited;

  Spawner::WorkerEvents Events() {
    return {[this] { executing = true; }, [this](int code, const std::string& why) { failed.emplace(code, why); },
            [this](const Ending& ending) { exited = ending; }};
  }
};

WorkerCommand Shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script}, .environment = CurrentEnvironment()};
}

// For `> >(...)`.
WorkerCommand Bash(const std::string& script) {
  return {.argv = {"/bin/bash", "-c", script}, .environment = CurrentEnvironment()};
}

// One process, without a shell's forks: signals reach the worker itself.
WorkerCommand Sleeper() { return {.argv = {"/bin/sleep", "1000"}, .environment = CurrentEnvironment()}; }

// Processor time of this thread.
absl::Duration ThreadTime() {
  timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return absl::DurationFromTimespec(used);
}

// Waits, without a loop, until every worker has ended and is reaped.
bool CollectAll(Spawner* spawner) {
  return Eventually([spawner] {
    spawner->CollectWorkers();
    return spawner->LiveWorkers().empty();
  });
}

int g_cpu_changes = 0;  // of this process, by sched_setaffinity

class SpawnerTest : public testing::Test {
 protected:
  // Outlives the hostlet, whose destructor ends what a failed test left.
  Told& NewTold() { return told_.emplace_back(); }

  Ending EndOf(const WorkerCommand& command) {
    Told& told = NewTold();
    EXPECT_TRUE(hostlet_.spawner.SpawnWorker(command, told.Events()).ok());
    EXPECT_TRUE(hostlet_.RunUntil([&] { return told.exited.has_value(); }));
    EXPECT_TRUE(told.executing);
    return told.exited.value_or(Ending{});
  }

  // What a worker prints.
  std::vector<std::string> Output(WorkerCommand command) {
    LinePipe pipe;
    command.stdout_fd = pipe.in();
    EXPECT_TRUE(EndOf(command).ok());
    pipe.CloseIn();
    std::vector<std::string> lines;
    for (std::string line = pipe.Line(); !line.empty(); line = pipe.Line()) lines.push_back(line);
    return lines;
  }

  std::deque<Told> told_;
  Hostlet hostlet_;
};

TEST_F(SpawnerTest, EveryExitCodePassesThrough) {
  for (int code = 0; code <= 255; ++code) {
    const Ending ending = EndOf(Shell("exit " + std::to_string(code)));
    ASSERT_FALSE(ending.by_signal) << code;
    ASSERT_EQ(ending.number, code);
  }
}

TEST_F(SpawnerTest, AnEndIsDated) {
  const BootTime before = EventLoop::Now();
  const Ending ending = EndOf(Shell("exit 1"));
  ASSERT_TRUE(ending.at);
  EXPECT_GE(*ending.at, before);
  EXPECT_LE(*ending.at, EventLoop::Now());
}

TEST_F(SpawnerTest, EveryDeadlySignalPassesThrough) {
  const std::set<int> harmless = {SIGCHLD, SIGCONT, SIGURG, SIGWINCH, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, 32, 33};
  for (int signal = 1; signal <= 64; ++signal) {
    if (harmless.count(signal) > 0) continue;
    const Ending ending = EndOf(Shell("kill -" + std::to_string(signal) + " $$; exit 99"));
    ASSERT_TRUE(ending.by_signal) << signal;
    ASSERT_EQ(ending.number, signal);
  }
}

TEST_F(SpawnerTest, AWorkerHasItsThreeStandardDescriptorsOnly) {
  int pair[2];  // must not be inherited, with and without O_CLOEXEC
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const int null_fd = open("/dev/null", O_RDONLY);
  EXPECT_EQ(Output(Shell("ls /proc/$$/fd")), (std::vector<std::string>{"0", "1", "2"}));
  for (int fd : {pair[0], pair[1], null_fd}) close(fd);
}

TEST_F(SpawnerTest, AWorkerLeadsItsOwnSessionAndBlocksNoSignal) {
  EXPECT_EQ(Output(Shell("read -r pid comm state ppid pgrp session rest < /proc/$$/stat;"
                         "echo $((pid == pgrp && pid == session))")),
            std::vector<std::string>{"1"});
  // Not measured by a shell, which blocks signals while it starts a program.
  EXPECT_EQ(
      Output({.argv = {"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"}, .environment = CurrentEnvironment()}),
      (std::vector<std::string>{"SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"}));
}

TEST_F(SpawnerTest, InheritedIgnoredSignalsStayIgnored) {
  Inherited inherited = g_inherited;
  sigaddset(&inherited.ignored, SIGHUP);
  signal(SIGHUP, SIG_IGN);
  Spawner spawner(&hostlet_.loop, inherited);
  Told& told = NewTold();
  LinePipe pipe;
  WorkerCommand command{.argv = {"grep", "^SigIgn", "/proc/self/status"}, .environment = CurrentEnvironment()};
  command.stdout_fd = pipe.in();
  ASSERT_TRUE(spawner.SpawnWorker(command, told.Events()).ok());
  EXPECT_EQ(pipe.Line(), "SigIgn:\t0000000000000001");
  EXPECT_TRUE(CollectAll(&spawner));
  signal(SIGHUP, SIG_DFL);
}

TEST_F(SpawnerTest, TheOriginalLimitOfOpenFilesIsRestored) {
  Inherited inherited = g_inherited;
  inherited.nofile.rlim_cur = 77;  // not what we have now
  Spawner spawner(&hostlet_.loop, inherited);
  LinePipe pipe;
  WorkerCommand command = Shell("ulimit -Sn");
  command.stdout_fd = pipe.in();
  ASSERT_TRUE(spawner.SpawnWorker(command, NewTold().Events()).ok());
  EXPECT_EQ(pipe.Line(), "77");
  EXPECT_TRUE(CollectAll(&spawner));
}

TEST_F(SpawnerTest, MissingProgramsAre127NotExecutableOnes126) {
  for (const auto& [program, code] : {std::pair<std::string, int>{"/no/such/program", 127},
                                      {"no-such-program-on-the-path", 127},
                                      {"/etc/passwd", 126},
                                      {"/proc", 126}}) {
    Told& told = NewTold();
    ASSERT_TRUE(
        hostlet_.spawner.SpawnWorker({.argv = {program}, .environment = CurrentEnvironment()}, told.Events())
            .ok());
    ASSERT_TRUE(hostlet_.RunUntil([&] { return told.failed.has_value(); })) << program;
    EXPECT_EQ(told.failed->first, code) << program;
    EXPECT_NE(told.failed->second.find(program), std::string::npos) << told.failed->second;
    EXPECT_FALSE(told.executing);
    EXPECT_FALSE(told.exited);
  }
}

TEST_F(SpawnerTest, TheEnvironmentIsExactlyTheOneGiven) {
  const WorkerCommand command = {.argv = {"/usr/bin/env"}, .environment = {{"RANK", "3"}, {"EMPTY", ""}}};
  EXPECT_EQ(Output(command), (std::vector<std::string>{"EMPTY=", "RANK=3"}));
}

TEST_F(SpawnerTest, ManyDeathsAtOnceAreAllReported) {
  constexpr int kWorkers = 64;
  const std::deque<Told>& told = told_;
  for (int i = 0; i < kWorkers; ++i) {
    ASSERT_TRUE(hostlet_.spawner.SpawnWorker(Sleeper(), NewTold().Events()).ok());
  }
  ASSERT_TRUE(hostlet_.RunUntil(
      [&] { return std::all_of(told.begin(), told.end(), [](const Told& t) { return t.executing; }); }));
  hostlet_.spawner.StopWorkers(SIGTERM);
  EXPECT_TRUE(hostlet_.RunUntil(
      [&] { return std::all_of(told.begin(), told.end(), [](const Told& t) { return t.exited.has_value(); }); }));
  EXPECT_TRUE(hostlet_.spawner.LiveWorkers().empty());
}

TEST_F(SpawnerTest, AStoppedWorkerObeysSigterm) {
  Told& told = NewTold();
  const auto pid = hostlet_.spawner.SpawnWorker(Sleeper(), told.Events());
  ASSERT_TRUE(pid.ok());
  ASSERT_TRUE(hostlet_.RunUntil([&] { return told.executing; }));
  hostlet_.spawner.SignalWorkers(SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return ReadProcess(*pid).value_or(ProcessInfo{}).state == 'T'; }));
  hostlet_.spawner.StopWorkers(SIGTERM);
  EXPECT_TRUE(hostlet_.RunUntil([&] { return told.exited.has_value(); }));
}

// SIGTERM ends the shell at once. Its child ignores further signals and takes time to finish, as many handlers do.
TEST_F(SpawnerTest, AProcessWithAHandlerOutlivesItsShell) {
  LinePipe orders, said;
  WorkerCommand command = Shell(R"(sh -c 'trap "trap "" TERM; echo saving; read -r _; echo saved; exit" TERM
                                          echo ready; while :; do sleep 0.02; done'; exit 3)");
  command.stdin_fd = orders.out();
  command.stdout_fd = said.in();
  Told& told = NewTold();
  Spawner::WorkerEvents events = told.Events();
  bool rest_ended = false;
  events.spares_rest = [] { return true; };
  events.rest_ended = [&] { rest_ended = true; };
  ASSERT_TRUE(hostlet_.spawner.SpawnWorker(command, events).ok());
  ASSERT_EQ(said.Line(), "ready");
  hostlet_.spawner.StopWorkers(SIGTERM);
  ASSERT_EQ(said.Line(), "saving");
  ASSERT_TRUE(hostlet_.RunUntil([&] { return told.exited.has_value(); }));
  EXPECT_TRUE(told.exited->rest_lives);
  EXPECT_FALSE(rest_ended);
  ASSERT_EQ(write(orders.in(), "go\n", 3), 3);
  EXPECT_EQ(said.Line(), "saved");
  EXPECT_TRUE(hostlet_.RunUntil([&] { return rest_ended; }));
}

TEST_F(SpawnerTest, AProcessIgnoringTheSignalDiesWithItsShell) {
  LinePipe said;
  WorkerCommand command = Shell("sh -c 'trap \"\" TERM; echo ready; while :; do sleep 0.02; done'; exit 3");
  command.stdout_fd = said.in();
  Told& told = NewTold();
  Spawner::WorkerEvents events = told.Events();
  events.spares_rest = [] { return true; };
  ASSERT_TRUE(hostlet_.spawner.SpawnWorker(command, events).ok());
  ASSERT_EQ(said.Line(), "ready");
  hostlet_.spawner.StopWorkers(SIGTERM);
  ASSERT_TRUE(hostlet_.RunUntil([&] { return told.exited.has_value(); }));
  EXPECT_FALSE(told.exited->rest_lives);
}

// As in `exec > >(tee log)`.
TEST_F(SpawnerTest, AReaderPassesOnWhatTheWorkerWroteLast) {
  Hostlet patient(absl::Hours(1));
  LinePipe said;
  WorkerCommand command = Bash(R"(exec 4> >(echo ready
                                            until grep -q '^State:.Z' /proc/$$/status; do sleep 0.01; done
                                            read -r line; echo "$line"; echo done)
                                  read -r _; echo last >&4; exit 3)");
  LinePipe orders;
  command.stdin_fd = orders.out();
  command.stdout_fd = said.in();
  Told& told = NewTold();
  ASSERT_TRUE(patient.spawner.SpawnWorker(command, told.Events()).ok());
  ASSERT_EQ(said.Line(), "ready");
  ASSERT_EQ(write(orders.in(), "go\n", 3), 3);
  ASSERT_TRUE(patient.RunUntil([&] { return told.exited.has_value(); }));
  EXPECT_EQ(told.exited->number, 3);
  EXPECT_EQ(said.Line(), "last");
  EXPECT_EQ(said.Line(), "done");
}

TEST_F(SpawnerTest, AReaderThatNeverEndsIsEndedInTheEnd) {
  LinePipe said, orders;
  WorkerCommand command = Bash("exec 4> >(echo $BASHPID; exec sleep 1000); read -r _; exit 3");
  command.stdin_fd = orders.out();
  command.stdout_fd = said.in();
  Told& told = NewTold();
  ASSERT_TRUE(hostlet_.spawner.SpawnWorker(command, told.Events()).ok());
  const pid_t reader = std::atoi(said.Line().c_str());
  ASSERT_EQ(write(orders.in(), "go\n", 3), 3);
  ASSERT_TRUE(hostlet_.RunUntil([&] { return told.exited.has_value(); }));
  EXPECT_GE(EventLoop::Now() - *told.exited->at, kReadersLimit);
  EXPECT_TRUE(Eventually([&] { return IsDead(reader); }));
}

TEST_F(SpawnerTest, WhileAReaderIsAwaitedOrphansAreReapedAndASweepEndsIt) {
  Hostlet patient(absl::Hours(1));
  LinePipe said, orders;
  WorkerCommand command =
      Bash("sleep 1000 & echo $!; exec 4> >(echo $BASHPID; exec sleep 1000); read -r _; exit 3");
  command.stdin_fd = orders.out();
  command.stdout_fd = said.in();
  Told& told = NewTold();
  ASSERT_TRUE(patient.spawner.SpawnWorker(command, told.Events()).ok());
  const pid_t other = std::atoi(said.Line().c_str());
  const pid_t reader = std::atoi(said.Line().c_str());
  ASSERT_EQ(write(orders.in(), "go\n", 3), 3);
  ASSERT_TRUE(patient.RunUntil([&] { return !IsThere(other); }));  // the worker itself cannot be reaped yet
  patient.spawner.StopWorkers(SIGTERM);
  EXPECT_FALSE(told.exited);
  EXPECT_FALSE(IsDead(reader));
  patient.spawner.KillWorkers();
  EXPECT_TRUE(patient.RunUntil([&] { return told.exited.has_value(); }));
}

// A shell must not see the end of its child and go on.
TEST_F(SpawnerTest, AShellInTheBackgroundDoesNotOutliveItsChild) {
  LinePipe said, orders;
  WorkerCommand command = Bash("(sleep 1000 & echo $!; wait; echo went on) & read -r _");
  command.stdin_fd = orders.out();
  command.stdout_fd = said.in();
  Told& told = NewTold();
  ASSERT_TRUE(hostlet_.spawner.SpawnWorker(command, told.Events()).ok());
  const pid_t child = std::atoi(said.Line().c_str());
  ASSERT_EQ(write(orders.in(), "go\n", 3), 3);
  ASSERT_TRUE(hostlet_.RunUntil([&] { return told.exited.has_value() && IsDead(child); }));
  said.CloseIn();
  EXPECT_EQ(said.Line(), "");
}

TEST_F(SpawnerTest, WhatAReaderHasStartedIsLeftToIt) {
  Hostlet patient(absl::Hours(1));
  LinePipe said, orders;
  WorkerCommand command = Bash(R"(exec 4> >(echo ready
                                            until grep -q '^State:.Z' /proc/$$/status < /dev/null; do :; done
                                            for i in 1 2 3 4 5; do sleep 0.01 < /dev/null || echo cut; done; echo done)
                                  read -r _; exit 0)");
  command.stdin_fd = orders.out();
  command.stdout_fd = said.in();
  Told& told = NewTold();
  ASSERT_TRUE(patient.spawner.SpawnWorker(command, told.Events()).ok());
  ASSERT_EQ(said.Line(), "ready");
  ASSERT_EQ(write(orders.in(), "go\n", 3), 3);
  ASSERT_TRUE(patient.RunUntil([&] { return told.exited.has_value(); }));
  EXPECT_EQ(said.Line(), "done");
}

// While a debugger holds an exited worker we cannot reap it, and must not poll for it.
TEST_F(SpawnerTest, ATracedWorkersExitIsReportedAfterDetach) {
  Told& told = NewTold();
  const auto pid = hostlet_.spawner.SpawnWorker(Sleeper(), told.Events());
  ASSERT_TRUE(pid.ok());
  ASSERT_TRUE(hostlet_.RunUntil([&] { return told.executing; }));
  LinePipe pipe;
  const pid_t debugger = SpawnActor({"debug", std::to_string(*pid)}, pipe.in());
  const absl::Cleanup reaper = [debugger] {
    kill(debugger, SIGKILL);
    waitpid(debugger, nullptr, 0);
  };
  if (const std::string line = pipe.Line(); line != "holds it")
    GTEST_SKIP() << "no debugger is allowed here: " << line;
  hostlet_.spawner.SignalWorkers(SIGKILL);
  ASSERT_TRUE(hostlet_.RunUntil([&] { return IsDead(*pid); }));
  const absl::Duration before = ThreadTime();
  constexpr absl::Duration kWhile = absl::Milliseconds(300);
  ASSERT_TRUE(hostlet_.RunUntil([&, end = EventLoop::Now() + kWhile] { return EventLoop::Now() > end; }));
  EXPECT_LT(ThreadTime() - before, kWhile / 2);
  EXPECT_FALSE(told.exited.has_value());
  kill(debugger, SIGKILL);
  ASSERT_TRUE(hostlet_.RunUntil([&] { return told.exited.has_value(); }));
  EXPECT_EQ(told.exited->number, SIGKILL);
}

TEST(ExecStageTest, AWorkerDiesWithItsHost) {
  LinePipe pipe;
  const pid_t host = SpawnActor({"host"}, pipe.in());
  ASSERT_GT(host, 0);
  const pid_t worker = std::atoi(pipe.Line().c_str());
  ASSERT_GT(worker, 0);
  ASSERT_FALSE(IsDead(worker));
  kill(host, SIGKILL);
  waitpid(host, nullptr, 0);
  EXPECT_TRUE(Eventually([&] { return IsDead(worker); }));
}

TEST_F(SpawnerTest, AProgramGetsTheNameThatWasTyped) {
  WorkerCommand command = Shell("echo $0");
  command.file = std::exchange(command.argv[0], "a-name");
  EXPECT_EQ(Output(command), std::vector<std::string>{"a-name"});
}

TEST_F(SpawnerTest, AWorkerStartsOnItsCpusAndTheHostKeepsItsOwn) {
  cpu_set_t ours;
  ASSERT_EQ(sched_getaffinity(0, sizeof(ours), &ours), 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) last = CPU_ISSET(cpu, &ours) ? cpu : last;
  WorkerCommand command = Shell("grep Cpus_allowed_list /proc/self/status | cut -f2");
  command.cpus = {last};
  EXPECT_EQ(Output(command), std::vector<std::string>{std::to_string(last)});
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&ours, &after));
  // The host's own CPUs must never change: a cpuset may refuse to set them back.
  EXPECT_EQ(g_cpu_changes, 0);
}

TEST_F(SpawnerTest, AWorkerWithoutItsCpusCannotStart) {
  WorkerCommand command = Shell("true");
  command.cpus = {8000};
  Told told;
  ASSERT_TRUE(hostlet_.spawner.SpawnWorker(command, told.Events()).ok());
  ASSERT_TRUE(hostlet_.RunUntil([&] { return told.failed.has_value(); }));
  EXPECT_EQ(told.failed->first, 126);
  EXPECT_EQ(told.failed->second, "cannot bind /bin/sh to its CPUs (--numa-binding): Invalid argument");
}

TEST(ExecStageTest, AStageWhoseParentIsAnotherRefuses) {
  // Process 1 is never the parent of a child of this test.
  const auto arguments = ExecStageArguments(1, g_inherited.nofile, "/bin/true", {"true"});
  std::vector<char*> argv;
  for (const std::string& s : arguments) argv.push_back(const_cast<char*>(s.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(ExecStageMain(static_cast<int>(arguments.size()), argv.data()));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 126) << status;
}

}  // namespace
}  // namespace muster::host

// Replaces the C library's function to count this process's calls.
extern "C" int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t* cpus) noexcept {
  ++muster::host::g_cpu_changes;
  return static_cast<int>(syscall(SYS_sched_setaffinity, pid, size, cpus)) < 0 ? -1 : 0;
}
