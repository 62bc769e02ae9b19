// The reports of a job's end: in torchrun's form for people who read the terminal, and as files for programs. The
// root cause is that of the whole group, the same on every node. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "agent/host/core/restart_history.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::host {

inline constexpr size_t kMaxTerminationBytes = 4096;  // of a termination message: Kubernetes' limit
inline constexpr size_t kMaxFailureFileBytes = 1024;  // of SageMaker's failure file: SageMaker shows no more

struct JobEnd {
  int exit_code = 0;
  std::string origin;  // "worker" or "muster"
  std::string reason;
  std::optional<v1::Verdict> verdict;
  // Without a verdict: of this node's worker that failed first in its last round. It may be the cause of the end,
  // or come from it: workers fail, too, because the primary is lost.
  std::optional<v1::Failure> own_failure;
  v1::Round last;     // the latest round that this node knows; without an id: none
  Restarts restarts;  // of this node
  // The verdict names this node as the one that ends the job, or names none; or this node has served the
  // coordinator, or none has released it.
  bool tells_all = true;
  // About this node.
  std::string program;  // the script's name
  std::string host;
  std::optional<int> place;
  std::string run_id;
  std::string version;
  bool coordinator_alone = false;  // the coordinator is a process of its own, which prints the whole report
  // By this node's wall clock.
  absl::Time started;
  absl::Time ended;
  absl::TimeZone zone;  // of times in texts for people
};

// Several lines, each with a newline; empty if no worker failed, as far as this node knows.
std::string FailureReport(const JobEnd& end);

// Which nodes of a job print the whole report (--report-on).
enum class ReportOn {
  kConcerned,  // the primary, the node that ends the job, and the one whose worker failed first
  kAll,
};
bool PrintsWholeReport(const JobEnd& end, ReportOn report_on);

// In place of the whole report: what failed first, and where the report is. Each is one line without a newline;
// both are empty if no failed worker ended the job. report_file: this node's, see ReportPath; empty: none.
struct ReportInBrief {
  std::string cause;
  std::string whereabouts;
};
ReportInBrief BriefReport(const JobEnd& end, const std::string& report_file);

// One JSON object and a newline (--report), indented over several lines for a file of its own.
enum class JsonLayout { kIndented, kOneLine };
std::string ReportJson(const JobEnd& end, JsonLayout layout = JsonLayout::kIndented);

// For the sidecar of this host: base/wire/sidecar.h.
std::string ResultJson(const std::string& host_id, const std::string& pod, int exit_code);

// The root cause in the format that torch's agent writes to its own TORCHELASTIC_ERROR_FILE; empty if no failed
// worker ended the job.
std::string ErrorFileJson(const JobEnd& end);

// A few lines of at most max_bytes (/dev/termination-log).
std::string TerminationMessage(const JobEnd& end, size_t max_bytes = kMaxTerminationBytes);

// The termination message for SageMaker's failure file; empty if the job did not fail.
std::string FailureFileText(const JobEnd& end);

// The exit code, or -N for signal N, as in torchrun.
int SignedExitCode(const v1::Failure& failure);

// The text without escape sequences and without control characters other than newline and tab.
std::string Printable(const std::string& text);

}  // namespace muster::host
