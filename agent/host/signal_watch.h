// The signals that the host handles, as calls on its loop. PrepareProcess() has blocked them. Lives on the loop
// thread.
#pragma once

#include <signal.h>

#include <functional>
#include <set>

#include "absl/status/status.h"
#include "base/io/event_loop.h"

namespace muster::host {

class SignalWatch {
 public:
  explicit SignalWatch(EventLoop* loop) : loop_(loop) {}
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Handled are SIGCHLD, the signals that a terminal, a shell or a scheduler sends, unless this process was
  // started with the signal ignored, and those in `also`. Call it once.
  absl::Status Start(const sigset_t& ignored, const std::set<int>& also,
                     std::function<void(int signal)> on_signal);

 private:
  void Read();

  EventLoop* const loop_;
  std::function<void(int signal)> on_signal_;
  int fd_ = -1;
};

}  // namespace muster::host
