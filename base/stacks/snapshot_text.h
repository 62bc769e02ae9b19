// A snapshot of many ranks in words: those that stand at the same place are one group, and the smallest group
// comes first, since a rank that differs from all others is mostly the one that the others wait for. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/stacks/rank_snapshot.h"

namespace muster {

inline constexpr size_t kMaxSnapshotLines = 40;  // in the log

// At most kMaxSnapshotLines lines: a line for each group, those of suspects first, and the stack of the first rank
// of each, as far as there is room.
std::vector<std::string> SnapshotLines(const std::vector<RankSnapshot>& ranks);

// Everything, for a file: each rank with the stacks of all of its threads.
std::string SnapshotText(const std::vector<RankSnapshot>& ranks);

}  // namespace muster
