// Leftovers of workers are ended: by the host as a subreaper, and from outside by their marker.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/proc/dead_hosts.h"
#include "base/proc/proc_scan.h"
#include "tests/unit/agent/host/host_shell_support.h"

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

TEST_F(SweepTest, LeftoversOfADeadWorkerAreGoneAfterASweep) {
  bool& exited = exited_;
  const std::vector<pid_t> pids = StartTree(&exited);
  kill(pids[0], SIGKILL);
  ASSERT_TRUE(hostlet_.RunUntil([&] { return exited; }));
  ASSERT_FALSE(AllDead(pids));  // those that called setsid are still there
  ASSERT_TRUE(SweepAll());
  for (pid_t pid : pids) EXPECT_FALSE(ReadProcess(pid)) << pid;
}

TEST_F(SweepTest, AnInheritedChildIsLeftAlone) {
  // The fixture's hostlet started before this child; a second sweeper has the child as an inherited one.
  LinePipe pipe;
  const pid_t before = SpawnActor({"tree"}, pipe.in());
  ReadPids(&pipe, kTreeSize);
  bool done = false;
  Sweeper later(&hostlet_.loop, &hostlet_.spawner, [&](const std::string& left) { done = left.empty(); });
  later.Sweep();
  ASSERT_TRUE(hostlet_.RunUntil([&] { return done; }));
  EXPECT_FALSE(IsDead(before));
}

// As in `( sleep 1; setsid daemon & ) & exec muster run ...`.
TEST_F(SweepTest, OrphansOfAnInheritedChildAreLeftAlone) {
  LinePipe pipe, order;
  const pid_t before = fork();
  if (before == 0) {
    char byte;
    order.CloseIn();
    (void)!read(order.out(), &byte, 1);
    if (fork() == 0) {
      setsid();
      dprintf(pipe.in(), "%d\n", static_cast<int>(getpid()));
      while (true) pause();
    }
    _exit(0);
  }
  bool done = false;
  Sweeper later(
      &hostlet_.loop, &hostlet_.spawner, [&](const std::string& left) { done = left.empty(); }, {},
      [](const ProcessInfo& child) { return BearsMarkerOf("ours", child); });
  order.CloseIn();
  const pid_t daemon = ReadPids(&pipe, 1)[0];
  waitpid(before, nullptr, 0);
  EnvironmentMap environment = CurrentEnvironment();
  environment[kMarkerVariable] = "ours";
  WorkerCommand command{.argv = {"/bin/sh", "-c", "setsid sh -c 'echo $$; sleep 1000' & wait"},
                        .environment = environment};
  command.stdout_fd = pipe.in();
  Spawner::WorkerEvents events;
  events.exited = [this](const Ending&) { exited_ = true; };
  const auto worker = hostlet_.spawner.SpawnWorker(command, events);
  ASSERT_TRUE(worker.ok());
  const pid_t ours = ReadPids(&pipe, 1)[0];
  kill(*worker, SIGKILL);
  ASSERT_TRUE(hostlet_.RunUntil([&] { return exited_; }));  // a sweep comes after the workers
  later.Sweep();
  ASSERT_TRUE(hostlet_.RunUntil([&] { return done; }));
  EXPECT_FALSE(IsDead(daemon));
  EXPECT_TRUE(IsDead(ours));
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
  std::vector<pid_t> Abandon(const std::string& marker) {
    LinePipe pipe;
    host_ids_.emplace_back(HostIdOf(marker));
    const pid_t starter = SpawnActor({"abandon", marker}, pipe.in());
    waitpid(starter, nullptr, 0);
    return ReadPids(&pipe, kTreeSize + 1);
  }

  // A child of this process that bears the marker.
  pid_t SpawnMarked(const std::vector<std::string>& words, const std::string& host_id, LinePipe* pipe) {
    host_ids_.push_back(host_id);
    EnvironmentMap environment = CurrentEnvironment();
    environment[kMarkerVariable] = host_id;
    return SpawnActor(words, pipe->in(), environment);
  }

  static DeadHosts Host(const std::string& host_id) {
    static const pid_t adopter = FindAdopter();
    return {.ids = {host_id}, .adopter = adopter};
  }

  // Repeats passes as the callers do: each pass gets the findings of the one before.
  static bool EndAll(const std::string& host_id, const std::vector<ProcessId>& sessions = {},
                     MarkedReport pass = {}) {
    DeadHosts host = Host(host_id);
    host.sessions = sessions;
    return Eventually([&] {
      pass = EndMarked(host, pass.found);
      return pass.AllGone();
    });
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
  ASSERT_TRUE(EndAll(host_id));
  EXPECT_TRUE(AllDead(pids));
}

TEST_F(MarkedTest, OtherHostsProcessesAreLeftAlone) {
  const std::string mine = "test-" + std::to_string(getpid()) + "-b";
  const std::vector<pid_t> others = Abandon(mine + "b");  // a longer name with the same beginning
  EXPECT_TRUE(EndMarked(Host(mine)).found.empty());
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
  const uint64_t start = ReadProcess(session).value_or(ProcessInfo{}).start;
  ASSERT_GE(members.size(), 2u);
  // Stands for an earlier process of this pid, which led another session.
  EXPECT_TRUE(EndAll("test-unused", {{.pid = session, .start = start - 1}}));
  EXPECT_TRUE(AllAlive(members));
  EXPECT_TRUE(EndAll("test-unused", {{.pid = session, .start = start}}));
  EXPECT_TRUE(AllDead(members));
  EXPECT_FALSE(AllDead(pids));
}

TEST_F(MarkedTest, FoundProcessesCountUntilTheyEnd) {
  // A process without a marker stands for an ending one, whose memory, and with it the marker, is gone.
  LinePipe pipe;
  const pid_t child = SpawnActor({"wait"}, pipe.in());
  ASSERT_NE(pipe.Line(), "");
  ProcessInfo seen = ReadProcess(child).value_or(ProcessInfo{});
  ProcessInfo former = seen;
  former.start -= 1;  // had its pid before
  EXPECT_TRUE(EndMarked(Host("test-unused"), {former}).found.empty());
  EXPECT_FALSE(IsDead(child));
  const MarkedReport pass = EndMarked(Host("test-unused"), {seen});
  EXPECT_EQ(pass.found.size(), 1u);
  EXPECT_TRUE(EndAll("test-unused", {}, pass));
  EXPECT_TRUE(IsDead(child));
  waitpid(child, nullptr, 0);
}

// /proc/PID/stat of a process with these flags, end of the environment and start of the code.
std::optional<ProcessInfo> ProcessWith(const std::string& state, uint64_t flags, uint64_t environment_end,
                                       uint64_t code_start = 0) {
  std::string text = "71 (a (b) c) " + state + " 2 3 4 0 -1 " + std::to_string(flags);
  for (int field = 10; field <= 21; ++field) text += " 0";
  text += " 1234 0 0 0 " + std::to_string(code_start);
  for (int field = 27; field <= 50; ++field) text += " 0";
  return ParseProcess(71, text + " " + std::to_string(environment_end) + " 0\n");
}

TEST(ProcessTest, IsReadWithAnyName) {
  const auto info = ProcessWith("S", 0, 99);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->name, "a (b) c");
  EXPECT_EQ(info->state, 'S');
  EXPECT_EQ(info->parent, 2);
  EXPECT_EQ(info->group, 3);
  EXPECT_EQ(info->session, 4);
  EXPECT_EQ(info->start, 1234u);
  for (const char* none :
       {"", "71 (x", ") 71 (", "71 (x)", "71 (x) S 1 2 3", "71 (x) S 1 2 y 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 5"}) {
    EXPECT_FALSE(ParseProcess(71, none)) << none;
  }
}

TEST(ProcessTest, BetweenTwoProgramsItHasNoEnvironmentYet) {
  constexpr uint64_t kExiting = 0x4, kKernelThread = 0x200000;
  EXPECT_TRUE(ProcessWith("R", 0, 0)->in_exec);
  EXPECT_FALSE(ProcessWith("R", 0, 140000)->in_exec);
  EXPECT_FALSE(ProcessWith("R", kExiting, 0)->in_exec) << "it gets none any more";
  EXPECT_FALSE(ProcessWith("Z", kExiting, 0)->in_exec);
  EXPECT_FALSE(ProcessWith("S", kKernelThread, 0)->in_exec);
  EXPECT_FALSE(ProcessWith("S", 0, 0, 1)->in_exec) << "a process of another user, whose details are hidden";
  EXPECT_FALSE(ReadProcess(getpid())->in_exec);
}

TEST(ProcessTest, AnUnclearProcessIsReadAgainLast) {
  std::map<pid_t, int> looks;
  pid_t last = 0;
  const auto first_time_unclear = [&](pid_t pid, std::string* unclear) {
    last = pid;
    if (++looks[pid] == 1 && pid == getpid()) *unclear = "in an exec";
  };
  EXPECT_EQ(LookAtEachProcess(first_time_unclear), "");
  for (const auto& [pid, count] : looks) EXPECT_EQ(count, pid == getpid() ? 2 : 1) << pid;
  EXPECT_EQ(last, getpid());
  const auto always_unclear = [](pid_t pid, std::string* unclear) {
    if (pid == getpid()) *unclear = "in an exec";
  };
  EXPECT_EQ(LookAtEachProcess(always_unclear), "in an exec");
}

TEST_F(MarkedTest, AProcessWithoutItsFirstThreadIsNotGone) {
  const std::string host_id = "test-" + std::to_string(getpid()) + "-t";
  LinePipe pipe;
  const pid_t child = SpawnMarked({"headless"}, host_id, &pipe);
  ASSERT_TRUE(Eventually([&] {
    const auto info = ReadProcess(child);
    return info && info->thread != child;
  }));
  EXPECT_FALSE(IsDead(child));
  DeadHosts host = Host(host_id);
  host.adopter = getpid();
  EXPECT_FALSE(EndMarked(host).AllGone());
  EXPECT_TRUE(Eventually([&] { return IsDead(child); }));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// A shell dies with its host between the listing of the processes and the reading of its marker. Its children
// still had a parent in that list, so only the next pass can find them.
TEST_F(MarkedTest, AnExitDuringThePassNeedsAnotherPass) {
  const std::string host_id = "test-" + std::to_string(getpid()) + "-e";
  LinePipe pipe;
  const pid_t shell = SpawnMarked({"tree"}, host_id, &pipe);
  const std::vector<pid_t> pids = ReadPids(&pipe, kTreeSize);
  EnvironReader reader([&](pid_t pid) {
    if (pid == shell) {
      kill(shell, SIGKILL);
      waitpid(shell, nullptr, 0);
    }
    return StartEnvironment(pid, kMarkerVariable);
  });
  DeadHosts host = Host(host_id);
  const pid_t next_adopter = std::exchange(host.adopter, getpid());
  const MarkedReport pass = EndMarked(host, {}, &reader);
  EXPECT_EQ(pass.unknown, "pid " + std::to_string(shell) + " ended during the scan");
  EXPECT_FALSE(AllDead(pids));
  host.adopter = next_adopter;
  EXPECT_TRUE(Eventually([&] { return EndMarked(host).AllGone(); }));
  EXPECT_TRUE(Eventually([&] { return AllDead(pids); })) << "the kernel may still be ending them";
}

// Short-lived processes such as compilers must not make the proof of a host's death fail.
TEST_F(MarkedTest, AnExitWithoutChildrenNeedsNoOtherPass) {
  const std::string host_id = "test-" + std::to_string(getpid()) + "-c";
  LinePipe pipe;
  const pid_t child = SpawnMarked({"wait"}, host_id, &pipe);
  ASSERT_EQ(pipe.Line(), "here");
  EnvironReader reader([&](pid_t pid) {
    if (pid == child) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    return StartEnvironment(pid, kMarkerVariable);
  });
  const MarkedReport pass = EndMarked({.ids = {host_id}}, {}, &reader);
  EXPECT_TRUE(IsDead(child));
  EXPECT_EQ(pass.unknown.find("pid " + std::to_string(child) + " ended"), std::string::npos) << pass.unknown;
  EXPECT_TRUE(Eventually([&] { return EndMarked({.ids = {host_id}}).AllGone(); }));
}

TEST_F(MarkedTest, AnExitBeforeItsMarkerIsReadIsUnclear) {
  const std::string host_id = "test-" + std::to_string(getpid()) + "-b";
  LinePipe pipe;
  const pid_t child = SpawnMarked({"wait"}, host_id, &pipe);
  ASSERT_EQ(pipe.Line(), "here");
  const ProcessInfo seen = ReadProcess(child).value();
  EXPECT_EQ(BearsMarkerOf(host_id, seen), true);
  EXPECT_EQ(BearsMarkerOf("another", seen), false);
  EnvironReader reader([&](pid_t pid) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return StartEnvironment(pid, kMarkerVariable);
  });
  EXPECT_EQ(BearsMarkerOf(host_id, seen, &reader), std::nullopt);
}

// Without a descriptor /proc cannot be read, and unseen processes do not count as gone.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(MarkedTest, NothingIsProvedWithoutADescriptor) {
  const std::string host_id = "test-" + std::to_string(getpid()) + "-d";
  const std::vector<pid_t> pids = Abandon(host_id);
  MarkedReport report;
  {
    const NoDescriptors short_of_them;
    report = EndMarked(Host(host_id));
  }
  EXPECT_FALSE(report.AllGone());
  EXPECT_NE(report.unknown, "");
  EXPECT_TRUE(AllAlive(pids));
}

TEST_F(SweepTest, ASweepIsNotOverWhileChildrenCannotBeSeen) {
  const std::vector<pid_t> pids = StartTree(&exited_);
  kill(pids[0], SIGKILL);
  ASSERT_TRUE(hostlet_.RunUntil([&] { return exited_; }));
  {
    const NoDescriptors short_of_them;
    hostlet_.sweeper.Sweep();
    EXPECT_FALSE(hostlet_.swept);
  }
  ASSERT_TRUE(hostlet_.RunUntil([this] { return hostlet_.swept; }));
  for (pid_t pid : pids) EXPECT_FALSE(ReadProcess(pid)) << pid;
}

TEST_F(SweepTest, AnUnfinishedSweepEndsForeignDescendantsToo) {
  int ended = 0;
  Sweeper sweeper(
      &hostlet_.loop, &hostlet_.spawner, [](const std::string&) {}, [&](const std::set<pid_t>&) { ++ended; });
  StartTree(&exited_);
  const NoDescriptors short_of_them;  // stands for a worker that the kernel holds: the sweep cannot end
  sweeper.Sweep();
  EXPECT_EQ(ended, 0) << "most sweeps end at once, and /proc is large";
  EXPECT_TRUE(hostlet_.RunUntil([&] { return ended > 0; }));
}

class OrphanTest : public MarkedTest {
 protected:
  // Unique to this process: another run of these tests would otherwise end these processes.
  static std::string RunId() { return "run-" + std::to_string(getpid()); }
  Marker Own() const { return OwnMarker("test-" + std::to_string(getpid()) + "-own", RunId(), "boot", "pid:[1]"); }

  // The marker of a host whose pid is free again.
  Marker Dead(const std::string& name) const {
    LinePipe pipe;
    const pid_t gone = SpawnActor({"none"}, pipe.in());
    waitpid(gone, nullptr, 0);
    Marker marker = Own();
    marker.host_id += name;
    marker.pid = gone;
    return marker;
  }

  void ExpectLeftAlone(const Marker& marker) {
    const std::vector<pid_t> pids = Abandon(FormatMarker(marker));
    EXPECT_EQ(EndOrphans(Own()).ended, std::set<std::string>{});
    EXPECT_TRUE(AllAlive(pids));
  }
};

TEST_F(OrphanTest, OrphansOfADeadHostOfOurRunAreEnded) {
  const std::vector<pid_t> pids = Abandon(FormatMarker(Dead("a")));
  const OrphanReport report = EndOrphans(Own());
  EXPECT_TRUE(AllDead(pids));
  EXPECT_EQ(report.left, "");
  for (pid_t pid : pids) {
    EXPECT_TRUE(std::any_of(report.ended.begin(), report.ended.end(), [&](const std::string& named) {
      return named.starts_with("pid " + std::to_string(pid) + " (");
    })) << pid;
  }
}

TEST_F(OrphanTest, UnreadableProcessesAreNotReported) {
  const std::vector<pid_t> pids = Abandon(FormatMarker(Dead("e")));
  const Marker own = Own();
  OrphanReport report;
  {
    const NoDescriptors short_of_them;
    report = EndOrphans(own);
  }
  EXPECT_EQ(report.left, "");
  EXPECT_NE(report.unseen, "");
  EXPECT_TRUE(AllAlive(pids));
}

// Such as a copy of files by the same user. A session has one origin.
TEST_F(OrphanTest, AProcessThatTheKernelHoldsIsNotReportedIfItsSessionsLeaderIsNoWorker) {
  for (const bool leads : {false, true}) {
    LinePipe pipe;
    const pid_t leader = fork();
    if (leader == 0) {
      setsid();
      if (!leads && fork() != 0) {
        while (true) pause();
      }
      // Until its child ends, the parent is in uninterruptible sleep.
      if (syscall(SYS_clone, CLONE_VFORK | SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) {
        dprintf(pipe.in(), "%d\n", static_cast<int>(getppid()));
        while (true) pause();
      }
      _exit(0);
    }
    const pid_t held = ReadPids(&pipe, 1)[0];
    const absl::Cleanup ended = [&] {
      EndDescendants({leader});
      kill(leader, SIGKILL);
      waitpid(leader, nullptr, 0);
    };
    ASSERT_TRUE(Eventually([&] { return ReadProcess(held).value_or(ProcessInfo{}).state == 'D'; }));
    EXPECT_EQ(EndOrphans(Own()).unseen.empty(), !leads) << EndOrphans(Own()).unseen;
  }
}

TEST_F(OrphanTest, AReusedPidMeansADeadHost) {
  Marker marker = Dead("b");
  marker.pid = getpid();
  marker.start = Own().start - 1;
  const std::vector<pid_t> pids = Abandon(FormatMarker(marker));
  EndOrphans(Own());
  EXPECT_TRUE(AllDead(pids));
}

TEST_F(OrphanTest, ALivingHostsProcessesAreLeftAlone) {
  Marker marker = Dead("c");
  marker.pid = getpid();
  ExpectLeftAlone(marker);
}

// Like a job that was submitted with a worker's whole environment: started by a living process, not adopted.
TEST_F(OrphanTest, AnotherJobWithAWorkersEnvironmentIsLeftAlone) {
  EnvironmentMap environment = CurrentEnvironment();
  environment[kMarkerVariable] = FormatMarker(Dead("g"));
  LinePipe pipe;
  const pid_t job = SpawnActor({"lead"}, pipe.in(), environment);
  ASSERT_EQ(pipe.Line(), "here");
  const pid_t heir = SpawnActor({"heir", "test-heir", RunId()}, pipe.in());
  EXPECT_EQ(pipe.Line(), "0");
  EXPECT_FALSE(IsDead(job));
  for (const pid_t pid : {heir, job}) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

TEST_F(OrphanTest, AnotherRunsProcessesAreLeftAlone) {
  Marker marker = Dead("d");
  marker.run_id = "another";
  ExpectLeftAlone(marker);
}

TEST_F(OrphanTest, MarkersOfAnotherMachineAreIgnored) {
  Marker marker = Dead("e");
  marker.place = MakePlace("another boot", "pid:[1]", "time:[1]");
  ExpectLeftAlone(marker);
}

TEST_F(OrphanTest, AHostSparesItsAncestorsProcesses) {
  const Marker dead = Dead("f");
  const std::vector<pid_t> pids = Abandon(FormatMarker(dead));
  EnvironmentMap environment = CurrentEnvironment();
  environment[kMarkerVariable] = FormatMarker(dead);
  LinePipe pipe;
  const pid_t heir = SpawnActor({"heir", "test-heir", RunId()}, pipe.in(), environment);
  EXPECT_EQ(pipe.Line(), "0");
  EXPECT_TRUE(AllAlive(pids));
  kill(heir, SIGKILL);
  waitpid(heir, nullptr, 0);
}

}  // namespace
}  // namespace muster::host
