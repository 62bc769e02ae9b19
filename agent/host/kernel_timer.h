// The last resort at the end of the lease: a kernel timer that kills this process even while it is stopped. The
// parent-death signal then kills the workers. Lives on the loop thread.
#pragma once

#include <signal.h>
#include <time.h>

#include "absl/status/statusor.h"
#include "base/core/time.h"

namespace muster::host {

class KernelTimer {
 public:
  KernelTimer() = default;
  ~KernelTimer();
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

  // Sends SIGKILL to this process at that instant of CLOCK_BOOTTIME, or at once if it has passed. Replaces an
  // earlier deadline. Errors: the kernel has no timer left for this process.
  absl::Status Arm(BootTime at);
  void Disarm();

 private:
  bool created_ = false;
  timer_t timer_{};
};

}  // namespace muster::host
