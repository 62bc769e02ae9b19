// Where the workers of the running round stand, as people see it. Pure.
#pragma once

#include <cstddef>

#include "base/core/time.h"
#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

struct Host;
struct Job;

inline constexpr size_t kMaxPlacesShown = 256;
inline constexpr size_t kMaxSilentShown = 64;
inline constexpr size_t kMaxStacksBytes = 1024 * 1024;

// Somebody wants to see it. Returns whether the members must be asked now. What they have answered is compared
// once.
bool WantStacks(BootTime now, Job* job);

// What they have answered, once that is complete.
v1::Stacks StacksOf(BootTime now, const Job& job);

// The same for one worker, a global rank. Returns the host that must be asked now; nullptr: none.
Host* WantRank(BootTime now, int rank, Job* job);
v1::RankView RankOf(BootTime now, int rank, const Job& job);

}  // namespace muster::rendezvous
