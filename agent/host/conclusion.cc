#include "agent/host/conclusion.h"

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/host/report/job_end.h"
#include "base/console/log.h"
#include "base/exit_codes.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";

}  // namespace

Conclusion::Conclusion(const Parts& parts, JobEnd about, std::string marker, std::function<void(HostEnd end)> done)
    : parts_(parts),
      job_(std::move(about)),
      marker_(std::move(marker)),
      done_(std::move(done)),
      closing_(parts.loop, parts.output, parts.writer, [this] { RunLastCommand(); }),
      command_(parts.loop, parts.spawner, parts.plan->last_command_limits) {}

void Conclusion::Begin(const Finish& finish) {
  end_ = {finish.exit_code, finish.signal};
  job_.exit_code = finish.exit_code;
  job_.origin = finish.origin;
  job_.reason = finish.reason;
  job_.verdict = finish.verdict;
  job_.last = finish.last;
  job_.restarts = finish.restarts;
  job_.own_failure = finish.own_failure;
  job_.tells_all = finish.tells_all;
  job_.ended = absl::Now();
  TakeLastCommand(finish.last_command);
  if (finish.asked_to_leave) command_.AskToEnd();  // it has not begun: that limits its time
  ReportPlan reports = parts_.plan->report;
  if (!line_.empty()) reports.result_file.clear();  // the sidecar waits for the command, too
  closing_.Begin(reports, job_, {.asked_to_leave = finish.asked_to_leave, .more_follows = !line_.empty()});
}

void Conclusion::Hurry(bool cancel) {
  cancelled_ |= cancel;
  closing_.Hurry();
  command_.AskToEnd();
}

void Conclusion::TakeLastCommand(LastCommand which) {
  if (which == LastCommand::kNone) return;
  const bool success = which == LastCommand::kOnSuccess;
  option_ = success ? "--on-success" : "--on-failure";
  line_ = success ? parts_.plan->on_success : parts_.plan->on_failure;
}

void Conclusion::RunLastCommand() {
  if (line_.empty()) return End();
  Log(Severity::kInfo, kPart, absl::StrCat("running ", option_));
  command_.Start(line_, EnvironmentOfLastCommand(),
                 [this](const LastCommandEnd& end) { OnLastCommandEnded(end); });
}

EnvironmentMap Conclusion::EnvironmentOfLastCommand() const {
  EnvironmentMap environment = EnvironmentOfNode(*parts_.plan, marker_, job_.place);
  environment["MUSTER_EXIT_CODE"] = absl::StrCat(job_.exit_code);
  environment["MUSTER_REASON"] = job_.reason;
  const std::string& report = parts_.plan->report.report_file;
  if (!report.empty()) environment["MUSTER_REPORT"] = ReportPath(report, job_);
  return environment;
}

// After a success the command's failure is that of the node, and its reports are written anew. After a failure it
// changes nothing.
void Conclusion::OnLastCommandEnded(const LastCommandEnd& end) {
  const std::string what =
      absl::StrCat(option_, end.ok() ? " succeeded" : " failed: ", end.ok() ? "" : Describe(end));
  Log(end.ok() ? Severity::kInfo : Severity::kWarning, kPart, what);
  const ReportPlan& plan = parts_.plan->report;
  if (!end.ok() && job_.exit_code == 0) {
    if (cancelled_) end_.signal = SIGINT;  // as when a job is cancelled: a shell ends its loop
    end_.exit_code = job_.exit_code = cancelled_ ? kExitCancelled : end.ExitCode();
    job_.origin = "muster";
    job_.reason = what;
    WriteReports(plan, job_);
  } else {
    WriteReports({.result_file = plan.result_file, .host_id = plan.host_id, .pod = plan.pod}, job_);
  }
  Log(job_.exit_code == 0 ? Severity::kInfo : Severity::kError, kPart, FinalLine(job_),
      {.event = events::kJobEnded});
  SweepAndEnd();
}

void Conclusion::SweepAndEnd() {
  sweeping_ = true;
  parts_.loop->After(kLastSweepLimit, [this] { End(); });
  parts_.sweeper->Sweep();
}

bool Conclusion::OnSwept(const std::string& left) {
  if (sweeping_ && left.empty()) End();
  return sweeping_;
}

void Conclusion::End() {
  if (std::exchange(ended_, true)) return;
  if (sweeping_) parts_.writer->FlushLast(kFlushLimit);  // written since closing_ has flushed
  done_(end_);
}

}  // namespace muster::host
