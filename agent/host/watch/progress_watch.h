// Detects when the training touches its progress file (--progress-file) in a round: when its modification time,
// size or inode changes, or it is created.
//
// The file may be on a network file system, which may not answer for minutes. So a separate thread checks it, once
// a second and on request, and nothing waits for that thread without a limit. The class lives on the loop thread.
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
  // `touched` is called on the loop thread, at most once for each look. path: empty: nothing is watched.
  ProgressWatch(EventLoop* loop, std::string path, std::function<void()> touched);
  ~ProgressWatch();
  ProgressWatch(const ProgressWatch&) = delete;
  ProgressWatch& operator=(const ProgressWatch&) = delete;

  absl::Status Start();  // Errors: no thread could be created; nothing is watched then
  void BeginRound();     // what the file is now counts as untouched
  void Look();           // requests a check now; it is done once looked() is true
  bool looked() const;

 private:
  class State;
  const std::string path_;
  const std::shared_ptr<State> state_;
};

}  // namespace muster::host
