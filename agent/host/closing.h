// The last phase of a host: it shows the rest of the workers' output, writes the reports and flushes the console.
// It runs on the loop in short slices, so signals are handled all the time. One deadline bounds the whole phase,
// whatever the console's reader and the file systems do.
//
// Lives on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "agent/host/output/worker_output.h"
#include "agent/host/report/job_end.h"
#include "base/console/writer.h"
#include "base/core/note.h"
#include "base/io/event_loop.h"

namespace muster::host {

// Time without any progress after which the console's reader is no longer waited for: one that starts late reads
// everything, and `muster run | less` ends.
inline constexpr absl::Duration kReaderStall = absl::Seconds(10);
// Limit of the whole phase, for a reader that is slow but makes progress.
inline constexpr absl::Duration kCloseLimit = absl::Seconds(30);
// Limit of the whole phase in a host that was asked to leave: `docker stop` kills after 10 s, and part of that
// went to notifying the coordinator.
inline constexpr absl::Duration kLeaveCloseLimit = absl::Seconds(4);
// Replacements for kReaderStall and for the time left after a signal.
inline constexpr absl::Duration kHurriedStall = absl::Milliseconds(500);
inline constexpr absl::Duration kHurriedCloseLimit = absl::Milliseconds(1500);

// "exit code 3 (worker): rank 1 on gpu-07 exited with code 3": the last line of a node.
std::string FinalLine(const JobEnd& end);

class Closing {
 public:
  // `output` and `writer` must outlive this object. `done` is called once, from the loop.
  Closing(EventLoop* loop, WorkerOutput* output, Writer* writer, std::function<void()> done);

  struct Circumstances {
    bool asked_to_leave = false;
    bool more_follows = false;  // the last line of this process is still to come
  };
  void Begin(const ReportPlan& plan, const JobEnd& end, const Circumstances& circumstances);

  // Shortens the rest of the phase to kHurriedCloseLimit; for a signal that asks the process to end.
  void Hurry();

 private:
  enum class Step { kOutput, kGivingUp, kReports, kFlush };
  void Go();               // one slice
  bool Advance();          // false: the current step is still waiting
  bool OutOfTime();        // for a step that depends on the console's reader
  void WriteFinalLines();  // reports, problems, and the last line
  void WriteFailure();     // the whole report of a failed job, or where it is
  NoteSubject RootCause() const;

  EventLoop* const loop_;
  WorkerOutput* const output_;
  Writer* const writer_;
  const std::function<void()> done_;

  Step step_ = Step::kOutput;
  std::optional<Reports> reports_;
  JobEnd end_;
  ReportPlan plan_;
  Circumstances circumstances_;
  BootTime deadline_;
  BootTime reports_until_;
  BootTime give_up_until_;
  absl::Duration stall_ = kReaderStall;
  uint64_t moved_ = 0;  // bytes at the last check
  BootTime moved_at_;
};

}  // namespace muster::host
