#include "agent/host/closing.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/console/log.h"
#include "base/core/status_macros.h"
#include "base/exit_codes.h"
#include "base/wire/ids.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";
constexpr absl::Duration kSlice = absl::Milliseconds(10);         // longest delay of a signal
constexpr absl::Duration kGiveUpLimit = absl::Milliseconds(500);  // for the follower to close its files

}  // namespace

Closing::Closing(EventLoop* loop, WorkerOutput* output, Writer* writer, std::function<void()> done)
    : loop_(loop), output_(output), writer_(writer), done_(std::move(done)) {}

std::string FinalLine(const JobEnd& end) {
  return absl::StrCat("exit code ", end.exit_code, " (", end.origin, "): ", end.reason);
}

void Closing::Begin(const ReportPlan& plan, const JobEnd& end, const Circumstances& circumstances) {
  end_ = end;
  plan_ = plan;
  circumstances_ = circumstances;
  reports_.emplace(plan, end);
  const BootTime now = EventLoop::Now();
  deadline_ = now + (circumstances.asked_to_leave ? kLeaveCloseLimit : kCloseLimit);
  reports_until_ = std::min(now + kReportLimit, deadline_ - kHurriedStall);
  moved_ = output_->Moved();
  moved_at_ = now;
  output_->EndRound();
  Go();
}

void Closing::Hurry() {
  const BootTime now = EventLoop::Now();
  deadline_ = std::min(deadline_, now + kHurriedCloseLimit);
  reports_until_ = std::min(reports_until_, deadline_ - kHurriedStall);
  stall_ = kHurriedStall;
}

void Closing::Go() {
  while (Advance()) {
    if (step_ == Step::kFlush) return done_();
    step_ = static_cast<Step>(static_cast<int>(step_) + 1);
    if (step_ == Step::kFlush) WriteFinalLines();
  }
  loop_->After(absl::ZeroDuration(), [this] { Go(); });
}

bool Closing::Advance() {
  switch (step_) {
    case Step::kOutput:
      if (output_->AwaitDrained(kSlice)) return true;
      if (!OutOfTime()) return false;
      output_->GiveUp();
      give_up_until_ = EventLoop::Now() + kGiveUpLimit;
      stall_ = kHurriedStall;  // the reader has had its time
      return true;
    case Step::kGivingUp:
      if (output_->AwaitDrained(kSlice)) return true;
      if (EventLoop::Now() < std::min(give_up_until_, deadline_)) return false;
      Log(Severity::kWarning, kPart,
          "the end of the workers' log files is not shown: the file system does not answer");
      return true;
    case Step::kReports:
      return reports_->Await(kSlice) || EventLoop::Now() >= reports_until_;
    case Step::kFlush:
      return writer_->FlushLast(kSlice) || OutOfTime();
  }
  return true;
}

bool Closing::OutOfTime() {
  const BootTime now = EventLoop::Now();
  const uint64_t moved = output_->Moved();
  if (moved != std::exchange(moved_, moved)) moved_at_ = now;
  return now >= deadline_ || now - moved_at_ >= stall_;
}

NoteSubject Closing::RootCause() const {
  NoteSubject subject{.event = events::kFailureReport};
  const bool is_judged = end_.verdict && end_.verdict->has_root_cause();
  if (!is_judged && !end_.own_failure) return subject;
  const v1::Failure& cause = is_judged ? end_.verdict->root_cause() : *end_.own_failure;
  if (!IsSet(cause.round())) return subject;  // it could not start its program, and had no rank
  subject.rank = cause.rank();
  subject.node_rank = cause.node_rank();
  return subject;
}

void Closing::WriteFailure() {
  if (plan_.told_elsewhere) return;
  if (!PrintsWholeReport(end_, plan_.report_on)) {
    const ReportInBrief brief = BriefReport(end_, ReportPath(plan_.report_file, end_));
    Log(Severity::kError, kPart, brief.cause, RootCause());
    return Log(Severity::kError, kPart, brief.whereabouts, RootCause());
  }
  const std::string report = FailureReport(end_);
  if (!LogsJson()) {
    writer_->Write(STDERR_FILENO, report);
  } else if (!report.empty()) {
    Log(Severity::kError, kPart, report, RootCause());
  }
}

void Closing::WriteFinalLines() {
  WriteFailure();
  Reports::Result result = reports_->Take();
  for (auto& [fd, text] : result.for_streams) writer_->Write(fd, std::move(text));
  for (const std::string& problem : result.problems) Log(Severity::kWarning, kPart, problem);
  // What ended as somebody asked is no error, unless muster had to say more: a result of the job.
  const bool as_asked = circumstances_.asked_to_leave && end_.origin == "muster" && !end_.own_failure &&
                        (!end_.verdict || end_.exit_code == kExitCancelled);
  const Severity severity = end_.exit_code == 0 || as_asked ? Severity::kInfo : Severity::kError;
  if (circumstances_.more_follows) {
    Log(severity, kPart, absl::StrCat("the job has ended with ", FinalLine(end_)));
  } else {
    Log(severity, kPart, FinalLine(end_), {.event = events::kJobEnded});
  }
  moved_at_ = EventLoop::Now();  // the reader gets the full stall limit for these lines
}

}  // namespace muster::host
