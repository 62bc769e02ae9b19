// The real probe, against this machine's shell and /proc.
#include "agent/platform/machine/machine_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::machine {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kLong = absl::Minutes(2);  // only a hang reaches it

absl::StatusOr<CommandResult> Shell(const std::string& script, absl::Duration limit = kLong) {
  return RunCommand({"sh", "-c", script}, limit);
}

bool HasNoChild() { return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

TEST(RunCommand, ReturnsOutputAndExitCode) {
  const CommandResult result = Shell("echo hello; echo lost >&2; exit 7").value();
  EXPECT_EQ(result.output, "hello\n");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_TRUE(HasNoChild());
}

TEST(RunCommand, ASignalIsTheShellsCode) { EXPECT_EQ(Shell("kill -SEGV $$").value().exit_code, 128 + SIGSEGV); }

TEST(RunCommand, AProgramThatIsNotThereIsNotFound) {
  EXPECT_EQ(RunCommand({"muster-has-no-such-program"}, kLong).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RunCommand({"/dev/null"}, kLong).status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(HasNoChild());
}

TEST(RunCommand, ArgumentsReachTheProgramUninterpreted) {
  EXPECT_EQ(RunCommand({"printf", "%s|", "a b", "$HOME", "*"}, kLong).value().output, "a b|$HOME|*|");
}

TEST(RunCommand, StandardInputIsEmpty) { EXPECT_EQ(Shell("wc -c").value().output, "0\n"); }

// Makes this process the subreaper of killed commands' orphans, so that it can see how they ended.
class Subreaper {
 public:
  Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~Subreaper() {
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    while (waitpid(-1, nullptr, 0) > 0) continue;  // all have been killed
  }
};

// Wait status of `pid`. A process that does not end is killed here, and the result is 0.
int StatusOf(pid_t pid) {
  constexpr int kPatienceMs = 20000;
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd ended{fd, POLLIN, 0};
  const bool gone = poll(&ended, 1, kPatienceMs) == 1;
  close(fd);
  if (!gone) kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  return gone ? status : 0;
}

TEST(RunCommand, AtTheLimitTheCommandAndItsChildrenAreGone) {
  const Subreaper subreaper;
  const std::string path = ::testing::TempDir() + "muster-child-" + std::to_string(getpid());
  pid_t child = 0;
  // On a busy machine the limit may hit before the shell's second line: try again with more time.
  for (absl::Duration limit = absl::Milliseconds(50); child == 0; limit *= 2) {
    const absl::StatusOr<CommandResult> result = Shell("sleep 1000 & echo $! >" + path + "; wait", limit);
    ASSERT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(result.status().message()),
                HasSubstr("did not answer within " + absl::FormatDuration(limit)));
    std::ifstream(path) >> child;
  }
  unlink(path.c_str());
  const int status = StatusOf(child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST(RunCommand, ACommandThatClosesItsOutputIsStoppedToo) {
  EXPECT_EQ(Shell("exec >&-; exec sleep 1000", absl::Milliseconds(20)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(HasNoChild());
}

TEST(RunCommand, BlockedAndIgnoredSignalsAreNotInherited) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  const auto ignored = signal(SIGUSR1, SIG_IGN);
  const CommandResult usr1 = Shell("kill -USR1 $$; echo alive").value();
  const CommandResult term = Shell("kill -TERM $$; echo alive").value();
  signal(SIGUSR1, ignored);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(usr1.exit_code, 128 + SIGUSR1) << usr1.output;
  EXPECT_EQ(term.exit_code, 128 + SIGTERM) << term.output;
}

TEST(RunCommand, NoDescriptorOfOursIsInherited) {
  const int leaked = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  const std::string listed = Shell("ls /proc/$$/fd").value().output;
  close(leaked);
  EXPECT_EQ(listed, "0\n1\n2\n");
}

TEST(RunCommand, OutputBeyondTheLimitIsReadAndDropped) {
  const CommandResult result = Shell("head -c 3000000 /dev/zero").value();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output.size(), kMaxCommandOutputBytes);
}

TEST(SystemProbe, ListsAndReads) {
  const MachineProbe probe = SystemProbe();
  EXPECT_THAT(probe.list("/proc/self"), Contains("status"));
  EXPECT_THAT(probe.list("/nowhere"), IsEmpty());
  EXPECT_THAT(probe.read("/proc/self/status").value_or(""), HasSubstr("Name:"));
  EXPECT_EQ(probe.read("/nowhere"), std::nullopt);
  EXPECT_EQ(probe.read("/dev/zero").value_or("").size(), kMaxProbeFileBytes);
}

TEST(ReadRegularFile, GivesTheWholeOfIt) {
  const std::string path = ::testing::TempDir() + "regular";
  std::ofstream(path, std::ios::binary) << std::string(100000, 'a') << '\0';
  EXPECT_EQ(ReadRegularFile(path, 100001).value(), std::string(100000, 'a') + '\0');
  EXPECT_TRUE(absl::IsResourceExhausted(ReadRegularFile(path, 100000).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(ReadRegularFile(path, 10).status()));
}

TEST(ReadRegularFile, DistinguishesAbsentFromUnreadable) {
  EXPECT_TRUE(absl::IsNotFound(ReadRegularFile("/nowhere/at/all", 1).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadRegularFile("/proc/version/below", 1).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadRegularFile("/proc", 1).status()));
}

TEST(ReadRegularFile, WaitsForNoFifo) {
  const std::string path = ::testing::TempDir() + "fifo" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadRegularFile(path, 1).status()));
  unlink(path.c_str());
}

TEST(SystemProbe, CountsTheCpusThatThisProcessMayUse) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(SystemProbe().usable_cpus(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(SystemProbe().usable_cpus(), 1);
  sched_setaffinity(0, sizeof(before), &before);
}

TEST(SystemProbe, CountingOnThisMachineEndsInAnAnswer) {
  const Accelerators found = CountAccelerators({}, SystemProbe());
  EXPECT_GE(found.count, 0);
  EXPECT_FALSE(found.reason.empty());
}

}  // namespace
}  // namespace muster::machine
