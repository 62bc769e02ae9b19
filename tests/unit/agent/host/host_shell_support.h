// Shared by the tests with real processes: a loop that waits with a time limit, and processes that are this test
// binary in another role.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/host/process/spawner.h"
#include "agent/host/process/sweeper.h"
#include "base/io/event_loop.h"
#include "base/proc/process_setup.h"

namespace muster::host {

// The arguments of main().
extern Inherited g_inherited;

// The other roles of the test binary; see host_shell_main.cc.
inline constexpr char kActCommand[] = "act";
int Act(const std::vector<std::string>& arguments);

// Starts this binary as `act ARGUMENTS` with its output in stdout_fd; an empty environment means our own.
pid_t SpawnActor(const std::vector<std::string>& arguments, int stdout_fd, const EnvironmentMap& environment = {});
std::vector<std::string> ActorArgv(const std::vector<std::string>& arguments);

EnvironmentMap CurrentEnvironment();

// True for a zombie or an absent process: the parent need not have reaped it.
bool IsDead(pid_t pid);

// A pipe, closed on exec; whole lines are read, with a time limit.
class LinePipe {
 public:
  LinePipe();
  ~LinePipe();
  int in() const { return fds_[1]; }
  int out() const { return fds_[0]; }
  void CloseIn();
  std::string Line();  // waits for kPatience at most; then empty

 private:
  int fds_[2];
  std::string buffer_;
};

inline constexpr absl::Duration kPatience = absl::Seconds(60);  // a test that hangs fails

// True as soon as the condition holds; false after kPatience.
bool Eventually(const std::function<bool()>& condition);

// A loop with a spawner and a sweeper that handles SIGCHLD as the host does.
class Hostlet {
 public:
  explicit Hostlet(absl::Duration readers_limit = kReadersLimit);
  ~Hostlet();  // ends and reaps everything left

  // Runs the loop until the condition holds. False after kPatience.
  bool RunUntil(const std::function<bool()>& condition);

  EventLoop loop;
  Spawner spawner;
  std::vector<std::string> reports;  // of the sweeper
  bool swept = false;
  Sweeper sweeper;

 private:
  int signal_fd_ = -1;
};

}  // namespace muster::host
