// Facts about this node that should be the same on all nodes of a job. Each node sends them to the coordinator
// once, which logs the nodes that differ. Names and values are for people; secrets are masked.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/platform/machine/accelerators.h"

namespace muster::machine {

inline constexpr size_t kMaxFacts = 64;            // of one node
inline constexpr size_t kMaxFactNameBytes = 64;    // a fact with a longer name is left out
inline constexpr size_t kMaxFactValueBytes = 256;  // a longer value is replaced by its beginning and a hash
inline constexpr size_t kMaxArgumentsBytes = 1024;

using Facts = std::map<std::string, std::string>;

// Facts from the environment (NCCL_*, TORCH_NCCL_*, GLOO_*) and the NVIDIA driver. Reads a few small files.
Facts MachineFacts(const Environment& environment, const MachineProbe& probe);

// The script and its arguments as one line, with secrets masked (MaskArguments), so that nodes that differ only in
// secrets count as equal.
std::string ArgumentsFact(const std::string& script, const std::vector<std::string>& arguments);

// "3.11", and the path, which is not compared. target: the file to which the path leads; empty if its name tells
// no version (a wrapper): the paths of one Python may differ between nodes.
std::string PythonFact(const std::string& path, const std::string& target);

// A hash of a file's content.
std::string ContentFact(std::string_view content);

// Valid UTF-8 of at most max_bytes, which must be at least 32. A cut value ends with a hash, so that different
// values stay different.
std::string FactValue(std::string_view value, size_t max_bytes = kMaxFactValueBytes);

}  // namespace muster::machine
