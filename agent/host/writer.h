// The second thread of a host: does all writing to standard output and error, our log included, and reads the
// workers' pipes where prefixes were asked for. So the thread that decides never touches a descriptor that can
// block.
//
// Thread-safe. Start it before the first spawn. Nothing here waits for a reader that has stopped, but Flush, which
// has a deadline: our own lines are dropped and counted, a worker's pipe is left unread (the worker waits, as it
// would without us; no line of its is lost). A descriptor that cannot be written for now (no space left) is tried
// again and again; what does not fit meanwhile is lost, counted, and said there when it works again, or at the end
// on standard error.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace muster::host {

inline constexpr size_t kMaxWriterBytes = 1024 * 1024;  // queued of our own lines, for each descriptor
inline constexpr size_t kPausePipesBytes = 256 * 1024;  // queued: workers' pipes are not read meanwhile
inline constexpr absl::Duration kFlushLimit = absl::Seconds(2);
inline constexpr absl::Duration kRetryOutput = absl::Seconds(1);  // of a descriptor that fails: a full disk, say
inline constexpr size_t kKeptWhileFailing = 64 * 1024;            // bytes queued for it meanwhile, about

class Writer {
 public:
  Writer();
  ~Writer();  // flushes for kFlushLimit at most
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Not OK: there is no thread or descriptor for it; then it writes nothing and must not be used.
  const absl::Status& status() const { return status_; }

  // Whole lines for descriptor fd (borrowed). False: dropped, and counted for a later remark.
  bool Write(int fd, std::string lines);

  // Takes over the reading end of a pipe: its lines go to out_fd, each behind prefix, until its end.
  void Drain(int pipe_fd, int out_fd, std::string prefix);

  // Waits until all that was given is written or, after one more try, lost and said so, and every drained pipe has
  // ended. False: not within the limit.
  bool Flush(absl::Duration limit);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the thread, which may be stuck in a write when we go
  absl::Status status_;
};

}  // namespace muster::host
