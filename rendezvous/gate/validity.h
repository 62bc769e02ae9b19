// What the dates of a certificate mean. Pure.
#pragma once

#include "absl/time/time.h"

namespace muster::rendezvous {

struct Validity {
  absl::Time from = absl::InfinitePast();
  absl::Time until = absl::InfiniteFuture();
};

enum class Age {
  kNotYet,
  kGood,
  kEnding,  // its renewal is overdue
  kExpired,
};

inline constexpr absl::Duration kLatestRenewal = absl::Hours(24);  // before its end
inline constexpr int kEndingPart = 5;  // or less than this part of its life is left, if that is smaller

Age AgeOf(const Validity& validity, absl::Time now);

// The time in which all of these certificates are valid.
Validity Both(const Validity& a, const Validity& b);

}  // namespace muster::rendezvous
