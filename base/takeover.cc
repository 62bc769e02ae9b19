#include "base/takeover.h"

#include <algorithm>

namespace muster {
namespace {

// For the old coordinator's end to be noticed, a new one to listen, and each node's first attempts.
constexpr absl::Duration kUntilItListens = absl::Seconds(2);
constexpr absl::Duration kStep = absl::Seconds(5);  // people read leases, so round up

}  // namespace

absl::Duration LeaseForNodes(int nodes) {
  const absl::Duration takeover = kUntilItListens + std::min(nodes, kMostAgents) * kReconnectSpacing;
  return std::max(kDefaultLease, absl::Ceil(takeover * 3 / 2, kStep));
}

}  // namespace muster
