#include "agent/host/watch/progress_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "agent/host/watch/file_mark.h"
#include "base/console/log.h"
#include "base/io/mutex.h"
#include "base/io/thread.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";

}  // namespace

// Shared with the thread, which may outlive its owner in a system call that does not return.
class ProgressWatch::State : public std::enable_shared_from_this<State> {
 public:
  State(EventLoop* loop, std::string path, std::function<void()> touched)
      : path_(std::move(path)), loop_(loop), touched_(std::move(touched)) {}

  void Run() {
    WarnIfUnlikely();
    while (std::optional<uint64_t> request = Next()) Answer(*request, MarkOf(path_));
  }

  void BeginRound() {
    const MutexLock lock(mutex_);
    ++asked_;
    begins_at_ = asked_;
    base_.reset();
    condition_.NotifyAll();
  }
  void Look() {
    const MutexLock lock(mutex_);
    ++asked_;
    condition_.NotifyAll();
  }
  bool looked() {
    const MutexLock lock(mutex_);
    return answered_ >= asked_;
  }
  void Stop() {
    const MutexLock lock(mutex_);
    loop_ = nullptr;
    condition_.NotifyAll();
  }

 private:
  // With a mistyped path a healthy job would end for lack of progress: warn if the file cannot be created or seen.
  void WarnIfUnlikely() {
    struct stat info = {};
    if (stat(path_.c_str(), &info) == 0) return;
    const bool absent = errno == ENOENT;
    const size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, std::max<size_t>(slash, 1));
    if (absent && stat(folder.c_str(), &info) == 0) return;
    const std::string why = std::error_code(errno, std::generic_category()).message();
    const MutexLock lock(mutex_);
    if (loop_ == nullptr) return;
    loop_->Post([path = path_, absent, why] {
      Log(Severity::kWarning, kPart,
          absl::StrCat("--progress-file ", path,
                       absent ? ": its folder does not exist yet (" : " cannot be accessed (", why,
                       "); no round counts as progress until the file changes"));
    });
  }

  // Waits for a request or for the next period; returns the latest request. nullopt: stop.
  std::optional<uint64_t> Next() {
    const MutexLock lock(mutex_);
    condition_.WaitFor(
        mutex_, absl::ToChronoNanoseconds(kProgressPeriod),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return answered_ < asked_ || loop_ == nullptr; });
    if (loop_ == nullptr) return std::nullopt;
    return asked_;
  }

  void Answer(uint64_t request, const FileMark& mark) {
    const MutexLock lock(mutex_);
    answered_ = request;
    if (loop_ == nullptr || begins_at_ == 0 || request < begins_at_) return;
    if (!base_) {
      base_ = mark;
    } else if (mark && mark != *base_) {
      base_ = mark;
      // The next round may begin while this is queued in the loop; the touch does not count for that round.
      loop_->Post([self = shared_from_this(), round = begins_at_] {
        if (self->IsRound(round)) self->touched_();
      });
    }
  }
  bool IsRound(uint64_t begins_at) {
    const MutexLock lock(mutex_);
    return begins_at_ == begins_at;
  }

  const std::string path_;
  Mutex mutex_;
  Condition condition_;
  EventLoop* loop_ ABSL_GUARDED_BY(mutex_);  // null: the owner was destroyed
  const std::function<void()> touched_;
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  // The first request of the round, whose answer is what the next one is compared with; 0: no round yet.
  uint64_t begins_at_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<FileMark> base_ ABSL_GUARDED_BY(mutex_);
};

ProgressWatch::ProgressWatch(EventLoop* loop, std::string path, std::function<void()> touched)
    : path_(std::move(path)), state_(std::make_shared<State>(loop, path_, std::move(touched))) {}

ProgressWatch::~ProgressWatch() { state_->Stop(); }

absl::Status ProgressWatch::Start() {
  if (path_.empty()) return absl::OkStatus();
  absl::StatusOr<std::thread> thread = StartThread([state = state_] { state->Run(); });
  if (thread.ok()) thread->detach();
  return thread.status();
}

void ProgressWatch::BeginRound() {
  if (!path_.empty()) state_->BeginRound();
}

void ProgressWatch::Look() {
  if (!path_.empty()) state_->Look();
}

bool ProgressWatch::looked() const { return path_.empty() || state_->looked(); }

}  // namespace muster::host
