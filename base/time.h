// Time in muster. Decisions are made on CLOCK_BOOTTIME, which no one sets and which counts suspends; an instant of
// it is an absl::Time whose epoch stands for the machine's boot. Instants are never compared across machines.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace muster {

using BootTime = absl::Time;  // since boot; never a wall clock

inline BootTime FromBootNanos(int64_t ns) { return absl::FromUnixNanos(ns); }
inline int64_t ToBootNanos(BootTime t) { return absl::ToUnixNanos(t); }

}  // namespace muster
