// The last phase of a host: the rest of the workers' output is shown, the reports are written, the console is
// flushed. It runs on the loop in short slices, so signals are heard all the time, and all of it has one deadline,
// whatever the console's reader and the file systems do.
//
// Lives on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/time/time.h"
#include "agent/host/output/worker_output.h"
#include "agent/host/report/job_end.h"
#include "base/console/writer.h"
#include "base/io/event_loop.h"
#include "base/note.h"

namespace muster::host {

// A console's reader that takes nothing for this long is waited for no more. So `muster run | less` ends, too.
inline constexpr absl::Duration kReaderStall = absl::Seconds(2);
// For a reader that is slow but takes something.
inline constexpr absl::Duration kCloseLimit = absl::Seconds(30);
// The whole phase of a host that was asked to leave: `docker stop` kills after 10 s, and the coordinator had to be
// told, too.
inline constexpr absl::Duration kLeaveCloseLimit = absl::Seconds(4);
// The rest of it after a signal.
inline constexpr absl::Duration kHurriedStall = absl::Milliseconds(500);
inline constexpr absl::Duration kHurriedCloseLimit = absl::Milliseconds(1500);

class Closing {
 public:
  // `output` and `writer` outlive it. `done` is called once, from the loop.
  Closing(EventLoop* loop, WorkerOutput* output, Writer* writer, std::function<void()> done);

  bool begun() const { return reports_.has_value(); }
  void Begin(const ReportPlan& plan, const JobEnd& end, bool asked_to_leave);

  // Somebody wants the process to end: the rest gets kHurriedCloseLimit.
  void Hurry();

 private:
  enum class Step { kOutput, kGivingUp, kReports, kFlush };
  void Go();               // one slice
  bool Advance();          // false: the present step waits still
  bool OutOfTime();        // for a step that depends on the console's reader
  void WriteFinalLines();  // reports, problems, and the last line
  NoteSubject RootCause() const;

  EventLoop* const loop_;
  WorkerOutput* const output_;
  Writer* const writer_;
  const std::function<void()> done_;

  Step step_ = Step::kOutput;
  std::optional<Reports> reports_;
  JobEnd end_;
  bool shows_report_ = true;
  bool asked_to_leave_ = false;
  BootTime deadline_;
  BootTime reports_until_;
  BootTime give_up_until_;
  absl::Duration stall_ = kReaderStall;
  uint64_t moved_ = 0;  // bytes, when it was looked last
  BootTime moved_at_;
};

}  // namespace muster::host
