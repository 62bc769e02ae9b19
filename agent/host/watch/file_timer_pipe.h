// The file timer's pipe and its kills: the shell around core/file_timer.h. On where our environment has
// TORCHELASTIC_ENABLE_FILE_TIMER=1.
//
// Only workers, and processes that descend from one, are ever signalled: whoever can write to the pipe (its owner)
// may name any pid. Loop thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/host/core/file_timer.h"
#include "base/io/event_loop.h"

namespace muster::host {

inline constexpr absl::Duration kTimerOpenLimit = absl::Seconds(1);
inline constexpr absl::Duration kTimerTick = absl::Milliseconds(100);  // while there are timers

class FileTimerPipe {
 public:
  // A timer of this worker has expired, or, with `outlived`, its signal was not enough. Told before the kill.
  using Told = std::function<void(int local_rank, const std::string& what)>;
  // Ends a worker that has outlived the signal.
  using Kill = std::function<void(int local_rank)>;

  FileTimerPipe(EventLoop* loop, Told told, Kill kill);
  ~FileTimerPipe();  // removes the pipe
  FileTimerPipe(const FileTimerPipe&) = delete;
  FileTimerPipe& operator=(const FileTimerPipe&) = delete;

  // path empty, or in use by another process (a node of the same machine): a private temporary one. A pipe that
  // nobody reads is replaced, anything else left alone: an error. Waits for file systems, limit at most.
  absl::Status Open(const std::string& path, absl::Duration limit = kTimerOpenLimit);
  const std::string& path() const { return path_; }  // for workers; empty: not open

  void BeginRound();
  void WorkerStarted(int local_rank, pid_t pid);
  void WorkerEnded(int local_rank);

 private:
  struct Opened;
  static absl::StatusOr<Opened> OpenAt(const std::string& path);
  static absl::StatusOr<Opened> MakePipe(const std::string& path);
  static absl::StatusOr<Opened> OpenPrivate();
  static void Remove(const Opened& pipe);

  void Read();
  void Take(const std::string& line);
  void WarnOnce(const std::string& what);
  std::optional<TimerOwner> OwnerOf(pid_t pid) const;
  void Watch();
  void Tick();
  void Signal(const ExpiredTimer& timer);

  EventLoop* const loop_;
  const Told told_;
  const Kill kill_;
  std::shared_ptr<Opened> pipe_;  // nullptr: not open
  std::string path_;
  bool ticking_ = false;
  bool warned_ = false;
  int too_long_ = 0;
  TimerLines lines_;
  FileTimer timer_;
  std::map<pid_t, int> workers_;  // alive, with their local ranks
};

}  // namespace muster::host
