// The file timer's pipe and its signals: the I/O around core/file_timer.h. Enabled by
// TORCHELASTIC_ENABLE_FILE_TIMER=1 in muster's environment.
//
// Only workers and their descendants are ever signalled, because any process that can write to the pipe (its
// owner's) may name any pid. Lives on the loop thread.
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
  // Called when a timer of this worker has expired, before the signal is sent.
  using OnExpired = std::function<void(int local_rank, const std::string& what)>;
  // Kills a worker that is still alive kTimerGrace after the signal.
  using Kill = std::function<void(int local_rank)>;

  FileTimerPipe(EventLoop* loop, OnExpired on_expired, Kill kill);
  ~FileTimerPipe();  // removes the pipe
  FileTimerPipe(const FileTimerPipe&) = delete;
  FileTimerPipe& operator=(const FileTimerPipe&) = delete;

  // Makes the pipe. If path is empty, or another process reads the pipe there (a node on the same machine), a
  // private temporary pipe is made instead. A pipe without a reader is replaced; any other file at the path is
  // left alone and is an error. Blocks for at most `limit`.
  absl::Status Open(const std::string& path, absl::Duration limit = kTimerOpenLimit);
  const std::string& path() const { return path_; }  // path for workers; empty: not open
  void Hold() { held_ = true; }                      // from now on timers are taken, and none expires

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
  const OnExpired on_expired_;
  const Kill kill_;
  std::shared_ptr<Opened> pipe_;  // nullptr: not open
  std::string path_;
  bool ticking_ = false;
  bool held_ = false;
  bool warned_ = false;
  int too_long_ = 0;
  TimerLines lines_;
  FileTimer timer_;
  std::map<pid_t, int> workers_;  // live workers and their local ranks
};

}  // namespace muster::host
