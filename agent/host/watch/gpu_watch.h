// Which processes hold this node's GPUs, as nvidia-smi lists them.
//
// Nothing blocks on the tool: if it hangs in its driver, where no signal reaches it, it is left alone, and the
// answer reports the failure. Lives on the loop thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "agent/host/core/host_core.h"
#include "agent/host/process/spawner.h"
#include "base/io/event_loop.h"
#include "base/io/owned_fd.h"

namespace muster::host {

// Time limit for one answer. Without persistence mode the driver has to load first.
inline constexpr absl::Duration kGpuAskLimit = absl::Seconds(15);
inline constexpr size_t kMaxGpuAnswer = 64 * 1024;  // bytes

// Parses the tool's output, one pid on each line; a line without a number ("[N/A]") is skipped. Pure.
std::set<int64_t> ParseGpuPids(std::string_view text);

class GpuWatch {
 public:
  using Answered = std::function<void(const GpuUsers& users)>;  // called on the loop, once for each Ask()

  GpuWatch(EventLoop* loop, Spawner* spawner, EnvironmentMap environment, Answered answered);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Sets the processes of the round that has ended: its workers, and those that the sweep killed. All were reaped.
  void SetOldWorkers(std::set<pid_t> pids) { old_workers_ = std::move(pids); }
  void Ask();

 private:
  absl::Status Start();
  void Read();
  void Ended(const Ending& ending);
  void Answer(const GpuUsers& users);

  EventLoop* const loop_;
  Spawner* const spawner_;
  const EnvironmentMap environment_;
  const Answered answered_;
  std::set<pid_t> old_workers_;
  pid_t tool_ = 0;  // the running tool; 0: none
  bool asked_ = false;
  OwnedFd pipe_;
  std::string output_;
  EventLoop::TimerId limit_ = 0;
};

}  // namespace muster::host
