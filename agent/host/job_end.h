// Writes what is told of a job's end into the files that were asked for: --report, our own
// TORCHELASTIC_ERROR_FILE, Kubernetes' termination log. Nothing here makes a job fail: what cannot be written is
// said in the log.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/host/core/output_plan.h"
#include "agent/host/core/report.h"

namespace muster::host {

inline constexpr absl::Duration kReportLimit = absl::Seconds(5);  // for all of them: a file system may hang

// A whole file or none: written beside the target and renamed onto it. A target that is there and no regular file
// (/dev/stderr, a pipe that somebody reads) is written to as it is. Errors name the path.
absl::Status ReplaceFile(const std::string& path, const std::string& content);

// A file that must stay the one it is (mounted into a container): overwritten.
absl::Status OverwriteFile(const std::string& path, const std::string& content);

// A file whose first writer is heard: written where it is absent or empty.
absl::Status FillFile(const std::string& path, const std::string& content);

// The path of --report on this node: $node_rank (its place, where it had no rank in the last round; "none" without
// either) and $hostname, with braces or without. Pure.
std::string ReportPath(const std::string& pattern, const JobEnd& end);

// From any thread; waits for kReportLimit at most.
void WriteReports(const ReportPlan& plan, const JobEnd& end);

}  // namespace muster::host
