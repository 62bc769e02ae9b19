#include "agent/host/kernel_timer.h"

#include <algorithm>
#include <cerrno>

namespace muster::host {

KernelTimer::~KernelTimer() {
  if (created_) timer_delete(timer_);
}

absl::Status KernelTimer::Arm(BootTime at) {
  if (!created_) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    if (timer_create(CLOCK_BOOTTIME, &event, &timer_) != 0) {
      return absl::ErrnoToStatus(errno, "making the lease's kernel timer");
    }
    created_ = true;
  }
  itimerspec spec{};
  const int64_t ns = std::max<int64_t>(ToBootNanos(at), 1);  // 0 would disarm
  spec.it_value.tv_sec = ns / 1'000'000'000;
  spec.it_value.tv_nsec = ns % 1'000'000'000;
  if (timer_settime(timer_, TIMER_ABSTIME, &spec, nullptr) != 0) {
    return absl::ErrnoToStatus(errno, "setting the lease's kernel timer");
  }
  return absl::OkStatus();
}

void KernelTimer::Disarm() {
  if (!created_) return;
  const itimerspec off{};
  timer_settime(timer_, 0, &off, nullptr);
}

}  // namespace muster::host
