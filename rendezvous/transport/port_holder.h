// Finds the process of this machine that uses a TCP port, for error messages.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "base/core/time.h"
#include "rendezvous/core/port_retry.h"

namespace muster::rendezvous {

inline constexpr absl::Duration kHolderSearchLimit = absl::Milliseconds(200);  // for one search through /proc

// Searches /proc/net/tcp{,6} and the descriptors of all processes. nullopt: no process uses the port any more, or
// the one that does is not visible (another user's or another container's). Blocks, at most for `limit`.
std::optional<PortHolder> FindPortHolder(uint16_t port, absl::Duration limit = kHolderSearchLimit);

// Passes the present holder of the port to `retry`, if a search is due. Blocks during the search.
void RefreshPortHolder(BootTime now, uint16_t port, PortRetry* retry);

}  // namespace muster::rendezvous
