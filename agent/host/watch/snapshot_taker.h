// Takes the stacks of this node's workers: what their processes do, and where their Python code stands.
//
// Stacks are taken when something is wrong, so nothing here waits for a process or a file without a limit: what
// does not answer in time is named in the snapshot. The workers are not stopped; those that use NCCL write their
// flight recorders. Signalled are only those of --preload whose stacks py-spy does not show. Lives on the loop
// thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/host/process/spawner.h"
#include "agent/host/watch/flight_recorder.h"
#include "agent/host/watch/stack_dump.h"
#include "agent/host/watch/stack_tool.h"
#include "base/io/event_loop.h"
#include "base/stacks/rank_snapshot.h"

namespace muster::host {

inline constexpr absl::Duration kProcLimit =
    absl::Seconds(2);  // for what /proc says of one rank, and for where py-spy is
inline constexpr absl::Duration kSnapshotLimit = absl::Seconds(8);  // for all of it
inline constexpr int kStackToolsAtOnce = 4;

class SnapshotTaker {
 public:
  struct Subject {
    int rank = 0;
    pid_t worker = 0;  // its first process, which leads its session
    RecorderPaths recorder = {};
    std::shared_ptr<const OwnedFd> stacks = nullptr;  // of a worker that can write its own; see StackDump
    std::function<std::string()> last_output = {};    // called on another thread; empty: it is not asked for
  };
  using Done = std::function<void(std::vector<RankSnapshot> snapshots)>;

  SnapshotTaker(EventLoop* loop, Spawner* spawner, EnvironmentMap environment);
  ~SnapshotTaker();
  SnapshotTaker(const SnapshotTaker&) = delete;
  SnapshotTaker& operator=(const SnapshotTaker&) = delete;

  bool busy() const { return shot_ != nullptr; }
  // Calls done() once, from the loop and never within Take(), within kSnapshotLimit, with a snapshot for each
  // subject. Not while busy.
  // python: the interpreter that the workers run, beside which py-spy may be; empty: not known.
  void Take(const std::vector<Subject>& subjects, const std::string& python, Done done);

 private:
  struct Shot;

  void Poll();
  bool FindTool(absl::Duration passed);
  void AskForStacks();
  void OnStacks(size_t index, const StackTool::Answer& answer);
  void PollDumps();
  void Finish();

  EventLoop* const loop_;
  StackTool tool_;
  std::shared_ptr<Shot> shot_;
  std::weak_ptr<bool> tool_looks_;  // held by the thread that looks for the tool
};

}  // namespace muster::host
