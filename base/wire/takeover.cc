#include "base/wire/takeover.h"

#include <algorithm>

namespace muster {
namespace {

// Time until nodes notice the end of the old coordinator, the new one listens, and each node has made its first
// attempts.
constexpr absl::Duration kUntilItListens = absl::Seconds(2);
constexpr absl::Duration kStep = absl::Seconds(5);  // leases are rounded up to this, for readability

}  // namespace

absl::Duration LeaseForNodes(int nodes) {
  const absl::Duration takeover = kUntilItListens + std::min(nodes, kMostAgents) * kReconnectSpacing;
  return std::max(kDefaultLease, absl::Ceil(takeover * 3 / 2, kStep));
}

absl::Duration JoinLimit(absl::Duration join_timeout, absl::Duration lease) {
  return std::max(join_timeout, lease > absl::ZeroDuration() ? lease : kDefaultLease);
}

absl::Duration LinkBeat(absl::Duration lease) {
  return lease > absl::ZeroDuration() ? std::min(kBeat, lease / 8) : kBeat;
}

}  // namespace muster
