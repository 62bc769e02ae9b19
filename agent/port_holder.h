// Which process of this machine has a TCP port, for a message to the person who wants it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace muster::agent {

inline constexpr absl::Duration kHolderSearchLimit = absl::Milliseconds(200);  // of one search through /proc

struct PortHolder {
  pid_t pid = 0;
  std::string name;        // as the kernel has it: 15 characters of the program's
  bool is_muster = false;  // a muster: of this run, perhaps, and about to end
  bool listens = true;     // false: it has the port for a connection of its own
};

// By /proc/net/tcp{,6} and the descriptors of all processes. nullopt: nobody has the port any more, or who has it
// cannot be seen from here (another user's process, or another container's). Blocks, at most for the limit.
std::optional<PortHolder> FindPortHolder(uint16_t port, absl::Duration limit = kHolderSearchLimit);

// "process 71 (python3) has it: end it, or give all nodes another port"
std::string DescribePortHolder(const std::optional<PortHolder>& holder);

}  // namespace muster::agent
