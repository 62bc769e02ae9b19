#include "agent/host/core/report.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster::host {
namespace {

constexpr size_t kMaxRule = 60;  // characters, as torchrun's report has them

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "" : absl::StrCat(" (SIG", name, ")");
}

std::string HowItEnded(const v1::Failure& failure) {
  if (!failure.has_signal())
    return absl::StrCat("exitcode  : ", failure.exit_code(), " (pid: ", failure.pid(), ")");
  std::string text =
      absl::StrCat("signal    : ", failure.signal(), SignalName(failure.signal()), " (pid: ", failure.pid(), ")");
  if (failure.core_dumped()) absl::StrAppend(&text, ", core dumped");
  if (failure.oom_killed()) absl::StrAppend(&text, ", killed because memory ran out");
  return text;
}

}  // namespace

std::string FailureReport(const v1::Verdict& verdict, const std::string& program) {
  if (!verdict.has_root_cause() || verdict.exit_code() == 0) return "";
  const v1::Failure& failure = verdict.root_cause();
  std::vector<std::string> lines = {
      absl::StrCat(program, " FAILED"),
      "Root cause (the first failure in the whole group):",
      absl::StrCat("  host      : ", failure.host(), " (node ", failure.node_rank(), ")"),
      absl::StrCat("  rank      : ", failure.rank(), " (local_rank: ", failure.local_rank(), ")"),
      absl::StrCat("  ", HowItEnded(failure)),
  };
  const std::vector<std::string> text = absl::StrSplit(failure.error_text(), '\n', absl::SkipEmpty());
  for (size_t i = 0; i < text.size(); ++i) {
    lines.push_back(absl::StrCat(i == 0 ? "  error     : " : "              ", text[i]));
  }
  size_t width = 0;
  for (const std::string& line : lines) width = std::max(width, line.size());
  width = std::min(width, kMaxRule);
  std::string report = absl::StrCat(std::string(width, '='), "\n");
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppend(&report, lines[i], "\n");
    if (i == 0) absl::StrAppend(&report, std::string(width, '-'), "\n");
  }
  absl::StrAppend(&report, std::string(width, '='), "\n");
  return report;
}

}  // namespace muster::host
