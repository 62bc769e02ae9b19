#include "rendezvous/gate/validity.h"

#include <algorithm>

namespace muster::rendezvous {

// Both dates belong to the time in which it is valid, RFC 5280, section 4.1.2.5.
Age AgeOf(const Validity& validity, absl::Time now) {
  if (now < validity.from) return Age::kNotYet;
  if (now > validity.until) return Age::kExpired;
  const absl::Duration reserve = std::min(kLatestRenewal, (validity.until - validity.from) / kEndingPart);
  return validity.until - now < reserve ? Age::kEnding : Age::kGood;
}

Validity Both(const Validity& a, const Validity& b) {
  return {.from = std::max(a.from, b.from), .until = std::min(a.until, b.until)};
}

}  // namespace muster::rendezvous
