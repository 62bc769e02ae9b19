// Variables by which `muster local` tells its nodes how to mark their workers' lines, and where their output goes.
#pragma once

namespace muster::cli {

inline constexpr char kPrefixVariable[] = "MUSTER_LINE_PREFIX";    // as host::OutputPlan::prefix_template
inline constexpr char kRedrawsVariable[] = "MUSTER_LINE_REDRAWS";  // as host::OutputPlan::redraws_pass, in digits

// The files behind the streams of `muster local`, for host::ReportPlan::outer_streams:
// "1:DEVICE:INODE,2:DEVICE:INODE".
inline constexpr char kStreamsVariable[] = "MUSTER_LINE_STREAMS";

// Precedes a line that is shown without the node's prefix: a report, which programs read.
inline constexpr char kBareLine = '\x1d';

}  // namespace muster::cli
