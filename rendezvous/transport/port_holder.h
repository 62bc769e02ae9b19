// Which process of this machine has a TCP port, for a message to the person who wants it.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "base/time.h"
#include "rendezvous/core/port_retry.h"

namespace muster::rendezvous {

inline constexpr absl::Duration kHolderSearchLimit = absl::Milliseconds(200);  // of one search through /proc

// By /proc/net/tcp{,6} and the descriptors of all processes. nullopt: nobody has the port any more, or who has it
// cannot be seen from here (another user's process, or another container's). Blocks, at most for the limit.
std::optional<PortHolder> FindPortHolder(uint16_t port, absl::Duration limit = kHolderSearchLimit);

// Gives `retry` the present holder of the port, if a search for it is due. Blocks for the search.
void RefreshPortHolder(BootTime now, uint16_t port, PortRetry* retry);

}  // namespace muster::rendezvous
