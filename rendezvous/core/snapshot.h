// The job at one moment, for people and tools: `muster status` and what else shows it. Nothing else looks into the
// core. Pure.
#pragma once

#include <cstddef>

#include "base/core/time.h"
#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

struct Job;

inline constexpr int kMaxMissingShown = 64;
inline constexpr int kMaxOddShown = 32;
inline constexpr size_t kMaxDetailedBytes =
    2 * 1024 * 1024;  // of a view: beyond it nodes have no texts but their names
// A member's status is late when it is this many beats old.
inline constexpr int kLateBeats = 3;

// Without what only the process knows: protocol, version.
v1::JobView Snapshot(BootTime now, const Job& job);

}  // namespace muster::rendezvous
