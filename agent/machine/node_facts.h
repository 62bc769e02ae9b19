// What should be the same on all nodes of a job, as this node has it: told to the coordinator once, which names
// the nodes that differ. By name and value, for people; secrets are masked.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/machine/accelerators.h"

namespace muster::machine {

inline constexpr size_t kMaxFacts = 64;            // of one node
inline constexpr size_t kMaxFactNameBytes = 64;    // a longer one is left out
inline constexpr size_t kMaxFactValueBytes = 256;  // of a longer one its beginning and a hash of all of it
inline constexpr size_t kMaxArgumentsBytes = 1024;

using Facts = std::map<std::string, std::string>;

// What the environment (NCCL_*, TORCH_NCCL_*, GLOO_*) and the NVIDIA driver say. Reads a few small files.
Facts MachineFacts(const Environment& environment, const MachineProbe& probe);

// The script and its arguments as one line, without what may be a secret (MaskArguments): where only
// secrets differ, nothing does.
std::string ArgumentsFact(const std::string& script, const std::vector<std::string>& arguments);

// Valid UTF-8 of at most this many bytes (32 at least); values that differ stay different, by a hash, when cut.
std::string FactValue(std::string_view value, size_t max_bytes = kMaxFactValueBytes);

}  // namespace muster::machine
