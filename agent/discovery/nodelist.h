// Slurm's node lists, "gpu-[08-11],login1", and its compressed counts, "72(x2),36". Pure.
//
// Facts: Slurm's hostlist.c (commit 284c3b95f0). Stricter than `scontrol show hostnames`, which answers `n]` for
// `n[1-2` and calls it a success; as new as its newest, which takes a text after the last bracket.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::discovery {

inline constexpr size_t kMaxNodelistBytes = 1 << 20;
inline constexpr size_t kMaxNodelistHosts = 65'536;  // Slurm's own MAX_RANGE
inline constexpr int kMaxNodelistCount = 1'000'000;  // one number of compressed counts

// The names in the order of the list, which is that of SLURM_NODEID. Duplicates, which no job has, are refused.
// InvalidArgument: one line that names `variable`, the item and what was expected; more than `max_nodes` too.
absl::StatusOr<std::vector<std::string>> ExpandNodelist(const std::string& variable, std::string_view text,
                                                        size_t max_nodes = kMaxNodelistHosts);

// "2(x3),1" as 2 2 2 1: one number for each node. InvalidArgument as above.
absl::StatusOr<std::vector<int>> ExpandCounts(const std::string& variable, std::string_view text,
                                              size_t max_nodes = kMaxNodelistHosts);

}  // namespace muster::discovery
