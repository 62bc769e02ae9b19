#include "agent/platform/notice/notice_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "agent/platform/notice/http_request.h"
#include "agent/platform/notice/notice.h"
#include "base/console/log.h"
#include "base/core/status_macros.h"
#include "base/io/mutex.h"
#include "base/io/owned_fd.h"
#include "base/io/thread.h"
#include "base/text/problem.h"

namespace muster::agent {
namespace {

constexpr char kPart[] = "agent";
constexpr char kWrittenBefore[] =
    " (written before this node started; remove it, or every node that is started will leave)";

int64_t TimeOf(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace

absl::Status TakeFileAsItIs(v1::NoticeSource* source) {
  struct stat info = {};
  if (source->file().empty() || stat(source->file().c_str(), &info) != 0) return absl::OkStatus();
  if (S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        "is a folder; expected the path of a file whose appearance tells this node to leave");
  }
  source->set_file_was_written(info.st_size > 0);
  if (info.st_size == 0) source->set_file_mtime_ns(TimeOf(info));
  return absl::OkStatus();
}

// Shared with the threads, which may outlive the NoticeWatch inside a call that does not return.
class NoticeWatch::State {
 public:
  State(EventLoop* loop, v1::NoticeSource source, std::function<void(const std::string&)> noticed)
      : source_(std::move(source)), loop_(loop), noticed_(std::move(noticed)) {
    stop_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  }

  const v1::NoticeSource& source() const { return source_; }
  bool usable() const { return stop_.valid(); }

  void Inquire(NoticeInquiry* inquiry) {
    NoticeInquiry::Next next = inquiry->Begin();
    while (true) {
      for (Note& remark : next.remarks) Tell(std::move(remark));
      if (!next.notice.empty()) return Notice(next.notice);
      if (!Sleep(next.pause)) return;
      const BootTime began = EventLoop::Now();
      const absl::StatusOr<HttpAnswer> answer = Ask(source_.server(), next.request, stop_.get());
      if (absl::IsCancelled(answer.status())) return;
      next = inquiry->OnAnswer(answer, EventLoop::Now() - began);
    }
  }

  void LookAtFile() {
    bool warned = false;
    do {
      struct stat info = {};
      if (stat(source_.file().c_str(), &info) == 0) {
        const bool as_it_was = source_.has_file_mtime_ns() && TimeOf(info) == source_.file_mtime_ns();
        if (info.st_size == 0 && as_it_was) continue;
        return Notice(absl::StrCat("preemption notice of file:", Shown(source_.file()),
                                   source_.file_was_written() ? kWrittenBefore : ""));
      }
      if (errno == ENOENT || std::exchange(warned, true)) continue;
      const absl::Status why = absl::ErrnoToStatus(errno, "cannot be checked");
      Tell({Severity::kWarning, absl::StrCat("preemption notice: ", Shown(source_.file()), " ", why.message())});
    } while (Sleep(kNoticeFilePeriod));
  }

  void Stop() {
    const MutexLock lock(mutex_);
    loop_ = nullptr;
    eventfd_write(stop_.get(), 1);
  }

 private:
  // False: stopped meanwhile.
  bool Sleep(absl::Duration duration) {
    const BootTime until = EventLoop::Now() + duration;
    while (true) {
      pollfd wait = {stop_.get(), POLLIN, 0};
      const absl::Duration left = std::max(until - EventLoop::Now(), absl::ZeroDuration());
      const int ready =
          poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
      if (ready > 0) return false;
      if (EventLoop::Now() >= until) return true;
    }
  }

  void Tell(Note remark) {
    const MutexLock lock(mutex_);
    if (loop_ != nullptr) loop_->Post([remark = std::move(remark)] { Log(kPart, remark); });
  }

  // The owner is destroyed before the loop, so a null loop_ is enough to know that nobody listens.
  void Notice(const std::string& why) {
    const MutexLock lock(mutex_);
    if (loop_ != nullptr) loop_->Post([noticed = noticed_, why] { noticed(why); });
  }

  const v1::NoticeSource source_;
  OwnedFd stop_;
  Mutex mutex_;
  EventLoop* loop_ ABSL_GUARDED_BY(mutex_);  // null: the owner was destroyed
  const std::function<void(const std::string&)> noticed_;
};

NoticeWatch::NoticeWatch(EventLoop* loop, v1::NoticeSource source, std::function<void(const std::string&)> noticed)
    : state_(std::make_shared<State>(loop, std::move(source), std::move(noticed))) {}

NoticeWatch::~NoticeWatch() { state_->Stop(); }

absl::Status NoticeWatch::Start() {
  const v1::NoticeSource& source = state_->source();
  if (source.kind() == v1::NoticeSource::OFF) return absl::OkStatus();
  if (!state_->usable()) return absl::ResourceExhaustedError("no descriptor is left");
  if (source.kind() == v1::NoticeSource::FILE) {
    ASSIGN_OR_RETURN(std::thread thread, StartThread([state = state_] { state->LookAtFile(); }));
    thread.detach();
    return absl::OkStatus();
  }
  for (std::unique_ptr<NoticeInquiry>& inquiry : InquiriesOf(source.kind())) {
    ASSIGN_OR_RETURN(std::thread thread,
                     StartThread([state = state_, inquiry = std::shared_ptr(std::move(inquiry))] {
                       state->Inquire(inquiry.get());
                     }));
    thread.detach();
  }
  return absl::OkStatus();
}

}  // namespace muster::agent
