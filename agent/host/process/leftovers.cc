#include "agent/host/process/leftovers.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/host/core/session_stop.h"
#include "base/proc/proc_scan.h"

namespace muster::host {
namespace {

constexpr int kMaxNamed = 8;  // processes named in one line

// A process that Python starts beside the workers of a pool; packages such as loky have their own, of the same
// names.
bool IsHelper(const absl::StatusOr<std::string>& command_line) {
  if (!command_line.ok()) return false;
  return absl::StrContains(*command_line, "resource_tracker import main") ||
         absl::StrContains(*command_line, "forkserver import main");
}

// Programs that end by themselves once nobody writes to the pipe that they read. A copy of a shell may be about to
// execute one. An inherited standard input may be a pipe, too.
constexpr std::string_view kFilters[] = {"awk",  "cat", "cut",  "gawk", "grep",       "head", "less", "logger",
                                         "mawk", "sed", "tail", "tee",  "rotatelogs", "tr",   "ts"};

bool IsFilter(const ProcessInfo& process) {
  const bool may_be_one = process.forked || std::count(std::begin(kFilters), std::end(kFilters), process.name) > 0;
  const std::string input = may_be_one ? StandardInputOf(process.pid) : "";
  return input.starts_with("pipe:") && input != StandardInputOf(getpid());
}

// A copy of a shell works by itself (a subshell), or is about to execute a program. Its program is read before its
// flags, so that an exec in between is not taken for a copy of what it executes.
bool IsCandidate(pid_t pid, pid_t leader, ProcessInfo* process) {
  const bool is_shell = IsShell(ProgramOf(pid));
  const auto info = ReadProcess(pid);
  if (!info || info->session != leader || info->ended() || info->exiting) return false;
  *process = *info;
  return (is_shell || info->in_exec || !info->forked) && !IsFilter(*info);
}

}  // namespace

EnvironReader& CommandLineReader() {
  static EnvironReader* const reader = new EnvironReader(CommandLine);
  return *reader;
}

std::string LeftBehind(pid_t leader, EnvironReader* command_lines) {
  std::vector<ProcessInfo> candidates;
  (void)ForEachProcess([&](pid_t pid) {
    ProcessInfo process;
    if (pid != leader && getsid(pid) == leader && IsCandidate(pid, leader, &process)) {
      candidates.push_back(process);
    }
  });
  const EnvironReader::Answers answers = command_lines->ReadAll(candidates);
  std::string named;
  int count = 0;
  for (const ProcessInfo& process : candidates) {
    if (IsHelper(answers.at(process.pid)) || ++count > kMaxNamed) continue;
    absl::StrAppend(&named, named.empty() ? "" : ", ", process.name, " (pid ", process.pid, ")");
  }
  if (count > kMaxNamed) absl::StrAppend(&named, " and ", count - kMaxNamed, " more");
  return named;
}

}  // namespace muster::host
