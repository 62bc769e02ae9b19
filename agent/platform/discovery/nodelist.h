// Slurm's node lists, "gpu-[08-11],login1", and its compressed counts, "72(x2),36". Pure.
//
// Source: Slurm's hostlist.c (commit 284c3b95f0). Stricter than `scontrol show hostnames`, which prints `n]` for
// `n[1-2` and succeeds. Accepts text after the last bracket, like the newest Slurm.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::discovery {

inline constexpr size_t kMaxNodelistBytes = 1 << 20;
inline constexpr size_t kMaxNodelistHosts = 65'536;  // Slurm's own MAX_RANGE
inline constexpr int kMaxNodelistCount = 1'000'000;  // limit of one number of compressed counts

// Returns the names in the order of the list, which is that of SLURM_NODEID. InvalidArgument, one line with
// `variable`, the item and what was expected: a syntax error, a duplicate (no job has one), or more than
// `max_nodes`.
absl::StatusOr<std::vector<std::string>> ExpandNodelist(const std::string& variable, std::string_view text,
                                                        size_t max_nodes = kMaxNodelistHosts);

// Expands "2(x3),1" to 2 2 2 1: one number for each node. InvalidArgument as above.
absl::StatusOr<std::vector<int>> ExpandCounts(const std::string& variable, std::string_view text,
                                              size_t max_nodes = kMaxNodelistHosts);

}  // namespace muster::discovery
