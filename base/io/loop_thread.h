// An event loop with a thread of its own, which ends with this object. What runs on the loop must be destroyed
// first, or on the loop.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "base/io/thread.h"

namespace muster {

class LoopThread {
 public:
  // ResourceExhausted: no descriptors or no thread for it.
  static absl::StatusOr<std::unique_ptr<LoopThread>> Start() {
    auto made = std::unique_ptr<LoopThread>(new LoopThread);
    RETURN_IF_ERROR(made->loop_.status());
    ASSIGN_OR_RETURN(made->thread_, StartThread([loop = &made->loop_] { loop->Run(); }));
    return made;
  }
  ~LoopThread() {
    if (!thread_.joinable()) return;
    loop_.Post([this] { loop_.Stop(); });
    thread_.join();
  }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  EventLoop* loop() { return &loop_; }

  // Runs it on the loop and waits for that. Not from the loop's own thread.
  void Call(const std::function<void()>& function) {
    std::promise<void> done;
    loop_.Post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }

 private:
  LoopThread() = default;

  EventLoop loop_;
  std::thread thread_;
};

}  // namespace muster
