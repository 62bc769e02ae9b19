// How `muster local` tells its nodes to mark their workers' lines.
#pragma once

namespace muster::cli {

inline constexpr char kPrefixVariable[] = "MUSTER_LINE_PREFIX";    // as host::OutputPlan::prefix_template
inline constexpr char kRedrawsVariable[] = "MUSTER_LINE_REDRAWS";  // as host::OutputPlan::redraws_pass, in digits

}  // namespace muster::cli
