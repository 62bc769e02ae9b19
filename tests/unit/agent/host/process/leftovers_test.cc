// What a worker leaves running is named, but not what ends by itself.
#include "agent/host/process/leftovers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>

#include "tests/unit/agent/host/host_shell_support.h"

namespace muster::host {
namespace {

// The end of a session's leader, which is not reaped until this object ends. It ran the script, or the function,
// whose output is the pid that it leaves.
class EndedLeader {
 public:
  explicit EndedLeader(const std::string& script)
      : EndedLeader([&script](int) { execl("/bin/sh", "sh", "-c", script.c_str(), nullptr); }) {}
  explicit EndedLeader(const std::function<void(int out)>& run) {
    LinePipe pipe;
    pid = fork();
    if (pid == 0) {
      setsid();
      dup2(pipe.in(), STDOUT_FILENO);
      run(pipe.in());
      _exit(0);
    }
    left = std::atoi(pipe.Line().c_str());
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  }
  ~EndedLeader() {
    kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  bool IsNamedIn(const std::string& text) const {
    return text.find("(pid " + std::to_string(left) + ")") != std::string::npos;
  }

  pid_t pid = 0;
  pid_t left = 0;
};

TEST(Leftovers, AProgramInTheBackgroundIsNamed) {
  const EndedLeader leader("sleep 1000 & echo $!");
  EXPECT_TRUE(leader.IsNamedIn(LeftBehind(leader.pid)));
}

TEST(Leftovers, ASubshellIsNamed) {
  const EndedLeader leader("(sleep 1000; :) & echo $!");
  EXPECT_TRUE(leader.IsNamedIn(LeftBehind(leader.pid)));
}

TEST(Leftovers, ACopyOfAnotherProgramIsNotNamed) {
  const EndedLeader leader([](int out) {
    const pid_t copy = fork();
    if (copy != 0) {
      dprintf(out, "%d\n", static_cast<int>(copy));
      return;
    }
    pause();  // until it is killed
  });
  EXPECT_EQ(LeftBehind(leader.pid), "");
}

// Its output may still be wanted: see KillAllButReaders.
TEST(Leftovers, AReaderOfAPipeIsNotNamed) {
  const EndedLeader leader("sleep 1000 | cat > /dev/null & echo $!");
  const auto has_executed = [&leader] {  // both of them
    const std::string left = LeftBehind(leader.pid);
    return left.starts_with("sleep (pid ") && left.find("(sh") == std::string::npos && !leader.IsNamedIn(left);
  };
  EXPECT_TRUE(Eventually(has_executed)) << LeftBehind(leader.pid);
}

TEST(Leftovers, AHelperOfPythonsMultiprocessingIsNotNamed) {
  const EndedLeader leader("sh -c 'sleep 1000; : from multiprocessing.resource_tracker import main' & echo $!");
  EXPECT_TRUE(Eventually([&] { return !leader.IsNamedIn(LeftBehind(leader.pid)); })) << LeftBehind(leader.pid);
}

TEST(Leftovers, ACommandLineThatCannotBeReadHoldsNobodyUp) {
  const EndedLeader leader("sleep 1000 & echo $!");
  std::promise<void> end;
  EnvironReader held([ended = end.get_future().share()](pid_t) -> absl::StatusOr<std::string> {
    ended.wait();
    return absl::NotFoundError("");
  });
  EXPECT_TRUE(leader.IsNamedIn(LeftBehind(leader.pid, &held)));
  end.set_value();
}

}  // namespace
}  // namespace muster::host
