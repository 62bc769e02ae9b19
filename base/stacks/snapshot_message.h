// A snapshot of a node's workers as the message that its agent sends to the coordinator, which compares the
// snapshots of all nodes. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "base/stacks/rank_snapshot.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster {

// For one message: half of what a coordinator takes (base/wire/ranges.h).
inline constexpr size_t kMostSnapshotBytes = 32 * 1024;
inline constexpr size_t kMostFrames = 32;    // of a worker's main thread, from the innermost
inline constexpr size_t kMostOutput = 4096;  // bytes of a worker's last lines
inline constexpr size_t kMostText = 256;     // bytes of a file's or a function's name: the end of a path
inline constexpr size_t kMostWorkers = 512;

// One rank's part, with so many frames of its main thread, and without its number.
void FillMessage(const RankSnapshot& rank, size_t most_frames, v1::RankSnapshot* message);

// With the main threads only. If that is too large, the outer frames of all workers are left out, and then the
// last workers.
v1::NodeSnapshot ToMessage(uint64_t number, int first_rank, const std::vector<RankSnapshot>& ranks);

// first_rank: of that node in the round, whatever its message says.
std::vector<RankSnapshot> FromMessage(const v1::NodeSnapshot& snapshot, int first_rank);

}  // namespace muster
