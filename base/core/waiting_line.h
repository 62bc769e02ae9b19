// Decides when a process that waits logs why: after 1 s, when the reason changes, and after 5, 10, 30 and 60 s,
// then once a minute. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/core/allowance.h"
#include "base/core/time.h"

namespace muster {

class WaitingLine {
 public:
  // `what` is the reason for waiting from now on; empty: not waiting. Both return the line to log now, if any.
  // lasts: the wait may take as long as the job, so each reason is said once, without the time.
  std::optional<std::string> Set(BootTime now, std::string what, bool lasts = false);
  // Returns the line to print now, if any. Call at regular intervals.
  std::optional<std::string> OnTick(BootTime now);

 private:
  std::string what_;
  bool lasts_ = false;
  // A reason that comes from others may change, or come and go, without end.
  static constexpr double kBurst = 20, kPerSecond = 0.2;
  Allowance lines_{kBurst, kPerSecond};
  BootTime since_ = absl::InfinitePast();
  BootTime next_ = absl::InfiniteFuture();
};

}  // namespace muster
