// The writer thread of a process. It does all writing to standard output and error, including muster's log, and
// reads the workers' pipes where prefixes are used. Output that another thread reads (Follower) reaches it through
// a Feed. So the deciding thread never touches a descriptor that can block.
//
// Thread-safe. Start it before the first spawn. Only Flush waits for a reader that has stopped, and Flush has a
// deadline. If the reader stops, muster's own lines are dropped and counted; a worker's pipe stays unread, so that
// the worker waits, as it would without muster, and loses no line (AdoptBoundedPipe differs). A descriptor that
// cannot be written for now (no space left) is retried; what does not fit meanwhile is lost and counted, and the
// loss is reported there when writing works again, or at the end on standard error.
//
// On a terminal, each line that redraws itself has a row at the bottom. Where GroupLines was called, what several
// ranks write at once is shown once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/console/line_assembler.h"
#include "base/console/line_groups.h"
#include "base/console/output_tail.h"

namespace muster {

inline constexpr size_t kMaxWriterBytes = 1024 * 1024;  // queued bytes per output; further log lines are dropped
inline constexpr size_t kPausePipesBytes = 256 * 1024;  // queued bytes at which workers' pipes are no longer read
inline constexpr absl::Duration kFlushLimit = absl::Seconds(2);
inline constexpr absl::Duration kRetryOutput = absl::Seconds(1);  // pause after a failed write (a full disk)
inline constexpr size_t kKeptWhileFailing = 64 * 1024;            // approximate bytes queued for a failing output

using ByteCount = std::shared_ptr<std::atomic<uint64_t>>;

// Who else gets what a worker's pipe carries.
struct PipeTaps {
  std::shared_ptr<OutputTail> tail = nullptr;
  ByteCount bytes = nullptr;  // counts them
};

class Writer {
 private:
  struct State;

 public:
  // Accepts workers' lines from another thread. May outlive the writer: its lines are discarded then. Thread-safe.
  class Feed {
   public:
    // False: enough is queued for fd, or writing to it fails for now. Show() accepts lines in any case.
    bool HasRoom(int fd) const;
    // pieces: output of a LineAssembler. origin: its source is a number for the worker's stream, from NewSource().
    void Show(int fd, const LineOrigin& origin, std::string_view pieces) const;
    int NewSource() const;
    // Sets an event descriptor (borrowed) that is signalled when there is room again. It must outlive every Feed.
    void RingForRoom(int event_fd) const;
    // Whether redraws pass: fd is a terminal, or LetRedrawsPass was called for it.
    bool Redraws(int fd) const;
    // Bytes written so far to all descriptors together, to detect progress.
    uint64_t Written() const;

   private:
    friend class Writer;
    explicit Feed(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  Writer();
  ~Writer();  // flushes for kFlushLimit at most, unless FlushLast was called
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Not OK: it got no thread or no descriptor, and must not be used.
  const absl::Status& status() const { return status_; }

  // Declares that the reader of fd, which is no terminal, separates pieces at carriage returns and shows them on a
  // terminal (`muster local`). For other readers, a newline separates such a piece from the next source's line.
  void LetRedrawsPass(int fd);

  // What several ranks write to fd at once is shown once (line_groups.h). ranks: those that this process starts.
  void GroupLines(int fd, int ranks);

  // Queues complete lines for descriptor fd (borrowed). False: dropped, and counted for a later message.
  bool Write(int fd, std::string lines);

  // Takes ownership of the reading end of a pipe and shows its lines on out_fd, each behind `prefix`, until the
  // pipe ends. limit: for the rank's redraws; nullptr: redraws pass. rank: the worker's, for GroupLines.
  void AdoptPipe(int pipe_fd, int out_fd, std::string prefix, std::shared_ptr<RedrawLimit> limit = nullptr,
                 PipeTaps taps = {}, int rank = kNoRank);

  // The same without a prefix, and without a change: whatever comes is passed on at once, unfinished lines and
  // redraws as well, as if the worker wrote to out_fd itself.
  void AdoptRawPipe(int pipe_fd, int out_fd, PipeTaps taps);

  // The same for a process that must neither wait for out_fd's reader nor flood it: the pipe is always read.
  // Output beyond most_bytes (prefixes included; at most one read more), or without room in the queue, is left out
  // and counted in a line at the pipe's end.
  void AdoptBoundedPipe(size_t most_bytes, int pipe_fd, int out_fd, std::string prefix,
                        std::shared_ptr<OutputTail> tail);

  Feed feed() const { return Feed(state_); }

  // Waits until everything queued is written or, after one more attempt, reported as lost, and every adopted pipe
  // has ended. False: not within the limit.
  bool Flush(absl::Duration limit);

  // The last Flush: the destructor does not flush again. May be called repeatedly, to wait in slices.
  bool FlushLast(absl::Duration limit);

 private:
  const std::shared_ptr<State> state_;  // shared with the thread, which may be stuck in a write at destruction
  absl::Status status_;
  bool flushed_last_ = false;
};

}  // namespace muster
