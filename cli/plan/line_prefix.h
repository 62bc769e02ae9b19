// How `muster local` tells its nodes to mark their workers' lines, and where their output ends up.
#pragma once

namespace muster::cli {

inline constexpr char kPrefixVariable[] = "MUSTER_LINE_PREFIX";    // as host::OutputPlan::prefix_template
inline constexpr char kRedrawsVariable[] = "MUSTER_LINE_REDRAWS";  // as host::OutputPlan::redraws_pass, in digits

// The files behind its own streams, as host::ReportPlan::outer_streams: "1:DEVICE:INODE,2:DEVICE:INODE".
inline constexpr char kStreamsVariable[] = "MUSTER_LINE_STREAMS";

// What stands before a line that is shown without its node: a report, which a machine reads.
inline constexpr char kBareLine = '\x1d';

}  // namespace muster::cli
