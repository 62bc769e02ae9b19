// The last resort of the lease: a timer in the kernel that kills this process even if it is stopped. The workers
// follow by their parent-death signal. Lives on the loop thread.
#pragma once

#include <signal.h>
#include <time.h>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace muster::host {

class KernelTimer {
 public:
  KernelTimer() = default;
  ~KernelTimer();
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

  // SIGKILL to this process at that instant of CLOCK_BOOTTIME; one that has passed kills at once. Replaces an
  // earlier one. Errors: the kernel has no timer left for us.
  absl::Status Arm(BootTime at);
  void Disarm();

 private:
  bool created_ = false;
  timer_t timer_{};
};

}  // namespace muster::host
