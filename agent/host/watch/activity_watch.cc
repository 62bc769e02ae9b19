#include "agent/host/watch/activity_watch.h"

#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "agent/host/watch/file_mark.h"
#include "base/mutex.h"
#include "base/proc/proc_scan.h"
#include "base/thread.h"

namespace muster::host {
namespace {

// Remembers what it saw, and says whether that has changed. The first look finds nothing new.
class FileLook {
 public:
  explicit FileLook(std::string path) : path_(std::move(path)), seen_(MarkOf(path_)) {}
  bool TakeChange() {
    const FileMark now = MarkOf(path_);
    return now && now != std::exchange(seen_, now);
  }

 private:
  std::string path_;
  FileMark seen_;
};

class WorkerLook {
 public:
  explicit WorkerLook(ActivityWatch::Worker worker)
      : worker_(std::move(worker)), written_(BytesWritten(worker_.pid)) {
    for (const std::string& file : worker_.files) files_.emplace_back(file);
    for (const ByteCount& count : worker_.output) output_ += count->load();
  }
  int local_rank() const { return worker_.local_rank; }

  bool TakeSign() {
    bool sign = false;
    for (FileLook& file : files_) sign |= file.TakeChange();
    uint64_t output = 0;
    for (const ByteCount& count : worker_.output) output += count->load();
    sign |= output != std::exchange(output_, output);
    const uint64_t written = BytesWritten(worker_.pid);
    sign |= written > std::exchange(written_, written) + kBusyBytes;
    return sign;
  }

 private:
  ActivityWatch::Worker worker_;
  std::vector<FileLook> files_;
  uint64_t output_ = 0;
  uint64_t written_ = 0;
};

}  // namespace

// Shared with the thread, which may outlive its owner in a system call that does not return.
class ActivityWatch::State : public std::enable_shared_from_this<State> {
 public:
  State(EventLoop* loop, Looked looked) : loop_(loop), looked_(std::move(looked)) {}

  void Run() {
    std::vector<WorkerLook> workers;
    FileLook progress("");
    uint64_t round = 0;
    while (std::optional<Round> begun = Next(round)) {
      if (begun->number != round) {
        round = begun->number;
        progress = FileLook(begun->progress_file);
        workers.clear();
        for (Worker& worker : begun->workers) workers.emplace_back(std::move(worker));
        continue;
      }
      if (workers.empty()) continue;
      const bool all = progress.TakeChange();
      std::set<int> signs;
      for (WorkerLook& worker : workers) {
        if (worker.TakeSign() || all) signs.insert(worker.local_rank());
      }
      Tell(round, signs);
    }
  }

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
  std::optional<Round> Next(uint64_t known) {
    const MutexLock lock(mutex_);
    condition_.WaitFor(mutex_, absl::ToChronoNanoseconds(kLookPeriod),
                       [this, known]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                         return loop_ == nullptr || round_.number != known;
                       });
    if (loop_ == nullptr) return std::nullopt;
    return round_.number == known ? Round{known, {}, ""} : round_;
  }

  void Tell(uint64_t round, const std::set<int>& signs) {
    const MutexLock lock(mutex_);
    if (loop_ == nullptr || round != round_.number) return;
    loop_->Post([self = shared_from_this(), round, signs] {
      if (self->IsRound(round)) self->looked_(signs);
    });
  }
  bool IsRound(uint64_t round) {
    const MutexLock lock(mutex_);
    return round_.number == round;
  }

  Mutex mutex_;
  Condition condition_;
  EventLoop* loop_ ABSL_GUARDED_BY(mutex_);  // null: the owner was destroyed
  const Looked looked_;
  Round round_ ABSL_GUARDED_BY(mutex_);
};

ActivityWatch::ActivityWatch(EventLoop* loop, Looked looked)
    : state_(std::make_shared<State>(loop, std::move(looked))) {}

ActivityWatch::~ActivityWatch() { state_->Stop(); }

absl::Status ActivityWatch::Start() {
  absl::StatusOr<std::thread> thread = StartThread([state = state_] { state->Run(); });
  if (thread.ok()) thread->detach();
  return thread.status();
}

void ActivityWatch::BeginRound(std::vector<Worker> workers, std::string progress_file) {
  state_->Begin(std::move(workers), std::move(progress_file));
}

void ActivityWatch::EndRound() { state_->Begin({}, ""); }

}  // namespace muster::host
