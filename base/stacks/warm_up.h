// When a round counts as warm, on which hosts and coordinators must agree. Imports, compilation and a first step
// may be silent for many times longer than what follows, and print a lot at their beginning. So it is not the
// number of signs of life that counts, but for how long they have been coming. Pure.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace muster {

// So many separate windows, each a tenth of --hang-timeout, have seen a sign: nearly one timeout of steady life.
inline constexpr int kWarmUpSigns = 10;
// --hang-timeout auto: the least silence that is a hang. NCCL's own watchdog ends a collective after 10 minutes.
inline constexpr absl::Duration kLeastLearned = absl::Minutes(30);

// The least silence that is a hang. timeout_ms: as in NodeConfig.hang_timeout_ms; -1: learned.
inline absl::Duration LeastHang(int64_t timeout_ms) {
  return timeout_ms < 0 ? kLeastLearned : absl::Milliseconds(timeout_ms);
}

}  // namespace muster
