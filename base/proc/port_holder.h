// Finds the process of this machine that uses a TCP port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace muster {

struct PortHolder {
  int64_t pid = 0;
  std::string name;        // from the kernel: at most 15 characters of the program's name
  bool is_muster = false;  // perhaps of this run, and about to end
  bool listens = true;     // false: the port is the local port of an outgoing connection
};

inline constexpr absl::Duration kHolderSearchLimit = absl::Milliseconds(200);  // for one search through /proc

// Searches /proc/net/tcp{,6} and the descriptors of all processes. nullopt: no process uses the port any more, or
// the one that does is not visible (another user's or another container's). Blocks, at most for `limit`.
std::optional<PortHolder> FindPortHolder(uint16_t port, absl::Duration limit = kHolderSearchLimit);

// Whether a process listens on the port, visible or not.
bool IsListenedOn(uint16_t port);

}  // namespace muster
