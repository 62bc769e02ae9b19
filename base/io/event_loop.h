// A small epoll loop: descriptors, timers on CLOCK_BOOTTIME, and closures posted from other threads. muster has
// its own because the available event libraries claim SIGCHLD for themselves.
//
// Call everything but Post() on the loop thread.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/core/time.h"
#include "base/io/mutex.h"

namespace muster {

class EventLoop {
 public:
  using Callback = std::function<void()>;
  using FdCallback = std::function<void(uint32_t events)>;  // EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR
  using TimerId = uint64_t;

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Not OK: the kernel gave it no descriptors, and no other method may be called.
  const absl::Status& status() const { return status_; }

  static BootTime Now();  // CLOCK_BOOTTIME

  void Run();   // until Stop()
  void Stop();  // what was posted, and has not run yet, runs in the next Run()

  // From any thread. Runs on the loop thread, in order of posting; never from inside the call.
  void Post(Callback callback);

  // Timers fire in the order of their times, those of one instant in the order in which they were set.
  TimerId At(BootTime when, Callback callback);
  TimerId After(absl::Duration delay, Callback callback) { return At(Now() + delay, std::move(callback)); }
  void Cancel(TimerId id);  // no effect on a timer that has fired

  // Watches a descriptor, which the loop does not own. Replaces an earlier watch of the same descriptor.
  void Watch(int fd, uint32_t events, FdCallback callback);
  void Unwatch(int fd);

 private:
  void RunTimers();
  void RunPosted();
  void PostAgain(std::vector<Callback> rest);
  void Wake();
  void ArmTimer();

  absl::Status status_;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;   // eventfd
  int timer_fd_ = -1;  // timerfd on CLOCK_BOOTTIME
  bool stop_ = false;
  TimerId next_timer_ = 1;
  std::map<std::pair<BootTime, TimerId>, Callback> timers_;
  // When each timer fires, so that cancelling one need not look at all others: a coordinator of 20,000 nodes has
  // a timer for each connection.
  std::unordered_map<TimerId, BootTime> timer_times_;
  std::map<int, std::shared_ptr<FdCallback>> watches_;

  Mutex mutex_;
  std::vector<Callback> posted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
