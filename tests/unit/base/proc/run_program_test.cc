// Programs that are run for a limited time, with this machine's shell.
#include "base/proc/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(2);  // only a hang reaches it

absl::StatusOr<ProgramResult> Shell(const std::string& script, absl::Duration limit = kLong) {
  return RunProgram({"sh", "-c", script}, limit);
}

bool HasNoChild() { return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

TEST(RunProgram, ReturnsOutputAndExitCode) {
  const ProgramResult result = Shell("echo hello; echo lost >&2; exit 7").value();
  EXPECT_EQ(result.output, "hello\n");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_TRUE(HasNoChild());
}

TEST(RunProgram, ASignalIsTheShellsCode) { EXPECT_EQ(Shell("kill -SEGV $$").value().exit_code, 128 + SIGSEGV); }

TEST(RunProgram, AProgramThatIsNotThereIsNotFound) {
  EXPECT_EQ(RunProgram({"muster-has-no-such-program"}, kLong).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RunProgram({"/dev/null"}, kLong).status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(HasNoChild());
}

TEST(RunProgram, ArgumentsReachTheProgramUninterpreted) {
  EXPECT_EQ(RunProgram({"printf", "%s|", "a b", "$HOME", "*"}, kLong).value().output, "a b|$HOME|*|");
}

TEST(RunProgram, StandardInputIsEmptyOrWhatIsGiven) {
  EXPECT_EQ(Shell("wc -c").value().output, "0\n");
  const std::string input(200'000, 'x');
  EXPECT_EQ(RunProgram({"wc", "-c"}, kLong, input).value().output, "200000\n");
}

// Makes this process the subreaper of killed programs' orphans, so that it can see how they ended.
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

TEST(RunProgram, AtTheLimitItAndItsChildrenAreGone) {
  const Subreaper subreaper;
  const std::string path = ::testing::TempDir() + "muster-child-" + std::to_string(getpid());
  pid_t child = 0;
  // On a busy machine the limit may hit before the shell's second line: try again with more time.
  for (absl::Duration limit = absl::Milliseconds(50); child == 0; limit *= 2) {
    const absl::StatusOr<ProgramResult> result = Shell("sleep 1000 & echo $! >" + path + "; wait", limit);
    ASSERT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(result.status().message()),
                HasSubstr("did not answer within " + absl::FormatDuration(limit)));
    std::ifstream(path) >> child;
  }
  unlink(path.c_str());
  const int status = StatusOf(child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST(RunProgram, OneThatClosesItsOutputIsStoppedToo) {
  EXPECT_EQ(Shell("exec >&-; exec sleep 1000", absl::Milliseconds(20)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(HasNoChild());
}

TEST(RunProgram, BlockedAndIgnoredSignalsAreNotInherited) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  const auto ignored = signal(SIGUSR1, SIG_IGN);
  const ProgramResult usr1 = Shell("kill -USR1 $$; echo alive").value();
  const ProgramResult term = Shell("kill -TERM $$; echo alive").value();
  signal(SIGUSR1, ignored);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(usr1.exit_code, 128 + SIGUSR1) << usr1.output;
  EXPECT_EQ(term.exit_code, 128 + SIGTERM) << term.output;
}

TEST(RunProgram, NoDescriptorOfOursIsInherited) {
  const int leaked = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  const std::string listed = Shell("ls /proc/$$/fd").value().output;
  close(leaked);
  EXPECT_EQ(listed, "0\n1\n2\n");
}

TEST(RunProgram, OutputBeyondTheLimitIsReadAndDropped) {
  const ProgramResult result = Shell("head -c 3000000 /dev/zero").value();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output.size(), kMaxProgramOutput);
}

}  // namespace
}  // namespace muster
