// Asks py-spy for the Python stacks of a process, without stopping it.
//
// Nothing waits for the tool without a limit: one that hangs is killed, or left alone if no signal reaches it.
// Lives on the loop thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/process/spawner.h"
#include "base/io/event_loop.h"
#include "base/io/owned_fd.h"
#include "base/stacks/rank_snapshot.h"

namespace muster::host {

inline constexpr absl::Duration kStackLimit = absl::Seconds(4);  // for one process; 20 ms are usual

class StackTool {
 public:
  using Answer = absl::StatusOr<std::vector<PythonThread>>;
  using Done = std::function<void(const Answer& answer)>;

  // environment: with the PATH on which the tool is looked for.
  StackTool(EventLoop* loop, Spawner* spawner, EnvironmentMap environment);
  ~StackTool();  // calls no Done any more
  StackTool(const StackTool&) = delete;
  StackTool& operator=(const StackTool&) = delete;

  // file: the tool; empty: it is searched. Calls done() once, on the loop, within kStackLimit. Errors: NotFound:
  // it is not installed; DeadlineExceeded; others: it failed, and what it said.
  void Ask(pid_t process, const std::string& file, Done done);

 private:
  struct Run;

  absl::Status Start(const std::shared_ptr<Run>& started, const std::string& file);
  Spawner::WorkerEvents EventsOf(const std::weak_ptr<Run>& run);
  void OnExit(Run* run, const Ending& ending);
  void Finish(pid_t process, const Answer& answer);

  EventLoop* const loop_;
  Spawner* const spawner_;
  const EnvironmentMap environment_;
  std::map<pid_t, std::shared_ptr<Run>> runs_;  // by the process that is looked at
};

}  // namespace muster::host
