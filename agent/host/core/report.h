// What is told of a job's end: to a person who reads the terminal, in torchrun's form, and to programs that read a
// file. The root cause is the whole group's, the same on every node. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::host {

inline constexpr size_t kMaxTerminationBytes = 4096;  // of a termination message: Kubernetes takes no more
inline constexpr size_t kMaxFailureFileBytes = 1024;  // of SageMaker's failure file: it shows no more

struct JobEnd {
  int exit_code = 0;
  std::string origin;  // "worker" or "muster"
  std::string reason;
  std::optional<v1::Verdict> verdict;
  v1::Round last;  // the greatest round this node was told of; without an id: none
  // This node.
  std::string program;  // the script's name
  std::string host;
  std::optional<int> place;
  std::string run_id;
  std::string version;
  // Of this node's clock.
  absl::Time started;
  absl::Time ended;
  absl::TimeZone zone;  // for what people read
};

// Several lines, the last with its newline; empty if no failed worker ended the job.
std::string FailureReport(const JobEnd& end);

// One JSON object and a newline (--report), indented over several lines for a file of its own.
enum class JsonLayout { kIndented, kOneLine };
std::string ReportJson(const JobEnd& end, JsonLayout layout = JsonLayout::kIndented);

// The root cause as torch's agent leaves it in its own TORCHELASTIC_ERROR_FILE; empty if no failed worker ended
// the job.
std::string ErrorFileJson(const JobEnd& end);

// A few lines of at most max_bytes (/dev/termination-log).
std::string TerminationMessage(const JobEnd& end, size_t max_bytes = kMaxTerminationBytes);

// The same for SageMaker's failure file; empty if the job did not fail.
std::string FailureFileText(const JobEnd& end);

// "SIGSEGV"; empty: a signal without a name.
std::string SignalName(int signal);

// -N for signal N, as torchrun has it.
int SignedExitCode(const v1::Failure& failure);

// What can be shown: escape sequences and other control characters but newline and tab are taken out.
std::string Printable(const std::string& text);

}  // namespace muster::host
