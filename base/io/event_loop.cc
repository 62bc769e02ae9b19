#include "base/io/event_loop.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <string>
#include <utility>

#include "base/core/check.h"

namespace muster {
namespace {

constexpr int kMaxEvents = 256;  // per epoll_wait

// Call right after the system call that returned fd.
absl::Status StatusOf(int fd, const std::string& call) {
  if (fd >= 0) return absl::OkStatus();
  if (errno == EMFILE || errno == ENFILE) {
    return absl::ResourceExhaustedError("no file descriptor is left for an event loop (ulimit -n)");
  }
  return absl::ErrnoToStatus(errno, call + " is refused here (kernel, sandbox or seccomp profile)");
}

}  // namespace

EventLoop::EventLoop() {
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  status_ = StatusOf(epoll_fd_, "epoll_create1");
  if (!status_.ok()) return;
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  status_ = StatusOf(wake_fd_, "eventfd");
  if (!status_.ok()) return;
  timer_fd_ = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  status_ = StatusOf(timer_fd_, "timerfd_create");
  if (!status_.ok()) return;
  Watch(wake_fd_, EPOLLIN, [this](uint32_t) {
    uint64_t count = 0;
    (void)!read(wake_fd_, &count, sizeof(count));
    RunPosted();
  });
  Watch(timer_fd_, EPOLLIN, [this](uint32_t) {
    uint64_t count = 0;
    (void)!read(timer_fd_, &count, sizeof(count));
    RunTimers();
  });
}

EventLoop::~EventLoop() {
  for (int fd : {timer_fd_, wake_fd_, epoll_fd_}) {
    if (fd >= 0) close(fd);
  }
}

BootTime EventLoop::Now() {
  timespec ts{};
  clock_gettime(CLOCK_BOOTTIME, &ts);
  return FromBootNanos(int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec);
}

void EventLoop::Run() {
  stop_ = false;
  while (!stop_) {
    epoll_event events[kMaxEvents];
    const int count = epoll_wait(epoll_fd_, events, kMaxEvents, -1);
    if (count < 0) {
      MUSTER_CHECK(errno == EINTR, "epoll_wait failed");
      continue;
    }
    for (int i = 0; i < count && !stop_; ++i) {
      // An earlier callback of this batch may have removed or replaced the watch.
      const auto it = watches_.find(events[i].data.fd);
      if (it == watches_.end()) continue;
      const std::shared_ptr<FdCallback> callback = it->second;
      (*callback)(events[i].events);
    }
  }
}

void EventLoop::Stop() { stop_ = true; }

void EventLoop::Post(Callback callback) {
  {
    const MutexLock lock(mutex_);
    posted_.push_back(std::move(callback));
    if (posted_.size() > 1) return;  // the loop is awake already
  }
  Wake();
}

EventLoop::TimerId EventLoop::At(BootTime when, Callback callback) {
  const TimerId id = next_timer_++;
  timers_.emplace(std::pair(when, id), std::move(callback));
  timer_times_.emplace(id, when);
  ArmTimer();
  return id;
}

void EventLoop::Cancel(TimerId id) {
  const auto it = timer_times_.find(id);
  if (it == timer_times_.end()) return;
  timers_.erase({it->second, id});
  timer_times_.erase(it);
}

void EventLoop::Watch(int fd, uint32_t events, FdCallback callback) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  const bool known = watches_.count(fd) > 0;
  watches_[fd] = std::make_shared<FdCallback>(std::move(callback));
  const int result = epoll_ctl(epoll_fd_, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
  MUSTER_CHECK(result == 0, "epoll_ctl refused a descriptor");
}

void EventLoop::Unwatch(int fd) {
  if (watches_.erase(fd) > 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::RunTimers() {
  const BootTime now = Now();
  while (!timers_.empty() && timers_.begin()->first.first <= now && !stop_) {
    const auto first = timers_.begin();
    const Callback callback = std::move(first->second);
    timer_times_.erase(first->first.second);
    timers_.erase(first);
    callback();
  }
  ArmTimer();
}

void EventLoop::RunPosted() {
  std::vector<Callback> batch;
  {
    const MutexLock lock(mutex_);
    batch.swap(posted_);
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (stop_) {
      const auto next = std::make_move_iterator(batch.begin() + static_cast<ptrdiff_t>(i));
      return PostAgain({next, std::make_move_iterator(batch.end())});
    }
    batch[i]();
  }
}

// What was posted before the loop was stopped, for the next Run(): before what was posted since.
void EventLoop::PostAgain(std::vector<Callback> rest) {
  {
    const MutexLock lock(mutex_);
    rest.insert(rest.end(), std::make_move_iterator(posted_.begin()), std::make_move_iterator(posted_.end()));
    posted_ = std::move(rest);
  }
  Wake();
}

void EventLoop::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

void EventLoop::ArmTimer() {
  if (timers_.empty()) return;
  const timespec when = absl::ToTimespec(timers_.begin()->first.first);
  itimerspec spec{};
  spec.it_value = when;
  if (spec.it_value.tv_sec == 0 && spec.it_value.tv_nsec == 0) spec.it_value.tv_nsec = 1;
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &spec, nullptr);
}

}  // namespace muster
