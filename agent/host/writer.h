// The second thread of a host: does all writing to standard output and error, our log included, and reads the
// workers' pipes where prefixes were asked for. So the thread that decides never touches a descriptor that can
// block.
//
// Thread-safe. Start it before the first spawn. Nothing here waits for a reader that has stopped, but Flush, which
// has a deadline: our own lines are dropped and counted, a worker's pipe is left unread (the worker waits, as it
// would without us; no line of its is lost).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace muster::host {

inline constexpr size_t kMaxWriterBytes = 1024 * 1024;  // queued of our own lines, for each descriptor
inline constexpr size_t kPausePipesBytes = 256 * 1024;  // queued: workers' pipes are not read meanwhile
inline constexpr absl::Duration kFlushLimit = absl::Seconds(2);

class Writer {
 public:
  Writer();
  ~Writer();  // flushes for kFlushLimit at most
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Whole lines for descriptor fd (borrowed). False: dropped, and counted for a later remark.
  bool Write(int fd, std::string lines);

  // Takes over the reading end of a pipe: its lines go to out_fd, each behind prefix, until its end.
  void Drain(int pipe_fd, int out_fd, std::string prefix);

  // Waits until all that was given is written and every drained pipe has ended. False: not within the limit.
  bool Flush(absl::Duration limit);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the thread, which may be stuck in a write when we go
};

}  // namespace muster::host
