// A std::mutex that clang's -Wthread-safety can check: a field marked ABSL_GUARDED_BY(mutex) may be used, and a
// function marked ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) called, only while the mutex is held. tests/tidy.py runs
// the check; it skips constructors and destructors. Abseil's mutex is not used because Debian builds it without
// ThreadSanitizer's annotations, and ThreadSanitizer then reports every use as a race.
//
//   const MutexLock lock(mutex_);
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"

namespace muster {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // Names required by the standard library's lock types.
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable. The predicate is called with the mutex held:
//   [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ...; }
class Condition {
 public:
  // False: the predicate was still false when the limit passed.
  template <typename Predicate>
  bool WaitFor(Mutex& mutex, std::chrono::nanoseconds limit, Predicate predicate)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return condition_.wait_for(mutex, limit, std::move(predicate));
  }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable_any condition_;
};

}  // namespace muster
