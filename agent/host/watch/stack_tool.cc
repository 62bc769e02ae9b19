#include "agent/host/watch/stack_tool.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "base/exit_codes.h"
#include "base/io/pipe.h"
#include "base/stacks/py_spy.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

namespace muster::host {
namespace {

constexpr size_t kMaxComplaint = 300;  // bytes of what the tool says of its failure that are shown
constexpr size_t kMaxHeard = 4096;     // bytes of it that are kept

// The line of the tool's output that names its failure, which a backtrace may follow; else the last line.
std::string Complaint(const std::string& text) {
  constexpr absl::string_view kNamesIt = "Error: ";
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  if (lines.empty()) return "";
  const auto named = std::find_if(lines.begin(), lines.end(),
                                  [&](absl::string_view line) { return absl::StartsWith(line, kNamesIt); });
  return OneLine(ToUtf8(std::string(named == lines.end() ? lines.back() : *named), kMaxComplaint));
}

}  // namespace

struct StackTool::Run {
  pid_t process = 0;
  pid_t tool = 0;
  Done done;
  OwnedFd out, err;
  std::string output, complaint;
  EventLoop::TimerId limit = 0;
};

namespace {

// Takes what has come, and keeps at most `most` bytes of it. False: nothing more will come.
bool Drain(const OwnedFd& pipe, size_t most, std::string* text) {
  char buffer[16 * 1024];
  ssize_t got = 0;
  while ((got = read(pipe.get(), buffer, sizeof(buffer))) > 0) {
    if (text->size() < most) text->append(buffer, static_cast<size_t>(got));
  }
  return got != 0;
}

// The writing end, for the tool.
absl::StatusOr<OwnedFd> MakePipeTo(OwnedFd* ours) {
  ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  fcntl(pipe.out.get(), F_SETFL, O_NONBLOCK);
  *ours = std::move(pipe.out);
  return std::move(pipe.in);
}

}  // namespace

StackTool::StackTool(EventLoop* loop, Spawner* spawner, EnvironmentMap environment)
    : loop_(loop), spawner_(spawner), environment_(std::move(environment)) {}

StackTool::~StackTool() {
  for (auto& [process, run] : runs_) {
    spawner_->KillGroup(run->tool);
    loop_->Unwatch(run->out.get());
    loop_->Unwatch(run->err.get());
    loop_->Cancel(run->limit);
  }
}

void StackTool::Ask(pid_t process, const std::string& file, Done done) {
  if (const auto before = runs_.find(process); before != runs_.end()) {
    spawner_->KillGroup(before->second->tool);
    Finish(process, absl::CancelledError("it was asked for again"));
  }
  const auto run = std::make_shared<Run>();
  run->process = process;
  run->done = std::move(done);
  runs_[process] = run;
  if (absl::Status status = Start(run, file); !status.ok()) {
    loop_->Post([this, waiting = std::weak_ptr<Run>(run), status] {
      if (const auto current = waiting.lock()) Finish(current->process, status);
    });
  }
}

absl::Status StackTool::Start(const std::shared_ptr<Run>& started, const std::string& file) {
  Run* const run = started.get();
  ASSIGN_OR_RETURN(const OwnedFd out, MakePipeTo(&run->out));
  ASSIGN_OR_RETURN(const OwnedFd err, MakePipeTo(&run->err));
  const OwnedFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return absl::ErrnoToStatus(errno, "opening /dev/null");
  WorkerCommand command;
  command.argv = {kStackTool, "dump", "--nonblocking", "--json", "--pid", absl::StrCat(run->process)};
  command.file = file;
  command.environment = environment_;
  command.helper = true;
  command.stdin_fd = null.get();
  command.stdout_fd = out.get();
  command.stderr_fd = err.get();
  ASSIGN_OR_RETURN(run->tool, spawner_->SpawnWorker(command, EventsOf(started)));
  loop_->Watch(run->out.get(), EPOLLIN, [this, run](uint32_t) {
    if (!Drain(run->out, kMaxPySpyBytes + 1, &run->output)) loop_->Unwatch(run->out.get());
  });
  loop_->Watch(run->err.get(), EPOLLIN, [this, run](uint32_t) {
    if (!Drain(run->err, kMaxHeard, &run->complaint)) loop_->Unwatch(run->err.get());
  });
  run->limit = loop_->After(kStackLimit, [this, run] {
    run->limit = 0;
    spawner_->KillGroup(run->tool);
    Finish(run->process, absl::DeadlineExceededError(absl::StrCat(kStackTool, " did not answer within ",
                                                                  absl::FormatDuration(kStackLimit))));
  });
  return absl::OkStatus();
}

// A tool that was left alone may end after this object, or once the same process is asked about again. Until
// Finish only runs_ holds the run.
Spawner::WorkerEvents StackTool::EventsOf(const std::weak_ptr<Run>& run) {
  Spawner::WorkerEvents events;
  events.failed = [this, run](int exit_code, const std::string& why) {
    const auto current = run.lock();
    if (current == nullptr) return;
    const bool missing = exit_code == kExitNotFound;
    Finish(current->process, missing ? absl::NotFoundError(absl::StrCat(kStackTool, " is not installed"))
                                     : absl::FailedPreconditionError(why));
  };
  events.exited = [this, run](const Ending& ending) {
    if (const auto current = run.lock(); current != nullptr) OnExit(current.get(), ending);
  };
  return events;
}

void StackTool::OnExit(Run* run, const Ending& ending) {
  Drain(run->out, kMaxPySpyBytes + 1, &run->output);
  Drain(run->err, kMaxHeard, &run->complaint);
  if (!ending.ok()) {
    const std::string said = Complaint(run->complaint);
    const std::string why = absl::StrCat(kStackTool, " failed", said.empty() ? "" : ": ", said);
    return Finish(run->process, absl::FailedPreconditionError(why));
  }
  Answer answer = ParsePySpy(run->output, run->process);
  if (answer.ok()) return Finish(run->process, answer);
  Finish(run->process,
         absl::DataLossError(absl::StrCat("what ", kStackTool, " prints is ", answer.status().message())));
}

void StackTool::Finish(pid_t process, const Answer& answer) {
  const auto found = runs_.find(process);
  const std::shared_ptr<Run> run = std::move(found->second);
  runs_.erase(found);
  if (run->out.valid()) loop_->Unwatch(run->out.get());
  if (run->err.valid()) loop_->Unwatch(run->err.get());
  loop_->Cancel(run->limit);
  run->done(answer);
}

}  // namespace muster::host
