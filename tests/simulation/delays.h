// How long a machine's kernel and its links take.
#pragma once

#include "tests/simulation/prng.h"

namespace muster::simulation {

inline constexpr Micros kLinkDelay = 100;              // host to agent and back
inline constexpr Micros kLoopbackDelay = 50;           // a connection within one machine
inline constexpr Micros kReapDelay = 50;               // a death to the pidfd's event
inline constexpr Micros kKillDelayMax = kMillisecond;  // SIGKILL to the end
inline constexpr Micros kFirstTickMax = 100 * kMillisecond;

}  // namespace muster::simulation
