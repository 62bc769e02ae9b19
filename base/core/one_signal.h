// One request to end may arrive twice: timeout(1) signals its child and then the group, and a signal to all
// processes of a container also comes through process 1.
#pragma once

#include "absl/time/time.h"

namespace muster {

// A signal repeated within this time counts as the same request.
inline constexpr absl::Duration kOneSignal = absl::Milliseconds(200);

}  // namespace muster
