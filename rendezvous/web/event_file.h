// The file of a job's events (--events): a JSON line for each, appended as they happen. The file is opened,
// written and closed on another thread, so that no file system makes the job wait. Lives on the loop thread.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/core/allowance.h"
#include "base/core/note.h"
#include "base/core/time.h"
#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxEventFileBytes = 64 * 1024 * 1024;  // a file of that size gets no more
inline constexpr size_t kMaxUnwrittenBytes = 1024 * 1024;       // of lines while the file system does not answer
inline constexpr double kEventComplaintsBurst = 3, kEventComplaintsPerSecond = 1.0 / 600;

class EventFile {
 public:
  // note: logs that events are lost, and why.
  EventFile(std::string path, std::string run_id, std::function<void(const Note&)> note)
      : path_(std::move(path)), run_id_(std::move(run_id)), note_(std::move(note)) {}

  // news: since the last call. To be called now and then, also without any.
  void Write(BootTime now, const v1::Events& news);
  bool IsDone() const { return !writing_ && lines_.empty(); }  // all are in the file, or lost

 private:
  void TakeWritten(BootTime now);
  void Complain(BootTime now, const std::string& why);

  const std::string path_;
  const std::string run_id_;
  const std::function<void(const Note&)> note_;
  std::string lines_;                                 // that wait
  std::optional<std::future<absl::Status>> writing_;  // nullopt: nothing is written now
  bool is_torn_ = false;                              // the file may end within a line
  Allowance complaints_{kEventComplaintsBurst, kEventComplaintsPerSecond};
};

}  // namespace muster::rendezvous
