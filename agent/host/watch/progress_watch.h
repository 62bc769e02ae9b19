// Whether the training has touched its progress file (--progress-file) since the round began: by its modification
// time, its size, or that there is one at all.
//
// The file may be on a network's file system, which may not answer for minutes: it is looked at, once a second and
// whenever asked to, by a thread of its own that nobody ever waits for without a limit. Lives on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/io/event_loop.h"

namespace muster::host {

inline constexpr absl::Duration kProgressPeriod = absl::Seconds(1);

class ProgressWatch {
 public:
  // `touched` is called on the loop's thread, once in a round at the most. An empty path: nothing is watched.
  ProgressWatch(EventLoop* loop, std::string path, std::function<void()> touched);
  ~ProgressWatch();
  ProgressWatch(const ProgressWatch&) = delete;
  ProgressWatch& operator=(const ProgressWatch&) = delete;

  absl::Status Start();  // no thread could be had: nothing is watched
  void BeginRound();     // what the file is like now is where the round begins
  void Look();           // now, too; answered once looked() is true
  bool looked() const;

 private:
  class State;
  const std::string path_;
  const std::shared_ptr<State> state_;
};

}  // namespace muster::host
