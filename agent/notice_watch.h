// Watches where the end of this machine is announced: asks a metadata server (core/notice.h says what), or looks
// at a file. By threads of its own, since neither need answer. Lives on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/host/event_loop.h"
#include "muster/v1/host.pb.h"

namespace muster::agent {

inline constexpr absl::Duration kNoticeFilePeriod = absl::Seconds(1);

class NoticeWatch {
 public:
  // `noticed` is called on the loop's thread, at least once for a notice; with why, for people.
  NoticeWatch(EventLoop* loop, v1::NoticeSource source, std::function<void(const std::string&)> noticed);
  ~NoticeWatch();
  NoticeWatch(const NoticeWatch&) = delete;
  NoticeWatch& operator=(const NoticeWatch&) = delete;

  absl::Status Start();  // not OK: nothing, or not all of it, is watched

 private:
  class State;
  const std::shared_ptr<State> state_;
};

// The time of a file that is there and empty, as NoticeSource keeps it; 0 of any other. May block as a file system
// does.
int64_t EmptyFileTime(const std::string& path);

}  // namespace muster::agent
