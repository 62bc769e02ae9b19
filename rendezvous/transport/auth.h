// The job's token: a shared secret that keeps other jobs' nodes out of a run. It travels as call metadata.
#pragma once

#include <string_view>

namespace muster::rendezvous {

inline constexpr char kTokenKey[] = "muster-token";

// True if both are equal, and always if no token is expected. The running time depends only on the length of
// `presented`.
bool TokenMatches(std::string_view expected, std::string_view presented);

}  // namespace muster::rendezvous
