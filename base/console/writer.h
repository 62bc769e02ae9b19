// The second thread of a host: does all writing to standard output and error, our log included, and reads the
// workers' pipes where prefixes were asked for. What others read (a Follower) it takes through a Feed. So the
// thread that decides never touches a descriptor that can block.
//
// Thread-safe. Start it before the first spawn. Nothing here waits for a reader that has stopped, but Flush, which
// has a deadline: our own lines are dropped and counted, a worker's pipe is left unread (the worker waits, as it
// would without us; no line of its is lost; not so with DrainAtMost). A descriptor that cannot be written for now
// (no space left) is tried again and again; what does not fit meanwhile is lost, counted, and said there when it
// works again, or at the end on standard error.
//
// On a terminal lines that redraw themselves have a row each at its bottom.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/console/line_assembler.h"
#include "base/console/stderr_tail.h"

namespace muster {

inline constexpr size_t kMaxWriterBytes = 1024 * 1024;  // queued of our own lines, for each descriptor
inline constexpr size_t kPausePipesBytes = 256 * 1024;  // queued: workers' pipes are not read meanwhile
inline constexpr absl::Duration kFlushLimit = absl::Seconds(2);
inline constexpr absl::Duration kRetryOutput = absl::Seconds(1);  // of a descriptor that fails: a full disk, say
inline constexpr size_t kKeptWhileFailing = 64 * 1024;            // bytes queued for it meanwhile, about

class Writer {
 private:
  struct State;

 public:
  // Workers' lines from another thread, which may outlive the writer: then they go nowhere. Thread-safe.
  class Feed {
   public:
    // False: enough is queued for fd, or it cannot be written for now. Lines are taken all the same.
    bool HasRoom(int fd) const;
    // Pieces of a LineAssembler. source: a number of the worker's stream's own; NewSource() makes one.
    void Show(int fd, int source, std::string_view pieces) const;
    int NewSource() const;
    // An event descriptor, borrowed, that is rung when there is room again. It must live as long as any Feed.
    void RingForRoom(int event_fd) const;
    // Lines that redraw themselves may pass: fd is a terminal, or LetRedrawsPass was called for it.
    bool Redraws(int fd) const;
    // Bytes written so far to all descriptors together: whether there is progress.
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

  // Not OK: there is no thread or descriptor for it; then it writes nothing and must not be used.
  const absl::Status& status() const { return status_; }

  // fd is no terminal, but its reader tells pieces apart that end with a carriage return, and shows them on one
  // (`muster local`). Elsewhere a line of another source would be glued to them, so a newline comes before it.
  void LetRedrawsPass(int fd);

  // Whole lines for descriptor fd (borrowed). False: dropped, and counted for a later remark.
  bool Write(int fd, std::string lines);

  // Takes over the reading end of a pipe: its lines go to out_fd, each behind prefix, until its end. limit: of the
  // rank's redraws where they do not pass; nullptr: they pass. tail: is
  // told what is read; nullptr: nobody is.
  void Drain(int pipe_fd, int out_fd, std::string prefix, std::shared_ptr<RedrawLimit> limit = nullptr,
             std::shared_ptr<StderrTail> tail = nullptr);

  // The same of one who must not wait for out_fd's reader and may not fill it: the pipe is always read, and what
  // is more than most_bytes with the prefixes (one reading more), or finds no room, is left out and counted at its
  // end.
  void DrainAtMost(size_t most_bytes, int pipe_fd, int out_fd, std::string prefix,
                   std::shared_ptr<StderrTail> tail);

  Feed feed() const { return Feed(state_); }

  // Waits until all that was given is written or, after one more try, lost and said so, and every drained pipe has
  // ended. False: not within the limit.
  bool Flush(absl::Duration limit);

  // The same at the very end: the destructor does not flush again. May be called repeatedly, to wait in slices.
  bool FlushLast(absl::Duration limit);

 private:
  const std::shared_ptr<State> state_;  // shared with the thread, which may be stuck in a write when we go
  absl::Status status_;
  bool flushed_last_ = false;
};

}  // namespace muster
