// The command that one node runs once the job is over (--on-success, --on-failure). It is started like a worker,
// but writes to muster's own streams. Lives on the loop thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "agent/host/core/worker_environment.h"
#include "agent/host/process/spawner.h"
#include "base/io/event_loop.h"

namespace muster::host {

inline constexpr int kExitTimedOut = 124;  // of a command that exceeded its limit, as timeout(1) says it

struct LastCommandLimits {
  absl::Duration run;    // --hook-timeout: then it is asked to end
  absl::Duration grace;  // --termination-grace: from SIGTERM to SIGKILL
};

struct LastCommandEnd {
  Ending ending = {};
  std::string exceeded = {};  // "30m (--hook-timeout)": the time limit that it exceeded; empty: none
  bool stuck = false;         // it survives SIGKILL; its ending is not known

  bool ok() const { return ending.ok() && exceeded.empty() && !stuck; }
  int ExitCode() const { return exceeded.empty() && !stuck ? ending.ExitCode() : kExitTimedOut; }
};

// "exit code 3", "timed out after 30m (--hook-timeout)"
std::string Describe(const LastCommandEnd& end);

class LastCommandRun {
 public:
  LastCommandRun(EventLoop* loop, Spawner* spawner, LastCommandLimits limits)
      : loop_(loop), spawner_(spawner), limits_(limits) {}

  // No other worker may run. `ended` is called once, from the loop; a command in uninterruptible sleep is not
  // waited for. After AskToEnd the command has the grace period alone.
  using Ended = std::function<void(const LastCommandEnd& end)>;
  void Start(const std::string& command, const EnvironmentMap& environment, Ended ended);

  // This process was asked to end, and asks the command, too: SIGTERM, and SIGKILL after the grace period, or at a
  // second request.
  void AskToEnd();

 private:
  Spawner::WorkerEvents EventsOfCommand();
  void OnTimeOver(absl::Duration limit, const char* option);
  void Terminate();
  void Kill();
  void OnEnded();

  EventLoop* const loop_;
  Spawner* const spawner_;
  const LastCommandLimits limits_;
  Ended ended_;  // empty: nothing runs
  LastCommandEnd end_;
  std::optional<BootTime> asked_at_;
  bool terminated_ = false;  // SIGTERM was sent
  bool killed_ = false;
};

}  // namespace muster::host
