// Writes the reports of a job's end into the requested files: --report, muster's own TORCHELASTIC_ERROR_FILE,
// SageMaker's failure file, Kubernetes' termination log. An error here is logged and never fails a job.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/host/core/output_plan.h"
#include "agent/host/core/report.h"

namespace muster::host {

inline constexpr absl::Duration kReportLimit = absl::Seconds(5);  // for all reports: a file system may hang

// The files behind this process's standard output and error.
std::vector<StreamFile> OwnStreams();

// The stream, 1 or 2, that leads to the file at this path (/dev/stderr, or the file that standard error was
// redirected to); nullopt: none. Replacing such a file would separate the stream from the file's name.
std::optional<int> StreamAt(const std::string& path, const std::vector<StreamFile>& streams);

// The path of --report on this node. Expands $hostname and $node_rank, with or without braces. A node without a
// rank in the last round uses its place for $node_rank, and "none" without either. Pure.
std::string ReportPath(const std::string& pattern, const JobEnd& end);

// The reports of one job's end. The constructor starts a thread that writes them. Thread-compatible.
class Reports {
 public:
  Reports(const ReportPlan& plan, const JobEnd& end);

  // Waits until each report is written or has failed. False: not within the limit.
  bool Await(absl::Duration limit);

  struct Result {
    std::vector<std::pair<int, std::string>> for_streams;  // descriptor and text, for the caller to write
    std::vector<std::string> problems;                     // for the log
  };
  // The results so far; a report that is not written yet is listed as a problem.
  Result Take();

 private:
  struct Task;
  std::shared_ptr<Task> task_;  // shared with the thread, which a file system may block forever
};

// Writes all reports, for callers without an event loop: blocks for at most kReportLimit, and logs failures.
void WriteReports(const ReportPlan& plan, const JobEnd& end);

// Whether a report can be written there later (--report), as far as that is known before there is a round: a
// folder whose name is still open is not looked at, and one whose file system does not answer is left for later.
// The error says what is wrong with the folder.
absl::Status CheckReportFolder(const std::string& pattern);

}  // namespace muster::host
