#include "agent/host/watch/gpu_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "base/io/pipe.h"
#include "base/proc/proc_scan.h"

namespace muster::host {
namespace {

constexpr char kTool[] = "nvidia-smi";

}  // namespace

std::set<int64_t> ParseGpuPids(std::string_view text) {
  std::set<int64_t> pids;
  for (const absl::string_view line : absl::StrSplit(AsAbsl(text), '\n')) {
    int64_t pid = 0;
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &pid) && pid > 0) pids.insert(pid);
  }
  return pids;
}

GpuWatch::GpuWatch(EventLoop* loop, Spawner* spawner, EnvironmentMap environment, Answered answered)
    : loop_(loop), spawner_(spawner), environment_(std::move(environment)), answered_(std::move(answered)) {}

GpuWatch::~GpuWatch() {
  if (pipe_.valid()) loop_->Unwatch(pipe_.get());
}

void GpuWatch::Ask() {
  asked_ = true;
  if (tool_ != 0) {
    return Answer({.trouble = absl::StrCat("the previous ", kTool, " (pid ", tool_, ") has not ended")});
  }
  if (const absl::Status started = Start(); !started.ok()) {
    return Answer({.trouble = std::string(AsStd(started.message()))});
  }
  limit_ = loop_->After(kGpuAskLimit, [this] {
    limit_ = 0;
    spawner_->Kill(tool_, SIGKILL);
    Answer({.trouble = absl::StrCat(kTool, " did not answer within ", absl::FormatDuration(kGpuAskLimit))});
  });
}

absl::Status GpuWatch::Start() {
  ASSIGN_OR_RETURN(Pipe output, MakePipe());
  pipe_ = std::move(output.out);
  const OwnedFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid()) return absl::ErrnoToStatus(errno, "opening /dev/null");
  fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  WorkerCommand command;
  command.argv = {kTool, "--query-compute-apps=pid", "--format=csv,noheader"};
  command.environment = environment_;
  command.helper = true;
  command.stdin_fd = command.stderr_fd = null.get();
  command.stdout_fd = output.in.get();
  Spawner::WorkerEvents events;
  events.failed = [this](int, const std::string& why) {
    tool_ = 0;
    Answer({.trouble = why});
  };
  events.exited = [this](const Ending& ending) { Ended(ending); };
  ASSIGN_OR_RETURN(tool_, spawner_->SpawnWorker(command, std::move(events)));
  output_.clear();
  loop_->Watch(pipe_.get(), EPOLLIN, [this](uint32_t) { Read(); });
  return absl::OkStatus();
}

void GpuWatch::Read() {
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(pipe_.get(), buffer, sizeof(buffer))) > 0) {
    if (output_.size() < kMaxGpuAnswer) output_.append(buffer, static_cast<size_t>(got));
  }
  if (got == 0) loop_->Unwatch(pipe_.get());
}

void GpuWatch::Ended(const Ending& ending) {
  tool_ = 0;
  if (!asked_) return;  // its time limit has passed already
  Read();
  if (!ending.ok()) {
    return Answer({.trouble = absl::StrCat(
                       kTool, ending.by_signal ? " was killed by signal " : " exited with code ", ending.number)});
  }
  GpuUsers users;
  for (const int64_t pid : ParseGpuPids(output_)) {
    // The old workers were reaped, so a process that has such a pid now is another one.
    const bool old = old_workers_.count(static_cast<pid_t>(pid)) > 0 && !IsThere(static_cast<pid_t>(pid));
    (old ? users.old_workers : users.others).insert(pid);
  }
  Answer(users);
}

void GpuWatch::Answer(const GpuUsers& users) {
  if (!std::exchange(asked_, false)) return;
  if (limit_ != 0) loop_->Cancel(std::exchange(limit_, 0));
  if (pipe_.valid()) {
    loop_->Unwatch(pipe_.get());
    pipe_.Reset();
  }
  answered_(users);
}

}  // namespace muster::host
