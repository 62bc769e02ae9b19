#include "agent/host/watch/snapshot_taker.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/core/check.h"
#include "base/io/bounded_call.h"
#include "base/proc/proc_scan.h"
#include "base/stacks/processor_need.h"
#include "base/stacks/py_spy.h"
#include "base/text/utf8.h"

namespace muster::host {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(10);
constexpr size_t kMaxName = 64;  // bytes of a program's or a kernel function's name
constexpr size_t kMaxSessionProcesses = 4096;
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(300);  // at one rank

// The program that the process executes, or the process's own name if we may not see that.
std::string NameOf(const ProcessInfo& process) {
  std::string program = ProgramOf(process.pid);
  return program.empty() ? process.name : program;
}

// All processes of the worker's session, its first process first, then by pid: parents mostly come before
// children.
std::vector<ProcessInfo> SessionOf(pid_t worker) {
  std::vector<ProcessInfo> members;
  const absl::Status seen = ForEachProcess([&](pid_t pid) {
    if (members.size() >= kMaxSessionProcesses) return;
    const std::optional<ProcessInfo> process = ReadProcess(pid);
    if (process && process->session == worker) members.push_back(*process);
  });
  std::sort(members.begin(), members.end(), [worker](const ProcessInfo& a, const ProcessInfo& b) {
    return std::make_pair(a.pid != worker, a.pid) < std::make_pair(b.pid != worker, b.pid);
  });
  (void)seen;  // those that were found are shown
  return members;
}

// The time of all threads is counted in ticks, that of the first one exactly.
std::map<pid_t, ProcessorUse> UsesOf(const std::vector<ProcessInfo>& processes) {
  std::map<pid_t, ProcessorUse> uses;
  for (const ProcessInfo& process : processes) {
    const SchedulerTimes first = ReadSchedulerTimes(process.pid);
    uses[process.pid] = {std::max(ProcessorTime(process.pid), first.ran), first.waited};
  }
  return uses;
}

// What /proc says of one rank.
struct Looked {
  RankSnapshot snapshot;
  bool is_python = false;
};

bool IsPython(const ProcessInfo& process) {
  return !process.ended() && absl::StartsWith(NameOf(process), "python");
}

// On a thread of its own, which a file of /proc may hold for ever.
Looked LookAt(const SnapshotTaker::Subject& subject) {
  Looked looked;
  RankSnapshot& snapshot = looked.snapshot;
  snapshot.rank = subject.rank;
  snapshot.pid = subject.worker;
  if (subject.last_output) snapshot.last_output = subject.last_output();
  const std::vector<ProcessInfo> session = SessionOf(subject.worker);
  if (session.empty()) {
    snapshot.ended = !IsThere(subject.worker);
    if (!snapshot.ended) snapshot.missing = "/proc does not show it";
    return looked;
  }
  const auto python = std::find_if(session.begin(), session.end(), IsPython);
  looked.is_python = python != session.end();
  const ProcessInfo& shown = looked.is_python ? *python : session.front();
  snapshot.pid = shown.pid;
  snapshot.program = ToUtf8(NameOf(shown), kMaxName);
  snapshot.threads = shown.threads;
  // The state of one moment is chance.
  const std::map<pid_t, ProcessorUse> before = UsesOf(session);
  absl::SleepFor(kBetweenLooks);
  snapshot.busy_percent = ProcessorNeed(before, UsesOf(session), kBetweenLooks);
  const std::optional<ProcessInfo> later = ReadProcess(shown.pid);
  snapshot.state = later ? later->state : shown.state;
  if (snapshot.state == 'D' && shown.state != 'D') snapshot.state = shown.state;
  snapshot.waits_in = ToUtf8(KernelFunction(shown.pid), kMaxName);
  if (!looked.is_python) snapshot.missing = "it runs no Python";
  return looked;
}

// The file, or nothing. On a thread of its own: the interpreter may be on a file system that does not answer.
std::string ToolBeside(const std::string& python) {
  if (python.find('/') == std::string::npos) return "";
  std::string file = python.substr(0, python.rfind('/') + 1) + kStackTool;
  return access(file.c_str(), X_OK) == 0 ? file : "";
}

}  // namespace

struct SnapshotTaker::Shot {
  std::optional<std::future<std::string>> tool_look;  // for the tool beside the interpreter; nullopt: it is over
  std::string tool;                                   // the file; empty: it is searched on the PATH
  bool tool_is_hidden = false;                        // the interpreter's file system has not answered
  Done done;
  BootTime began = absl::InfinitePast();
  std::vector<std::optional<std::future<Looked>>> looks;  // nullopt: it has come, or will not
  std::vector<RankSnapshot> snapshots;
  std::vector<Subject> subjects;
  std::optional<RecorderDump> recorders;
  std::map<size_t, StackDump> dumps;  // by index: of workers that write their stacks now
  std::deque<size_t> to_ask;          // indices of Python processes
  int asked = 0;                      // of tool_, and not answered
  EventLoop::TimerId timer = 0;
};

SnapshotTaker::SnapshotTaker(EventLoop* loop, Spawner* spawner, EnvironmentMap environment)
    : loop_(loop), tool_(loop, spawner, std::move(environment)) {}

SnapshotTaker::~SnapshotTaker() {
  if (shot_ != nullptr) loop_->Cancel(shot_->timer);
}

void SnapshotTaker::Take(const std::vector<Subject>& subjects, const std::string& python, Done done) {
  MUSTER_CHECK(!busy(), "one snapshot at a time");
  shot_ = std::make_shared<Shot>();
  // A look that an earlier snapshot gave up is not joined by another one: each keeps its thread.
  if (tool_looks_.expired()) {
    const auto token = std::make_shared<bool>();
    tool_looks_ = token;
    shot_->tool_look = CallAside([python, token] { return ToolBeside(python); });
  } else {
    shot_->tool_is_hidden = true;
  }
  shot_->done = std::move(done);
  shot_->began = EventLoop::Now();
  std::vector<RecorderPaths> recorders;
  for (const Subject& subject : subjects) {
    shot_->looks.push_back(CallAside([subject] { return LookAt(subject); }));
    RankSnapshot snapshot;
    snapshot.rank = subject.rank;
    snapshot.pid = subject.worker;
    snapshot.missing = shot_->looks.back()
                           ? absl::StrCat("/proc did not say within ", absl::FormatDuration(kProcLimit))
                           : "no thread could be started";
    shot_->snapshots.push_back(std::move(snapshot));
    recorders.push_back(subject.recorder);
  }
  shot_->subjects = subjects;
  shot_->recorders.emplace(shot_->began, recorders);
  shot_->timer = loop_->After(kPoll, [this] { Poll(); });  // done() never comes within Take()
}

void SnapshotTaker::Poll() {
  shot_->timer = 0;
  const absl::Duration passed = EventLoop::Now() - shot_->began;
  bool waits = false;
  for (size_t i = 0; i < shot_->looks.size(); ++i) {
    std::optional<std::future<Looked>>& look = shot_->looks[i];
    if (!look) continue;
    if (look->wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      waits = true;
      continue;
    }
    const Looked looked = look->get();
    look.reset();
    shot_->snapshots[i] = looked.snapshot;
    if (looked.is_python) shot_->to_ask.push_back(i);
  }
  if (FindTool(passed)) AskForStacks();
  PollDumps();
  shot_->recorders->Poll(EventLoop::Now());
  const bool over = (!waits || passed >= kProcLimit) && shot_->to_ask.empty() && shot_->asked == 0 &&
                    shot_->dumps.empty() && shot_->recorders->over();
  if (over || passed >= kSnapshotLimit) return Finish();
  shot_->timer = loop_->After(kPoll, [this] { Poll(); });
}

// Whether it is known where the tool is, or will not be known.
bool SnapshotTaker::FindTool(absl::Duration passed) {
  std::optional<std::future<std::string>>& look = shot_->tool_look;
  if (!look) return true;
  const bool has_come = look->wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (!has_come && passed < kProcLimit) return false;
  if (has_come) shot_->tool = look->get();
  shot_->tool_is_hidden = !has_come;
  look.reset();
  return true;
}

void SnapshotTaker::AskForStacks() {
  while (!shot_->to_ask.empty() && shot_->asked < kStackToolsAtOnce) {
    const size_t index = shot_->to_ask.front();
    shot_->to_ask.pop_front();
    ++shot_->asked;
    shot_->snapshots[index].missing = absl::StrCat(kStackTool, " has not answered");
    // An answer may come after this snapshot, and during the next one.
    const auto done = [this, index, shot = std::weak_ptr<Shot>(shot_)](const StackTool::Answer& answer) {
      if (const auto asking = shot.lock(); asking != nullptr && asking == shot_) OnStacks(index, answer);
    };
    tool_.Ask(static_cast<pid_t>(shot_->snapshots[index].pid), shot_->tool, done);
  }
}

void SnapshotTaker::OnStacks(size_t index, const StackTool::Answer& answer) {
  --shot_->asked;
  RankSnapshot& snapshot = shot_->snapshots[index];
  snapshot.missing = answer.ok() ? "" : std::string(answer.status().message());
  if (absl::IsNotFound(answer.status()) && shot_->tool_is_hidden) {
    snapshot.missing =
        absl::StrCat(kStackTool, " is not on the PATH, and the interpreter's file system does not answer");
  }
  if (answer.ok()) {
    snapshot.python = *answer;
    return;
  }
  const Subject& subject = shot_->subjects[index];
  if (subject.stacks == nullptr || snapshot.pid != subject.worker) return;
  shot_->dumps.emplace(index, StackDump(subject.stacks, subject.worker, EventLoop::Now()));
}

void SnapshotTaker::PollDumps() {
  for (auto dump = shot_->dumps.begin(); dump != shot_->dumps.end();) {
    const std::optional<StackDump::Answer> answer = dump->second.Poll(EventLoop::Now());
    if (!answer) {
      ++dump;
      continue;
    }
    RankSnapshot& snapshot = shot_->snapshots[dump->first];
    if (answer->ok()) {
      snapshot.python = **answer;
      snapshot.missing.clear();
    } else {
      absl::StrAppend(&snapshot.missing, ", and ", answer->status().message());
    }
    dump = shot_->dumps.erase(dump);
  }
}

void SnapshotTaker::Finish() {
  for (const size_t index : shot_->to_ask) {
    shot_->snapshots[index].missing = absl::StrCat("no time was left to ask ", kStackTool);
  }
  for (size_t i = 0; i < shot_->snapshots.size(); ++i) {
    if (shot_->recorders->Has(i)) shot_->snapshots[i].recorder = shot_->subjects[i].recorder.file;
  }
  const std::shared_ptr<Shot> shot = std::move(shot_);
  shot->done(std::move(shot->snapshots));
}

}  // namespace muster::host
