// Limits of the failures that are listed beside the cause: those of one node in its status, those of the job in
// the verdict.
#pragma once

#include <cstddef>

namespace muster {

inline constexpr int kMaxOtherFailures = 8;   // further ones are only counted
inline constexpr size_t kMaxBriefText = 256;  // bytes of error text of each

}  // namespace muster
