// The host's third thread, present if workers write to files. It shows the lines of tee'd files as they grow,
// copies lines that match a filter, and keeps all files within their bounds (bounded_file.h).
//
// A console reader that stops blocks only this thread: workers write to their files, and memory is bounded by the
// writer's queue and one chunk of each file. A quiet file is watched by inotify and costs nothing; a growing file
// is polled, so that its worker does not pay for a notification at each write. If inotify watches are exhausted (a
// limit for each user), quiet files are polled, too.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/host/output/bounded_file.h"
#include "base/console/line_assembler.h"
#include "base/console/line_groups.h"
#include "base/console/writer.h"
#include "base/io/owned_fd.h"

namespace muster::host {

// A file that collects the lines of all ranks that contain one of the given texts. Used by the follower's thread.
class FilteredLines {
 public:
  FilteredLines(OwnedFd fd, std::string path, std::vector<std::string> texts);
  // Copies those of these whole lines that match. As in torchrun, the prefix of a line is copied but not searched.
  void Take(std::string_view lines, size_t prefix_size);

 private:
  const OwnedFd fd_;
  const std::string path_;
  const std::vector<std::string> texts_;
  bool failed_ = false;  // a failed write was reported
};

struct FollowedFile {
  std::unique_ptr<BoundedFile> file;
  OwnedFd worker_end;                       // closed by this thread: a network file system may delay that
  int out_fd = -1;                          // stream that shows its lines; -1: the file is only bounded
  std::string prefix;                       // put before each line
  int rank = kNoRank;                       // the worker's
  std::shared_ptr<RedrawLimit> redraws;     // limit for redrawn lines; nullptr: all are shown
  std::shared_ptr<FilteredLines> filtered;  // nullptr: no filter
};

class Follower {
 public:
  explicit Follower(Writer::Feed feed);
  ~Follower();  // does not wait for the thread: see AwaitDrained
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Not OK: no thread or descriptor could be created; this object must not be used then.
  const absl::Status& status() const { return status_; }

  void Follow(FollowedFile file);

  // Call it when nothing writes to the files given so far any more: each is read to its end, shown, and closed.
  // Files given later are shown after them.
  void EndRound();

  // After EndRound: waits until all lines were passed to the writer. False: not within the limit.
  bool AwaitDrained(absl::Duration limit);
  // Bytes read and written so far, as a measure of progress.
  uint64_t Moved() const;
  // After EndRound: closes the files at once and logs how much of them was not shown.
  void GiveUp();

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the thread, which a hanging file system may keep for longer
  absl::Status status_;
};

}  // namespace muster::host
