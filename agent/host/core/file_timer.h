// The file timer of torch.distributed.elastic.timer: which worker has outstayed the time it gave itself. Messages
// and time in, kills out. Pure. Loop thread.
//
// A timer is one of (pid, scope). A worker that does not release it by its expiration gets the signal it asked
// for; if it lives on for kTimerGrace, SIGKILL. Nobody else is touched.
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
#include "base/time.h"

namespace muster::host {

inline constexpr size_t kMaxTimerMessage = 4096;                  // bytes of a message: what a pipe takes whole
inline constexpr size_t kMaxTimers = 4096;                        // of one node
inline constexpr absl::Duration kTimerGrace = absl::Seconds(10);  // between the signal asked for and SIGKILL

struct TimerMessage {
  int64_t pid = 0;
  std::string scope;
  absl::Time expires;  // by the wall clock, as the worker reckons
  bool release = false;
  int signal = 0;  // not positive: the expiry is only said
};

// {"version":1,"pid":int,"scope_id":str,"expiration_time":float,"signal":int}; a negative expiration_time is a
// release; without a signal it is SIGKILL.
absl::StatusOr<TimerMessage> ParseTimerMessage(std::string_view line);

// Cuts what comes through the pipe into messages. One that is too long is left out and counted.
class TimerLines {
 public:
  std::vector<std::string> Feed(std::string_view bytes);
  int too_long() const { return too_long_; }

 private:
  std::string pending_;
  bool skipping_ = false;
  int too_long_ = 0;
};

// The process that set a timer: one of our workers, or a descendant of one.
struct TimerOwner {
  int local_rank = 0;
  uint64_t start = 0;  // with the pid it names one process: see ProcessInfo
};

struct ExpiredTimer {
  int64_t pid = 0;
  TimerOwner owner;
  std::string scope;
  int signal = 0;  // not positive: say it, and send nothing
};

class FileTimer {
 public:
  // ResourceExhausted: there are too many already.
  absl::Status Take(const TimerMessage& message, const TimerOwner& owner);

  struct Due {
    std::vector<ExpiredTimer> expired;  // one for each process; all of its timers are gone by it
    std::vector<int> outlived;          // local ranks of workers that outlived the signal
  };
  Due Look(absl::Time wall_now, BootTime now);

  void ProcessEnded(int64_t pid);
  void WorkerEnded(int local_rank);  // it, and with it all that it set
  std::vector<int64_t> pids() const;
  bool idle() const { return timers_.empty() && signalled_.empty(); }

 private:
  struct Timer {
    TimerMessage message;
    TimerOwner owner;
  };
  std::map<std::pair<int64_t, std::string>, Timer> timers_;
  std::map<int, BootTime> signalled_;  // when a worker's grace ends, by local rank
};

}  // namespace muster::host
