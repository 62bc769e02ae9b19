// How the state of a job is shown. Pure.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "muster/v1/control.pb.h"

namespace muster::cli {

inline constexpr int kExitAttention = 1;
inline constexpr int kExitCannotTell = 2;

// 0: it runs well; kExitAttention: not.
int CodeOf(const v1::JobView& view);
// For people: whether it is well, what is odd, and the nodes in ranges; each_node: a line for each, too.
std::string StatusText(const v1::JobView& view, bool each_node);
// For programs: one object. now: the moment of the view; times in it are RFC 3339.
std::string StatusJson(const v1::JobView& view, absl::Time now);

}  // namespace muster::cli
