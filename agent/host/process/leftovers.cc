#include "agent/host/process/leftovers.h"

#include <signal.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/host/core/session_stop.h"

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

// The workers' inherited standard input may be a pipe, too.
bool IsReader(pid_t pid) {
  const std::string input = StandardInputOf(pid);
  return input.starts_with("pipe:") && input != StandardInputOf(getpid());
}

void ForEachMember(pid_t leader, const std::function<void(pid_t)>& visit) {
  (void)ForEachProcess([&](pid_t pid) {
    if (pid != leader && getsid(pid) == leader) visit(pid);
  });
}

// A copy of a shell works by itself (a subshell), or is about to execute a program. Its program is read before its
// flags, so that an exec in between is not taken for a copy of what it executes.
bool IsCandidate(pid_t pid, pid_t leader, ProcessInfo* process) {
  const bool is_shell = IsShell(ProgramOf(pid));
  const auto info = ReadProcess(pid);
  if (!info || info->session != leader || info->ended() || info->exiting) return false;
  *process = *info;
  return (is_shell || info->in_exec || !info->forked) && !IsReader(pid);
}

}  // namespace

EnvironReader& CommandLineReader() {
  static EnvironReader* const reader = new EnvironReader(CommandLine);
  return *reader;
}

std::string LeftBehind(pid_t leader, EnvironReader* command_lines) {
  std::vector<ProcessInfo> candidates;
  ForEachMember(leader, [&](pid_t pid) {
    ProcessInfo process;
    if (IsCandidate(pid, leader, &process)) candidates.push_back(process);
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

std::vector<ProcessInfo> KillAllButReaders(pid_t leader, bool settled) {
  std::vector<ProcessInfo> readers;
  ForEachMember(leader, [&](pid_t pid) {
    const auto process = ReadProcess(pid);
    if (!process || process->session != leader || process->ended()) return;
    if (IsReader(pid) || (!settled && process->forked && IsShell(ProgramOf(pid)))) {
      readers.push_back(*process);
    } else {
      (void)SignalProcess(pid, process->start, SIGKILL);
    }
  });
  return readers;
}

}  // namespace muster::host
