// The command that one node runs once the job is over (--on-success, --on-failure). It is started like a worker,
// but writes to muster's own streams. Lives on the loop thread.
#pragma once

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "agent/host/core/worker_environment.h"
#include "agent/host/process/spawner.h"
#include "base/io/event_loop.h"

namespace muster::host {

struct LastCommandLimits {
  absl::Duration run;    // then it is asked to end
  absl::Duration grace;  // from SIGTERM to SIGKILL
};

class LastCommandRun {
 public:
  LastCommandRun(EventLoop* loop, Spawner* spawner, LastCommandLimits limits)
      : loop_(loop), spawner_(spawner), limits_(limits) {}

  // No other worker may run. `ended` is called once, from the loop.
  using Ended = std::function<void(const Ending& ending)>;
  void Start(const std::string& command, const EnvironmentMap& environment, Ended ended);

  // Whoever asked this process to end asks the command, too: SIGTERM, and SIGKILL after the grace period. Does
  // nothing while no command runs.
  void AskToEnd();

 private:
  void OnEnded(const Ending& ending);

  EventLoop* const loop_;
  Spawner* const spawner_;
  const LastCommandLimits limits_;
  Ended ended_;  // empty: nothing runs
  bool asked_ = false;
};

}  // namespace muster::host
