// The file timer of torch.distributed.elastic.timer: decides which worker has exceeded a timer that it set. Takes
// messages and the time, returns which processes to signal. Pure. Lives on the loop thread.
//
// A timer is identified by (pid, scope). A process that does not release its timer before it expires gets the
// signal that it requested. If the worker which that process is, or descends from, is still alive kTimerGrace
// later, the worker gets SIGKILL: under torchrun an expired timer ends the whole node, so a worker must not hang
// after one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/core/time.h"

namespace muster::host {

inline constexpr size_t kMaxTimerMessage = 4096;                  // bytes: PIPE_BUF, the largest atomic write
inline constexpr size_t kMaxTimers = 4096;                        // on one node
inline constexpr absl::Duration kTimerGrace = absl::Seconds(10);  // between the requested signal and SIGKILL

struct TimerMessage {
  int64_t pid = 0;
  std::string scope;
  absl::Time expires;  // wall clock
  bool release = false;
  int signal = 0;  // not positive: the expiry is only logged
};

// Parses {"version":1,"pid":int,"scope_id":str,"expiration_time":float,"signal":int}. A negative expiration_time
// releases the timer; the default signal is SIGKILL.
absl::StatusOr<TimerMessage> ParseTimerMessage(std::string_view line);

// Splits the bytes from the pipe into messages. A message that is too long is dropped and counted.
class TimerLines {
 public:
  std::vector<std::string> Feed(std::string_view bytes);
  int too_long() const { return too_long_; }

 private:
  std::string pending_;
  bool skipping_ = false;
  int too_long_ = 0;
};

// The process that set a timer: a worker or a descendant of one.
struct TimerOwner {
  int local_rank = 0;
  uint64_t start = 0;  // identifies one process together with the pid: see ProcessInfo
};

struct ExpiredTimer {
  int64_t pid = 0;
  TimerOwner owner;
  std::string scope;
  int signal = 0;  // not positive: log the expiry, send no signal
};

class FileTimer {
 public:
  // Sets or releases a timer. ResourceExhausted: there are kMaxTimers already.
  absl::Status Take(const TimerMessage& message, const TimerOwner& owner);

  struct Due {
    std::vector<ExpiredTimer> expired;  // at most one for each process; all of its timers are removed
    std::vector<int> outlived;          // local ranks of workers still alive kTimerGrace after the signal
  };
  Due Look(absl::Time wall_now, BootTime now);

  void ProcessEnded(int64_t pid);    // removes the timers of this process
  void WorkerEnded(int local_rank);  // removes the timers of this worker and its descendants
  std::vector<int64_t> pids() const;
  bool idle() const { return timers_.empty() && signalled_.empty(); }

 private:
  struct Timer {
    TimerMessage message;
    TimerOwner owner;
  };
  std::map<std::pair<int64_t, std::string>, Timer> timers_;
  std::map<int, BootTime> signalled_;  // end of a worker's grace period, by local rank
};

}  // namespace muster::host
