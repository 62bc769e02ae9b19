// Looks once a second which workers have shown a sign of life: output that passes through muster, a change of
// their log files, of their terminal or of their heartbeat file, a touch of the node's progress file, or a large
// amount of bytes written to anything, as a checkpoint is. Processor time is no sign: who waits for others may
// spin.
//
// It also sees how many steps they make, by the newest number in their lines and by touches of the heartbeat file
// (agent/host/core/step_rates.h).
//
// The files may be on a network file system that does not answer. So one thread looks at them and another one at
// the rest, and nothing waits for either. The class lives on the loop thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/host/core/step_rates.h"
#include "base/console/output_tail.h"
#include "base/console/writer.h"
#include "base/io/event_loop.h"

namespace muster::host {

inline constexpr absl::Duration kLookPeriod = absl::Seconds(1);
// Written within one look by the process that trains: a worker's first one, or the Python that it runs. Threads
// that report figures in the background write less, and go on when the training does not.
inline constexpr uint64_t kBusyBytes = 1024 * 1024;
inline constexpr absl::Duration kFilesAnswer = absl::Seconds(30);  // after that it is said that they do not

class ActivityWatch {
 public:
  // One of its two streams of output, as far as it is seen.
  struct Stream {
    StepSource source = StepSource::kOut;
    std::string file = {};                   // a change of it is a sign; empty: none. It need not exist
    ByteCount bytes = {};                    // that have passed through muster; nullptr: none do
    std::shared_ptr<OutputTail> lines = {};  // the last ones of these; nullptr: none are kept
  };
  struct Worker {
    int local_rank = 0;
    pid_t pid = 0;
    std::vector<Stream> streams = {};
    std::string heartbeat = {};  // the file that it touches; empty: none
    bool on_terminal = false;    // it writes to a terminal: whatever it writes is a sign
  };
  // Called on the loop thread after a look that has found something.
  struct Events {
    std::function<void(const std::set<int>& local_ranks)> showed;  // they have shown a sign since the last look
    std::function<void(const std::vector<StepSeen>& seen)> stepped;
  };

  ActivityWatch(EventLoop* loop, Events events);
  ~ActivityWatch();
  ActivityWatch(const ActivityWatch&) = delete;
  ActivityWatch& operator=(const ActivityWatch&) = delete;

  // Errors: no thread could be created; there are no looks, or not all.
  absl::Status Start();
  // progress_file: of the node, a sign of all workers; empty: none.
  void BeginRound(std::vector<Worker> workers, std::string progress_file);
  void EndRound();

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace muster::host
