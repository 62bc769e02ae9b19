#include "base/proc/proc_scan.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "absl/time/clock.h"
#include "base/core/check.h"
#include "tests/unit/test_folder.h"

namespace muster {
namespace {

TEST(ProcHidesProcessesTest, OnlyAnOptionOfProcCounts) {
  EXPECT_FALSE(ProcHidesProcesses("proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n"));
  EXPECT_FALSE(ProcHidesProcesses("proc /proc proc rw,hidepid=0 0 0\n"));
  EXPECT_FALSE(ProcHidesProcesses("proc /proc proc rw,hidepid=off 0 0\n"));
  EXPECT_FALSE(ProcHidesProcesses("proc /jail/proc proc rw,hidepid=2 0 0\nproc /proc proc rw 0 0\n"));
  EXPECT_FALSE(ProcHidesProcesses(""));
  for (const char* value : {"1", "2", "4", "noaccess", "invisible", "ptraceable"}) {
    EXPECT_TRUE(ProcHidesProcesses(std::string("sys /sys sysfs rw 0 0\nproc /proc proc rw,gid=4,hidepid=") +
                                   value + ",nosuid 0 0\n"))
        << value;
  }
}

[[noreturn]] void Spin() {
  for (std::atomic<unsigned> turns = 0;; ++turns) {
  }
}

// Ends with the test.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) : Child(getpid(), body) {}
  Child(const Child&) = delete;
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  template <typename Body>
  Child(pid_t parent, Body body) : pid_(fork()) {
    MUSTER_CHECK(pid_ >= 0, "fork");
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    body();
    _exit(0);
  }

  const pid_t pid_;
};

bool Becomes(const std::function<bool()>& holds) {
  for (const absl::Time end = absl::Now() + absl::Seconds(60); absl::Now() < end;
       absl::SleepFor(absl::Milliseconds(5))) {
    if (holds()) return true;
  }
  return false;
}

TEST(ProcessorTimeOfSleeperTest, OnlyOneThatSleepsHasIt) {
  const Child sleeps([] { pause(); });
  const Child spins(Spin);
  EXPECT_TRUE(Becomes([&] { return ProcessorTimeOfSleeper(sleeps.pid()).has_value(); }));
  EXPECT_EQ(ProcessorTimeOfSleeper(sleeps.pid()), ProcessorTime(sleeps.pid()));
  EXPECT_TRUE(Becomes([&] { return ProcessorTime(spins.pid()) > absl::Milliseconds(20); }));
  EXPECT_FALSE(ProcessorTimeOfSleeper(spins.pid()).has_value());
}

TEST(SchedulerTimesTest, OfTwoThatSpinOnOneProcessorEachRunsAndWaits) {
  if (ReadSchedulerTimes(getpid()).ran == absl::ZeroDuration()) GTEST_SKIP() << "this kernel does not count them";
  const Child first(Spin), second(Spin);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
  for (const pid_t pid : {first.pid(), second.pid()}) ASSERT_EQ(sched_setaffinity(pid, sizeof(one), &one), 0);
  for (const pid_t pid : {first.pid(), second.pid()}) {
    EXPECT_TRUE(Becomes([&] {
      const SchedulerTimes times = ReadSchedulerTimes(pid);
      return times.ran > absl::Milliseconds(50) && times.waited > absl::Milliseconds(50);
    }));
  }
  EXPECT_EQ(ReadSchedulerTimes(0).waited, absl::ZeroDuration());
}

// As after an upgrade.
TEST(ProgramOfTest, AProgramWhoseFileIsGoneKeepsItsName) {
  const TestFolder folder;
  const std::string path = folder / "held";
  std::filesystem::copy_file("/bin/sleep", path);
  const Child child([&path] { execl(path.c_str(), "sleep", "60", nullptr); });
  while (ProgramOf(child.pid()) != "held") std::this_thread::yield();
  std::filesystem::remove(path);
  EXPECT_EQ(ProgramOf(child.pid()), "held");
}

}  // namespace
}  // namespace muster
