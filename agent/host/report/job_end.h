// Writes what is told of a job's end into the files that were asked for: --report, our own
// TORCHELASTIC_ERROR_FILE, Kubernetes' termination log. Nothing here makes a job fail: what cannot be written is
// said in the log.
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

inline constexpr absl::Duration kReportLimit = absl::Seconds(5);  // for all of them: a file system may hang

// The files behind our standard output and error.
std::vector<StreamFile> OwnStreams();

// The stream, 1 or 2, that leads to the file at this path (/dev/stderr, or the file that standard error was
// redirected to); nullopt: none does. Replacing such a file would separate the stream from the file's name.
std::optional<int> StreamAt(const std::string& path, const std::vector<StreamFile>& streams);

// A whole file or none: written beside the target and renamed onto it. A target that is there and no regular file
// (a pipe that somebody reads) is written to as it is. Errors name the path. Not for a path of StreamAt.
absl::Status ReplaceFile(const std::string& path, const std::string& content);

// A file that must stay the one it is (mounted into a container): overwritten.
absl::Status OverwriteFile(const std::string& path, const std::string& content);

// A file whose first writer is heard: written where it is absent or empty.
absl::Status FillFile(const std::string& path, const std::string& content);

// The path of --report on this node: $node_rank (its place, where it had no rank in the last round; "none" without
// either) and $hostname, with braces or without. Pure.
std::string ReportPath(const std::string& pattern, const JobEnd& end);

// The reports of one job's end, written by a thread of their own from the constructor on. Thread-compatible.
class Reports {
 public:
  Reports(const ReportPlan& plan, const JobEnd& end);

  // Waits until each is written or has failed. False: not within the limit.
  bool Await(absl::Duration limit);

  struct Result {
    std::vector<std::pair<int, std::string>> for_streams;  // descriptor and text, for the caller to write
    std::vector<std::string> problems;                     // for the log
  };
  // What came of them so far; one that is not written yet is a problem.
  Result Take();

 private:
  struct Task;
  std::shared_ptr<Task> task_;  // shared with the thread, which a file system may keep for ever
};

// All at once, where there is no loop that has to go on: waits for kReportLimit at most, and logs what failed.
void WriteReports(const ReportPlan& plan, const JobEnd& end);

}  // namespace muster::host
