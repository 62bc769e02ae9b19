// Watches for the announcement of this machine's end: queries a metadata server (notice.h), or checks a file. It
// uses separate threads, since server and file system may not respond. Lives on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/io/event_loop.h"
#include "muster/v1/host.pb.h"

namespace muster::agent {

inline constexpr absl::Duration kNoticeFilePeriod = absl::Seconds(1);

class NoticeWatch {
 public:
  // noticed: called on the loop thread, at least once for a notice, with the reason for people.
  NoticeWatch(EventLoop* loop, v1::NoticeSource source, std::function<void(const std::string&)> noticed);
  ~NoticeWatch();
  NoticeWatch(const NoticeWatch&) = delete;
  NoticeWatch& operator=(const NoticeWatch&) = delete;

  absl::Status Start();  // not OK: some or all of the notices are not watched

 private:
  class State;
  const std::shared_ptr<State> state_;
};

// Stores the state of the file of `source`, if it has one, at the start of the node, to detect later changes. May
// block as a file system does. FailedPrecondition: the path is a folder, which cannot serve as a notice.
absl::Status TakeFileAsItIs(v1::NoticeSource* source);

}  // namespace muster::agent
