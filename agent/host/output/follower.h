// The third thread of a host, there where workers write to files: shows the lines of those that are tee'd as they
// grow, copies those that match a filter, and keeps all files within their bounds (bounded_file.h).
//
// A reader of the console that stops stops only this: the worker has its file, and memory is bounded by what the
// writer queues and one piece of each file. A file that is quiet is watched by inotify and costs nothing; one that
// grows is polled, so that its worker does not pay for a notice at each write. Where no watch can be had (the
// limit of the user is reached) quiet files are polled too.
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
#include "base/console/writer.h"
#include "base/io/owned_fd.h"

namespace muster::host {

// A file for the lines of all ranks that contain one of some texts. The follower's thread.
class FilteredLines {
 public:
  FilteredLines(OwnedFd fd, std::string path, std::vector<std::string> texts);
  // Whole lines with their prefix, which is copied but not searched, as torchrun does.
  void Take(std::string_view lines, size_t prefix_size);

 private:
  const OwnedFd fd_;
  const std::string path_;
  const std::vector<std::string> texts_;
  bool failed_ = false;  // said so
};

struct FollowedFile {
  std::unique_ptr<BoundedFile> file;
  OwnedFd worker_end;                       // closed here: on a network file system that may take its time
  int out_fd = -1;                          // its lines are shown there; -1: it is only kept within its bounds
  std::string prefix;                       // of each line
  std::shared_ptr<RedrawLimit> redraws;     // nullptr: they pass
  std::shared_ptr<FilteredLines> filtered;  // nullptr: none
};

class Follower {
 public:
  explicit Follower(Writer::Feed feed);
  ~Follower();  // does not wait: see Drain
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Not OK: there is no thread or descriptor for it, and it must not be used.
  const absl::Status& status() const { return status_; }

  void Follow(FollowedFile file);

  // Nobody writes to the files given so far any more: each is read to its end, shown, and let go. What is given
  // later is shown after them.
  void EndRound();

  // After EndRound: waits until everything is handed to the writer. False: not within the limit.
  bool AwaitDrained(absl::Duration limit);
  // Bytes read and written so far: whether there is progress.
  uint64_t Moved() const;
  // After EndRound: lets the files go as they are, and says in the log what of them was not shown.
  void GiveUp();

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the thread, which may be stuck in the file system when we go
  absl::Status status_;
};

}  // namespace muster::host
