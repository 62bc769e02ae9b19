// The CheckProbe of this machine and its network, for `muster env --check`.
#pragma once

#include "cli/env/env_check.h"

namespace muster::cli {

inline constexpr absl::Duration kNameLimit = absl::Seconds(5);
inline constexpr absl::Duration kConnectLimit = absl::Seconds(3);
inline constexpr absl::Duration kPythonLimit = absl::Seconds(10);

// The probe's functions block, each for at most the limits above.
CheckProbe SystemCheckProbe();

}  // namespace muster::cli
