#include "agent/host/watch/file_timer_pipe.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/console/log.h"
#include "base/core/status_macros.h"
#include "base/io/bounded_call.h"
#include "base/io/owned_fd.h"
#include "base/io/temporary_folder.h"
#include "base/proc/proc_scan.h"
#include "base/text/utf8.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";
constexpr size_t kReadBytes = 64 * 1024;  // in one iteration of the loop
constexpr int kMaxAncestors = 64;
constexpr size_t kMaxShown = 200;                                 // bytes of a scope or a bad message in the log
constexpr absl::Duration kRemoveLimit = absl::Milliseconds(500);  // for removing the pipe when the host ends
constexpr int kLockTries = 50;
constexpr absl::Duration kLockPause = absl::Milliseconds(10);

// Locks the folder, so that no other muster makes a pipe between the check for another process's pipe and
// mkfifo(). On return the lock is not held if the folder supports no locks, or another process keeps it.
OwnedFd LockFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  OwnedFd lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < kLockTries && lock.valid(); ++i) {
    if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return lock;
    absl::SleepFor(kLockPause);
  }
  return lock;
}

}  // namespace

FileTimerPipe::FileTimerPipe(EventLoop* loop, OnExpired on_expired, Kill kill)
    : loop_(loop), on_expired_(std::move(on_expired)), kill_(std::move(kill)) {}

struct FileTimerPipe::Opened {
  OwnedFd fd;
  std::string path;
  std::optional<ScratchFolder> folder;  // the private folder, if the pipe is in one
};

FileTimerPipe::~FileTimerPipe() {
  if (pipe_ == nullptr) return;
  loop_->Unwatch(pipe_->fd.get());
  (void)CallWithin(kRemoveLimit, [pipe = pipe_] {
    Remove(*pipe);
    return true;
  });
}

// Checks the inode first, because another process may have replaced a pipe at a path that the user gave.
void FileTimerPipe::Remove(const Opened& pipe) {
  struct stat ours {
  }, found{};
  const bool same = fstat(pipe.fd.get(), &ours) == 0 && lstat(pipe.path.c_str(), &found) == 0 &&
                    ours.st_dev == found.st_dev && ours.st_ino == found.st_ino;
  if (same) unlink(pipe.path.c_str());
  if (pipe.folder) pipe.folder->Remove();
}

// AlreadyExists: another process reads a pipe at this path.
absl::StatusOr<FileTimerPipe::Opened> FileTimerPipe::OpenAt(const std::string& path) {
  const OwnedFd lock = LockFolderOf(path);
  struct stat info = {};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISFIFO(info.st_mode)) {
      return absl::FailedPreconditionError(absl::StrCat(path, " exists and is not a pipe"));
    }
    const OwnedFd other(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    if (other.valid()) return absl::AlreadyExistsError(absl::StrCat("another process reads ", path));
    unlink(path.c_str());
  }
  return MakePipe(path);
}

absl::StatusOr<FileTimerPipe::Opened> FileTimerPipe::MakePipe(const std::string& path) {
  if (mkfifo(path.c_str(), 0600) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("making the pipe ", path));
  Opened pipe;
  pipe.path = path;
  // Opened for writing, too, so that there is no end of file when the last writer closes it.
  pipe.fd.Reset(open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!pipe.fd.valid()) {
    absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat("opening the pipe ", path));
    unlink(path.c_str());
    return status;
  }
  struct stat info {};
  const bool ours = fstat(pipe.fd.get(), &info) == 0 && S_ISFIFO(info.st_mode) && info.st_uid == geteuid();
  if (ours) return pipe;
  return absl::PermissionDeniedError(absl::StrCat("another process has just replaced the pipe ", path));
}

absl::StatusOr<FileTimerPipe::Opened> FileTimerPipe::OpenPrivate() {
  ASSIGN_OR_RETURN(ScratchFolder folder, ScratchFolder::Make());
  absl::StatusOr<Opened> pipe = MakePipe(folder.path() + "/pipe");
  if (!pipe.ok()) {
    folder.Remove();
  } else {
    pipe->folder = std::move(folder);
  }
  return pipe;
}

absl::Status FileTimerPipe::Open(const std::string& given, absl::Duration limit) {
  using Result = absl::StatusOr<std::shared_ptr<Opened>>;
  const std::optional<Result> opened = CallWithin(limit, [given]() -> Result {
    absl::StatusOr<Opened> pipe = given.empty() ? OpenPrivate() : OpenAt(given);
    if (absl::IsAlreadyExists(pipe.status())) pipe = OpenPrivate();
    RETURN_IF_ERROR(pipe.status());
    return std::make_shared<Opened>(*std::move(pipe));
  });
  if (!opened) return absl::DeadlineExceededError("the file system of its pipe does not answer");
  RETURN_IF_ERROR(opened->status());
  pipe_ = **opened;
  path_ = pipe_->path;
  if (!given.empty() && path_ != given) {
    Log(Severity::kInfo, kPart,
        absl::StrCat("the file timer's pipe is ", path_,
                     ": another process, such as another node on this machine, ",
                     "uses TORCHELASTIC_TIMER_FILE=", given));
  }
  loop_->Watch(pipe_->fd.get(), EPOLLIN, [this](uint32_t) { Read(); });
  return absl::OkStatus();
}

void FileTimerPipe::BeginRound() {
  workers_.clear();
  timer_ = FileTimer();
}

void FileTimerPipe::WorkerStarted(int local_rank, pid_t pid) { workers_[pid] = local_rank; }

void FileTimerPipe::WorkerEnded(int local_rank) {
  timer_.WorkerEnded(local_rank);
  std::erase_if(workers_, [local_rank](const auto& worker) { return worker.second == local_rank; });
}

void FileTimerPipe::Read() {
  std::string buffer(kReadBytes, '\0');
  const ssize_t got = read(pipe_->fd.get(), buffer.data(), buffer.size());
  if (got <= 0) return;
  for (const std::string& line : lines_.Feed(std::string_view(buffer).substr(0, static_cast<size_t>(got))))
    Take(line);
  if (lines_.too_long() != std::exchange(too_long_, lines_.too_long())) {
    WarnOnce(absl::StrCat("longer than ", kMaxTimerMessage, " bytes"));
  }
  Watch();
}

void FileTimerPipe::Take(const std::string& line) {
  const absl::StatusOr<TimerMessage> message = ParseTimerMessage(line);
  if (!message.ok()) {
    WarnOnce(absl::StrCat(message.status().message(), ": ", ToUtf8(line, kMaxShown)));
    return;
  }
  const auto pid = static_cast<pid_t>(message->pid);
  const std::optional<TimerOwner> owner = OwnerOf(pid);
  if (!owner) {
    if (IsThere(pid) && !message->release) WarnOnce(absl::StrCat("pid ", pid, " is not a worker of this node"));
    return;
  }
  if (const absl::Status taken = timer_.Take(*message, *owner); !taken.ok())
    WarnOnce(std::string(AsStd(taken.message())));
}

void FileTimerPipe::WarnOnce(const std::string& what) {
  const Severity severity = std::exchange(warned_, true) ? Severity::kDebug : Severity::kWarning;
  Log(severity, kPart, absl::StrCat("a message to the file timer is ignored (reported once): ", what));
}

// Finds the worker by the process's session, which outlives its ancestors, and else by its ancestors.
std::optional<TimerOwner> FileTimerPipe::OwnerOf(pid_t pid) const {
  const std::optional<ProcessInfo> process = ReadProcess(pid);
  if (!process || process->ended()) return std::nullopt;
  if (const auto leader = workers_.find(process->session); leader != workers_.end()) {
    return TimerOwner{leader->second, process->start};
  }
  pid_t ancestor = pid;
  for (int i = 0; i < kMaxAncestors && ancestor > 1; ++i) {
    if (const auto worker = workers_.find(ancestor); worker != workers_.end()) {
      return TimerOwner{worker->second, process->start};
    }
    const std::optional<ProcessInfo> info = ReadProcess(ancestor);
    if (!info) return std::nullopt;
    ancestor = info->parent;
  }
  return std::nullopt;
}

void FileTimerPipe::Watch() {
  if (held_ || ticking_ || timer_.idle()) return;
  ticking_ = true;
  loop_->After(kTimerTick, [this] { Tick(); });
}

void FileTimerPipe::Tick() {
  ticking_ = false;
  for (const int64_t pid : timer_.pids()) {
    if (!IsThere(static_cast<pid_t>(pid))) timer_.ProcessEnded(pid);
  }
  const FileTimer::Due due = timer_.Look(absl::Now(), EventLoop::Now());
  for (const ExpiredTimer& timer : due.expired) Signal(timer);
  for (const int local_rank : due.outlived) {
    Log(Severity::kWarning, kPart,
        absl::StrCat("the worker with local rank ", local_rank, " is still alive ",
                     absl::FormatDuration(kTimerGrace),
                     " after the signal of its expired timer: sending SIGKILL"));
    kill_(local_rank);
  }
  Watch();
}

void FileTimerPipe::Signal(const ExpiredTimer& timer) {
  const std::string what =
      absl::StrCat("the timer \"", ToUtf8(timer.scope, kMaxShown), "\" of pid ", timer.pid, " expired");
  if (timer.signal <= 0) {
    Log(Severity::kWarning, kPart, absl::StrCat(what, "; the timer requests no signal"));
    return;
  }
  const auto pid = static_cast<pid_t>(timer.pid);
  const std::optional<ProcessInfo> process = ReadProcess(pid);
  if (!process || process->start != timer.owner.start) return;  // it has ended
  on_expired_(timer.owner.local_rank, absl::StrCat(what, ": signal ", timer.signal));
  const absl::Status sent = SignalProcess(pid, timer.owner.start, timer.signal);
  if (!sent.ok() && !absl::IsNotFound(sent)) Log(Severity::kError, kPart, std::string(AsStd(sent.message())));
}

}  // namespace muster::host
