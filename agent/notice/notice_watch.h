// Watches where the end of this machine is announced: asks a metadata server (core/notice.h says what), or looks
// at a file. By threads of its own, since neither need answer. Lives on the loop thread.
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

// What the file of `source`, if it has one, is like when the node begins: by that its change is known. May block
// as a file system does. FailedPrecondition: it is a folder, which is there at every start and says nothing.
absl::Status TakeFileAsItIs(v1::NoticeSource* source);

}  // namespace muster::agent
