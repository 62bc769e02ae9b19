// Time in muster. Decisions use CLOCK_BOOTTIME, which nobody can set and which includes suspended time. An instant
// is an absl::Time whose epoch is the machine's boot. Instants of different machines are never compared.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace muster {

using BootTime = absl::Time;  // since boot; never a wall clock

inline constexpr absl::Duration kTick = absl::Milliseconds(100);  // OnTick of a core is called at least this often
// Silence that one tick can add at most, so that a pause of this process is not counted as silence of another.
inline constexpr absl::Duration kMaxCountedSilence = absl::Milliseconds(250);

inline BootTime FromBootNanos(int64_t ns) { return absl::FromUnixNanos(ns); }
inline int64_t ToBootNanos(BootTime t) { return absl::ToUnixNanos(t); }

}  // namespace muster
