#include "agent/host/watch/activity_watch.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "agent/host/watch/file_mark.h"
#include "base/console/log.h"
#include "base/io/mutex.h"
#include "base/io/thread.h"
#include "base/proc/proc_scan.h"

namespace muster::host {
namespace {

constexpr const char* kPart = "host";
constexpr int kDeepestWrapper = 8;

// Remembers what it saw, and says whether that has changed. The first look finds nothing new.
class FileLook {
 public:
  explicit FileLook(std::string path) : path_(std::move(path)), seen_(MarkOf(path_)) {}
  bool TakeChange() {
    const FileMark now = MarkOf(path_);
    return now && now != std::exchange(seen_, now);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileMark seen_;
};

// What one look has found.
struct Seen {
  std::set<int> signs = {};
  std::vector<StepSeen> steps = {};
};

}  // namespace

// Shared with the threads, which may outlive their owner in a system call that does not return.
class ActivityWatch::State : public std::enable_shared_from_this<State> {
 public:
  State(EventLoop* loop, Events events) : loop_(loop), events_(std::move(events)) {}

  // The two threads.
  void LookAtProcesses();
  void LookAtFiles();

  void Begin(std::vector<Worker> workers, std::string progress_file) {
    const MutexLock lock(mutex_);
    round_ = {round_.number + 1, std::move(workers), std::move(progress_file)};
    condition_.NotifyAll();
  }
  void Stop() {
    const MutexLock lock(mutex_);
    loop_ = nullptr;
    condition_.NotifyAll();
  }

 private:
  struct Round {
    uint64_t number = 0;
    std::vector<Worker> workers;
    std::string progress_file;
  };

  // Waits for another round than `known`, or for the next look. nullopt: stop.
  std::optional<Round> Next(uint64_t known);
  void Tell(uint64_t round, const Seen& seen);
  bool IsRound(uint64_t round) {
    const MutexLock lock(mutex_);
    return round_.number == round;
  }
  void NoteFiles(bool are_asked);
  void SayIfFilesAreSilent();

  Mutex mutex_;
  Condition condition_;
  EventLoop* loop_ ABSL_GUARDED_BY(mutex_);  // null: the owner was destroyed
  const Events events_;
  Round round_ ABSL_GUARDED_BY(mutex_);
  std::optional<BootTime> files_asked_at_ ABSL_GUARDED_BY(mutex_);  // nullopt: they have answered
  bool silence_is_reported_ ABSL_GUARDED_BY(mutex_) = false;
};

namespace {

// What of a worker needs no file system: its output, and the bytes that its process writes.
class ProcessLook {
 public:
  explicit ProcessLook(const ActivityWatch::Worker& worker) : worker_(worker) {
    for (const ActivityWatch::Stream& stream : worker_.streams) passed_.push_back(Passed(stream));
    written_ = Written();
  }

  void Look(Seen* seen) {
    bool is_sign = false;
    for (size_t i = 0; i < passed_.size(); ++i) is_sign |= LookAt(worker_.streams[i], &passed_[i], seen);
    const uint64_t written = Written();
    const uint64_t enough = worker_.on_terminal ? 0 : kBusyBytes;
    is_sign |= written_ > 0 && written > written_ + enough;
    written_ = written;
    if (is_sign) seen->signs.insert(worker_.local_rank);
  }

 private:
  static uint64_t Passed(const ActivityWatch::Stream& stream) {
    return stream.bytes == nullptr ? 0 : stream.bytes->load();
  }

  // Whether bytes have passed since the last look.
  bool LookAt(const ActivityWatch::Stream& stream, uint64_t* before, Seen* seen) const {
    const uint64_t passed = Passed(stream);
    if (passed == std::exchange(*before, passed)) return false;
    const auto step = stream.lines == nullptr ? std::nullopt : StepIn(stream.lines->Last());
    if (step) seen->steps.push_back({worker_.local_rank, stream.source, *step});
    return true;
  }

  // By the process that trains.
  uint64_t Written() {
    if (!trains_ || !IsThere(process_)) FindTrainer();
    return BytesWritten(process_);
  }
  // A shell or another wrapper writes nothing itself: its first child is followed down to the first Python.
  void FindTrainer() {
    const pid_t before = process_;
    process_ = worker_.pid;
    for (int depth = 0; depth < kDeepestWrapper; ++depth) {
      trains_ = absl::StartsWith(ProgramOf(process_), "python");
      const std::optional<pid_t> child = trains_ ? std::nullopt : FirstChild(process_);
      if (!child) break;
      process_ = *child;
    }
    if (process_ != before) written_ = 0;
  }

  ActivityWatch::Worker worker_;
  pid_t process_ = 0;
  bool trains_ = false;           // it is known that it is the one
  std::vector<uint64_t> passed_;  // bytes of each stream
  uint64_t written_ = 0;          // 0: not known yet, or it could not be read
};

class FilesLook {
 public:
  explicit FilesLook(const ActivityWatch::Worker& worker)
      : local_rank_(worker.local_rank), heartbeat_(worker.heartbeat) {
    for (const ActivityWatch::Stream& stream : worker.streams) {
      if (!stream.file.empty()) files_.emplace_back(stream.source, FileLook(stream.file));
    }
  }
  int local_rank() const { return local_rank_; }

  void Look(Seen* seen) {
    if (heartbeat_.TakeChange()) {
      seen->signs.insert(local_rank_);
      seen->steps.push_back({local_rank_, StepSource::kHeartbeat});
    }
    for (auto& [source, file] : files_) {
      if (!file.TakeChange()) continue;
      seen->signs.insert(local_rank_);
      if (const auto step = StepIn(LastLinesOfFile(file.path())))
        seen->steps.push_back({local_rank_, source, *step});
    }
  }

 private:
  int local_rank_;
  FileLook heartbeat_;
  std::vector<std::pair<StepSource, FileLook>> files_;
};

template <typename Look>
Seen LookWith(std::vector<Look>* looks) {
  Seen seen;
  for (Look& look : *looks) look.Look(&seen);
  return seen;
}

template <typename Look>
std::vector<Look> LooksAt(const std::vector<ActivityWatch::Worker>& workers) {
  return std::vector<Look>(workers.begin(), workers.end());
}

}  // namespace

void ActivityWatch::State::LookAtProcesses() {
  std::vector<ProcessLook> looks;
  uint64_t round = 0;
  while (const std::optional<Round> begun = Next(round)) {
    SayIfFilesAreSilent();
    if (begun->number == round) {
      Tell(round, LookWith(&looks));
    } else {
      round = begun->number;
      looks = LooksAt<ProcessLook>(begun->workers);
    }
  }
}

void ActivityWatch::State::LookAtFiles() {
  std::vector<FilesLook> looks;
  FileLook progress("");
  uint64_t round = 0;
  while (const std::optional<Round> begun = Next(round)) {
    NoteFiles(true);
    if (begun->number == round) {
      Seen seen = LookWith(&looks);
      if (progress.TakeChange()) {
        for (const FilesLook& look : looks) seen.signs.insert(look.local_rank());
      }
      Tell(round, seen);
    } else {
      round = begun->number;
      progress = FileLook(begun->progress_file);
      looks = LooksAt<FilesLook>(begun->workers);
    }
    NoteFiles(false);
  }
}

std::optional<ActivityWatch::State::Round> ActivityWatch::State::Next(uint64_t known) {
  const MutexLock lock(mutex_);
  condition_.WaitFor(mutex_, absl::ToChronoNanoseconds(kLookPeriod),
                     [this, known]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                       return loop_ == nullptr || round_.number != known;
                     });
  if (loop_ == nullptr) return std::nullopt;
  return round_.number == known ? Round{known, {}, ""} : round_;
}

void ActivityWatch::State::Tell(uint64_t round, const Seen& seen) {
  const MutexLock lock(mutex_);
  if (seen.signs.empty() || loop_ == nullptr || round != round_.number) return;
  loop_->Post([self = shared_from_this(), round, seen] {
    if (!self->IsRound(round)) return;
    self->events_.showed(seen.signs);
    if (!seen.steps.empty()) self->events_.stepped(seen.steps);
  });
}

void ActivityWatch::State::NoteFiles(bool are_asked) {
  const MutexLock lock(mutex_);
  files_asked_at_ = are_asked ? std::optional(EventLoop::Now()) : std::nullopt;
}

void ActivityWatch::State::SayIfFilesAreSilent() {
  const MutexLock lock(mutex_);
  const bool silent = files_asked_at_ && EventLoop::Now() - *files_asked_at_ > kFilesAnswer;
  if (!silent || std::exchange(silence_is_reported_, true) || loop_ == nullptr) return;
  loop_->Post([] {
    Log(Severity::kWarning, kPart,
        "the file system of the workers' log, heartbeat or progress files does not answer: what happens there is "
        "not seen as a sign of life");
  });
}

ActivityWatch::ActivityWatch(EventLoop* loop, Events events)
    : state_(std::make_shared<State>(loop, std::move(events))) {}

ActivityWatch::~ActivityWatch() { state_->Stop(); }

absl::Status ActivityWatch::Start() {
  for (const auto look : {&State::LookAtProcesses, &State::LookAtFiles}) {
    absl::StatusOr<std::thread> thread = StartThread([state = state_, look] { ((*state).*look)(); });
    if (!thread.ok()) return thread.status();
    thread->detach();
  }
  return absl::OkStatus();
}

void ActivityWatch::BeginRound(std::vector<Worker> workers, std::string progress_file) {
  state_->Begin(std::move(workers), std::move(progress_file));
}

void ActivityWatch::EndRound() { state_->Begin({}, ""); }

}  // namespace muster::host
