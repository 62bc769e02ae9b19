#include "agent/process/core/sidecar_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/one_signal.h"
#include "base/exit_codes.h"

namespace muster::agent {
namespace {

void Say(Severity severity, std::string text, SidecarEffects* out, const char* event = "") {
  out->push_back(Note{severity, std::move(text), {.event = event}});
}

void SayIf(std::optional<std::string> line, SidecarEffects* out) {
  if (line) Say(Severity::kInfo, *std::move(line), out, events::kWaiting);
}

}  // namespace

void SidecarCore::Begin(BootTime now, SidecarEffects* out) { Seek(now, first_wait_, out); }

// ---- the search for a host

void SidecarCore::Seek(BootTime now, absl::Duration limit, SidecarEffects* out) {
  seeking_ = true;
  search_limit_ = limit;
  seeking_since_ = now;
  if (now >= start_not_before_) return Call(now, out);
  next_call_ = start_not_before_;
}

void SidecarCore::Call(BootTime now, SidecarEffects* out) {
  called_at_ = now;
  out->push_back(CallHost{});
}

void SidecarCore::OnWelcome(BootTime now, const std::string& host_id, int retryable_exit_code,
                            SidecarEffects* out) {
  if (finished_) return;
  seeking_ = false;
  called_at_.reset();
  welcomed_ = true;
  host_id_ = host_id;
  retryable_exit_code_ = retryable_exit_code;
  SayIf(waiting_.Set(now, ""), out);
  StartAgent(now, out);
}

void SidecarCore::OnRefused(BootTime, int exit_code, const std::string& why, SidecarEffects* out) {
  if (finished_) return;
  Say(Severity::kError, absl::StrCat("refused by the host at ", socket_, ": ", why), out);
  End(exit_code, out);
}

void SidecarCore::OnNotReached(BootTime now, const std::string& why, const std::optional<HostResult>& left,
                               SidecarEffects* out) {
  if (finished_) return;
  called_at_.reset();
  next_call_ = now + kConnectRetry;
  if (left && !agent_since_ && IsTheEnd(now, *left)) {
    Say(Severity::kInfo, absl::StrCat("the training container has ended with exit code ", left->exit_code), out);
    return End(left->exit_code, out);
  }
  if (asked_at_ && !agent_since_) return End(kExitLeft, out);
  if (now - seeking_since_ >= search_limit_) return GiveUp(why, out);
  SayIf(waiting_.Set(now, absl::StrCat("waiting for the training container: ", why)), out);
}

// The volume outlives the containers, and perhaps the pod, so a result may be of another start of them.
bool SidecarCore::IsTheEnd(BootTime now, const HostResult& left) const {
  if (!host_id_.empty()) return left.host_id == host_id_;
  return left.of_this_pod && left.exit_code == 0 && now >= seeking_since_ + kStrangersResultWait;
}

void SidecarCore::GiveUp(const std::string& why, SidecarEffects* out) {
  Say(Severity::kError, absl::StrCat("gave up after ", absl::FormatDuration(search_limit_), ": ", why), out);
  End(kExitUnavailable, out);
}

// ---- the agent

void SidecarCore::StartAgent(BootTime now, SidecarEffects* out) {
  if (!welcomed_ || agent_since_ || now < start_not_before_) return;
  welcomed_ = false;
  agent_since_ = now;
  link_closed_at_.reset();
  host_ended_at_.reset();
  killed_ = false;
  out->push_back(StartAgentOver{});
}

void SidecarCore::OnAgentNotStarted(BootTime now, const std::string& why, SidecarEffects* out) {
  if (finished_ || !agent_since_) return;
  agent_since_.reset();
  Say(Severity::kError, absl::StrCat("cannot start an agent: ", why), out);
  start_not_before_ = now + kAgentRetry;
  Seek(now, kReturnLimit, out);
}

void SidecarCore::OnAgentEnded(BootTime now, SidecarEffects* out) {
  if (finished_ || !agent_since_) return;
  const bool quick = now < *agent_since_ + kQuickEnd;
  quick_ends_ = quick ? quick_ends_ + 1 : 0;
  if (quick_ends_ >= kQuickEndsInARow) start_not_before_ = now + kAgentRetry;
  agent_since_.reset();
  if (welcomed_) return StartAgent(now, out);
  if (!seeking_) Seek(now, kReturnLimit, out);
}

void SidecarCore::OnLinkClosed(BootTime now, SidecarEffects* out) {
  if (finished_ || !agent_since_ || link_closed_at_) return;
  link_closed_at_ = now;
  if (!seeking_ && !welcomed_) Seek(now, kReturnLimit, out);
}

void SidecarCore::OnHostEnded(BootTime now, SidecarEffects*) {
  if (agent_since_ && !host_ended_at_) host_ended_at_ = now;
}

bool SidecarCore::AgentIsInTheWay(BootTime now) const {
  if (!welcomed_ || !agent_since_) return false;
  if (host_ended_at_) return now >= *host_ended_at_ + kReportLimit;
  return link_closed_at_ && now >= *link_closed_at_ + kLeaveLimit;
}

void SidecarCore::MakeRoom(BootTime now, SidecarEffects* out) {
  if (killed_ || !AgentIsInTheWay(now)) return;
  Say(Severity::kWarning, "the host has closed the link to the agent, and the agent does not end: killing it",
      out);
  killed_ = true;
  out->push_back(KillOwnAgent{});
}

// ---- time, signals, the end

void SidecarCore::OnTick(BootTime now, SidecarEffects* out) {
  if (finished_) return;
  SayIf(waiting_.OnTick(now), out);
  MakeRoom(now, out);
  StartAgent(now, out);
  const bool due = called_at_ ? now >= *called_at_ + kAnswerLimit : now >= next_call_;
  if (seeking_ && due) Call(now, out);
}

// The host hears of the pod's end itself, and needs the agent until it has left the job. So the first request
// waits for the host, and the second one does not.
void SidecarCore::OnEndSignal(BootTime now, const std::string& text, SidecarEffects* out) {
  if (finished_) return;
  if (asked_at_) {
    if (now >= *asked_at_ + kOneSignal) End(kExitLeft, out);
    return;
  }
  asked_at_ = now;
  if (!agent_since_ && !welcomed_) {
    Say(Severity::kInfo, absl::StrCat(text, ": no training container is there; ends"), out);
    return End(kExitLeft, out);
  }
  Say(Severity::kInfo, absl::StrCat(text, ": ends after the training container; a second signal ends it now"),
      out);
}

void SidecarCore::End(int exit_code, SidecarEffects* out) {
  finished_ = true;
  if (agent_since_) out->push_back(KillOwnAgent{});
  const bool retryable = exit_code == kExitUnavailable || exit_code == kExitLeft;
  out->push_back(EndSidecar{retryable && retryable_exit_code_ != 0 ? retryable_exit_code_ : exit_code});
}

}  // namespace muster::agent
