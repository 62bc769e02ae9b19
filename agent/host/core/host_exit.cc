#include "agent/host/core/host_exit.h"

#include <csignal>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"

namespace muster::host {

v1::Exit MusterExit(int code, const std::string& reason) {
  v1::Exit exit;
  exit.set_exit_code(code);
  exit.set_origin("muster");
  exit.set_reason(reason);
  return exit;
}

bool HostExit::Decide(const v1::Exit& exit) {
  if (exit_) return false;
  exit_ = exit;
  return true;
}

bool HostExit::Flush(BootTime now) {
  if (waits_since_) return false;
  waits_since_ = now;
  return true;
}

bool HostExit::Lingers(BootTime now, std::optional<BootTime> agent_gone_at) const {
  const BootTime from = agent_gone_at.value_or(*waits_since_ + kLeaveReportLimit);
  return now < from + absl::Milliseconds(exit_->linger_ms());
}

Finish HostExit::MakeFinish(const v1::Leave* leave, const v1::Round& last) const {
  const v1::Exit exit = AskForRetry(*exit_);
  // A shell ends a loop only if the program that got Ctrl-C ends by SIGINT itself.
  const bool by_sigint = leave != nullptr && leave->cancel() && exit.exit_code() == kExitCancelled;
  Finish finish{.exit_code = exit.exit_code(),
                .signal = by_sigint ? SIGINT : 0,
                .origin = exit.origin(),
                .reason = exit.reason(),
                .verdict = {},
                .last = last,
                .asked_to_leave = leave != nullptr};
  if (exit.has_verdict()) {
    finish.verdict = exit.verdict();
    finish.tells_all = exit.verdict().closing_host().empty() || exit.tells_all() || EndsTheJob(*exit_);
  }
  finish.last_command = CommandAfter(*exit_);
  return finish;
}

bool HostExit::EndsTheJob(const v1::Exit& exit) const {
  return exit.has_verdict() && exit.verdict().closing_host() == host_id_;
}

// The verdict names one node. A node that was asked to leave speaks for itself alone, and whoever cancels a job
// knows how it ended.
LastCommand HostExit::CommandAfter(const v1::Exit& exit) const {
  if (!EndsTheJob(exit) || exit.exit_code() != exit.verdict().exit_code()) return LastCommand::kNone;
  if (exit.exit_code() == 0) return LastCommand::kOnSuccess;
  return exit.exit_code() == kExitCancelled ? LastCommand::kNone : LastCommand::kOnFailure;
}

// For a node that was asked to leave, or that lost its peers or coordinator: another run may succeed. Never for a
// failure of a worker.
v1::Exit HostExit::AskForRetry(v1::Exit exit) const {
  const int code = exit.exit_code();
  const bool no_fault = exit.origin() == "muster" && (code == kExitLeft || code == kExitUnavailable);
  if (!no_fault || retryable_exit_code_ == 0) return exit;
  exit.set_exit_code(retryable_exit_code_);
  exit.set_reason(absl::StrCat(exit.reason(), " (", code, ", reported as ", retryable_exit_code_,
                               " so that the platform retries the job)"));
  return exit;
}

}  // namespace muster::host
