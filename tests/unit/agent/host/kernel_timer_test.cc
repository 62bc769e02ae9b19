// The timer by which the kernel kills a host that is stopped for too long; and a call where no thread can be had.
#include "agent/host/kernel_timer.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/unit/agent/host/host_shell_support.h"

namespace muster::host {
namespace {

TEST(BoundedCallTest, WithoutANewThreadTheCallRunsHere) {
  LinePipe pipe;
  const pid_t actor = SpawnActor({"threadless"}, pipe.in());
  ASSERT_GT(actor, 0);
  EXPECT_EQ(pipe.Line(), "called");
  waitpid(actor, nullptr, 0);
}

TEST(KernelTimerTest, AStoppedProcessIsKilled) {
  LinePipe pipe;
  const pid_t pid = SpawnActor({"timer", "100", "stop"}, pipe.in());
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST(KernelTimerTest, ADisarmedTimerKillsNobody) {
  LinePipe pipe;
  const pid_t pid = SpawnActor({"timer", "300", "disarm"}, pipe.in());
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
}

}  // namespace
}  // namespace muster::host
