#include "agent/host/process/leftovers.h"

#include <signal.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "agent/host/core/session_stop.h"

namespace muster::host {
namespace {

constexpr int kMaxNamed = 8;  // processes named in one line
constexpr absl::Duration kLookAgain = absl::Milliseconds(1);

// A process that Python starts beside the workers of a pool; packages such as loky have their own, of the same
// names.
bool IsHelper(const absl::StatusOr<std::string>& command_line) {
  if (!command_line.ok()) return false;
  return absl::StrContains(*command_line, "resource_tracker import main") ||
         absl::StrContains(*command_line, "forkserver import main");
}

// A shell's copy without children may have been forked a moment ago: see kForksSettle. To be read before its
// standard input is, which it may open in between.
bool MayBeUnsettled(const ProcessInfo& process, bool is_shell) {
  return is_shell && process.forked && !FirstChild(process.pid);
}

struct Candidates {
  std::vector<ProcessInfo> processes;
  bool settled = true;
};

// Its program is read before its flags, so that an exec in between is not taken for a copy of what it executes.
bool IsCandidate(pid_t pid, pid_t leader, ProcessInfo* process, bool* settled) {
  const bool is_shell = IsShell(ProgramOf(pid));
  const auto info = ReadProcess(pid);
  if (!info || info->session != leader || info->ended() || info->exiting) return false;
  *process = *info;
  const bool unsettled = MayBeUnsettled(*info, is_shell);
  // A process that has just ended has no standard input.
  if (ReadsFromPipe(pid) || HasEndedSince(*info)) return false;
  if (unsettled) *settled = false;
  return is_shell || info->in_exec || !info->forked;
}

Candidates CandidatesOf(pid_t leader) {
  Candidates candidates;
  (void)ForEachProcess([&](pid_t pid) {
    ProcessInfo process;
    if (pid != leader && getsid(pid) == leader && IsCandidate(pid, leader, &process, &candidates.settled)) {
      candidates.processes.push_back(process);
    }
  });
  return candidates;
}

}  // namespace

EnvironReader& CommandLineReader() {
  static EnvironReader* const reader = new EnvironReader(CommandLine);
  return *reader;
}

std::string LeftBehind(pid_t leader, EnvironReader* command_lines) {
  Candidates candidates = CandidatesOf(leader);
  candidates.settled = candidates.processes.empty();  // the first look may come in the middle of an end
  for (absl::Duration waited; !candidates.settled && waited < kForksSettle; waited += kLookAgain) {
    absl::SleepFor(kLookAgain);
    candidates = CandidatesOf(leader);
  }
  const EnvironReader::Answers answers = command_lines->ReadAll(candidates.processes);
  std::string named;
  int count = 0;
  for (const ProcessInfo& process : candidates.processes) {
    if (IsHelper(answers.at(process.pid)) || ++count > kMaxNamed) continue;
    absl::StrAppend(&named, named.empty() ? "" : ", ", process.name, " (pid ", process.pid, ")");
  }
  if (count > kMaxNamed) absl::StrAppend(&named, " and ", count - kMaxNamed, " more");
  return named;
}

bool ReadsFromPipe(pid_t pid) {
  const std::string input = StandardInputOf(pid);
  return input.starts_with("pipe:") && input != StandardInputOf(getpid());
}

std::vector<ProcessInfo> KillAllButReaders(pid_t leader, bool settled) {
  std::vector<ProcessInfo> left;
  for (const ProcessInfo& child : Children(leader).value_or(std::vector<ProcessInfo>())) {
    if (child.pid == leader || child.ended()) continue;
    const bool has_children = FirstChild(child.pid).has_value();
    const bool unsettled = !settled && MayBeUnsettled(child, IsShell(ProgramOf(child.pid)));
    if (unsettled || ReadsFromPipe(child.pid)) {
      left.push_back(child);
    } else {
      (void)SignalProcess(child.pid, child.start, SIGKILL);
      if (has_children) left.push_back(child);
    }
  }
  return left;
}

}  // namespace muster::host
