#include "agent/process/core/host_side.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/process/core/container_end.h"
#include "agent/process/core/job_memory.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "base/wire/takeover.h"

namespace muster::agent {

void HostSide::Begin(int64_t lease_deadline_boot_ns) {
  if (lease_deadline_boot_ns != 0) lease_deadline_ = FromBootNanos(lease_deadline_boot_ns);
  order_.set_hold(true);
}

// ---- silence, and the end -----------------------------------------------------------------------------------

void HostSide::OnLinkClosed(BootTime now) {
  watch_.Runs(now, lease_deadline_);
  watch_.LinkClosed(now);
}

void HostSide::OnClosed(BootTime now, Effects* out) {
  watch_.Runs(now, lease_deadline_);
  const bool split = node_.config.split();
  std::string how = split ? HowContainerEnded(node_.host) : "";
  was_suspended_ = node_.host.phase() != v1::HOST_PHASE_IDLE && watch_.WasSuspendedAt(lease_deadline_);
  if (was_suspended_) {
    how = "its lease ended while its machine or job was suspended";
    Say(Severity::kWarning,
        absl::StrCat("the lease ended while this machine or job was suspended (--lease ",
                     absl::FormatDuration(node_.Lease()), ")"),
        out, {.event = events::kLeaseEnded});
  }
  Say(Severity::kWarning,
      split ? absl::StrCat("this node is lost: ", how)
            : absl::StrCat("muster (pid ", node_.host.host_pid(), ") ",
                           how.empty() ? "died unexpectedly" : "was ended by the kernel",
                           "; cleaning up its workers"),
      out, {.event = events::kHostLost});
  BeginEnding(now, how, false, out);
}

void HostSide::BeginEnding(BootTime now, const std::string& how, bool kill_first, Effects* out) {
  watch_.BeginEnding(now, how);
  if (node_.config.split()) return;  // the kernel has ended all of the container
  out->push_back(EndHost{{node_.host.workers().begin(), node_.host.workers().end()}, kill_first});
}

void HostSide::OnSwept(BootTime now, Effects* out) {
  watch_.AllEnded(now, was_suspended_ ? kSuspendedGoneLimit : kGoneLimit);
  Say(Severity::kInfo,
      node_.config.split() ? std::string("every process of the training container has ended")
                           : absl::StrCat("every process of muster (pid ", node_.host.host_pid(),
                                          ") that could be found has ended"),
      out);
}

std::optional<std::string> HostSide::Watch(BootTime now, absl::Duration counted, Effects* out) {
  watch_.Runs(now, lease_deadline_);
  const bool split = node_.config.split();
  if (watch_.ending()) return std::nullopt;
  if (watch_.HasDroppedUs(now)) {
    if (!split) return "a newer agent has taken over";
    // The proof that a container has ended comes once all of its processes have; until then this agent is silent,
    // and the lease runs out meanwhile.
    if (now < lease_deadline_) return std::nullopt;
    return "the host has closed the link, and nothing proves that it has ended";
  }
  if (!node_.Leased()) return std::nullopt;
  watch_.CountSilence(counted);
  if (!watch_.IsSilentFor(node_.Lease() / 2)) return std::nullopt;
  // This agent cannot kill the host; the end of the lease does. A host that goes on takes the next agent.
  if (split) return "the main process of this node does not respond";
  Say(Severity::kWarning,
      absl::StrCat("the main process of this node has not responded for ", absl::FormatDuration(node_.Lease() / 2),
                   "; ending it and everything that it started"),
      out, {.event = events::kHostLost});
  BeginEnding(now, "", true, out);
  return std::nullopt;
}

// ---- the coordinator's directive ----------------------------------------------------------------------------

// The lease of this node ends at the moment when it sent the status that this directive echoes, plus the lease.
void HostSide::ExtendLease(const v1::Directive& directive, std::optional<BootTime> sent) {
  if (!directive.has_lease() || !sent) return;
  const absl::Duration lease = absl::Milliseconds(directive.lease().duration_ms());
  BootTime deadline = *sent + lease;
  if (directive.lease().not_after_boot_ns() != 0) {
    deadline = std::min(deadline, FromBootNanos(directive.lease().not_after_boot_ns()));
  }
  // The host, too, keeps the latest deadline, because a new agent knows only what the host tells it.
  lease_deadline_ = std::max(lease_deadline_, deadline);
}

// Where do the workers stand, which of them must end because of a hang, and what people order.
void HostSide::PassOn(const v1::Directive& directive) {
  order_.set_snapshot(directive.snapshot());
  order_.set_stacks(directive.stacks());
  order_.clear_stacks_of();
  if (directive.has_stacks_of()) order_.set_stacks_of(directive.stacks_of());
  order_.set_learned_silence_ms(directive.learned_silence_ms());
  order_.clear_hang();
  if (directive.has_hang()) *order_.mutable_hang() = directive.hang();
  order_.clear_signal();
  if (directive.has_signal()) *order_.mutable_signal() = directive.signal();
  if (leave_.empty()) leave_ = CutUtf8(OneLine(directive.leave()), kMaxReasonShown);
}

void HostSide::Obey(BootTime now, const v1::Directive& directive, Effects* out) {
  switch (directive.order_case()) {
    case v1::Directive::kWait:
      order_.set_hold(true);
      break;
    case v1::Directive::kRun:
      order_.set_hold(true);
      if (Compare(directive.run().id(), node_.memory.stopped()) > 0) *order_.mutable_start() = directive.run();
      break;
    case v1::Directive::kStop:
      SayStopping(now, directive.stop(), out);
      Stop(CutUtf8(directive.stop().cause(), kMaxReasonShown), directive.stop().grace_ms());
      break;
    case v1::Directive::kVerdict:
      Stop("the verdict", node_.config.shutdown_grace_ms());
      break;
    case v1::Directive::kRelease:
      ExitWith(now, {directive.release().exit_code(), CutUtf8(directive.release().reason(), kMaxReasonShown)},
               false, out);
      break;
    case v1::Directive::kRefused:
    case v1::Directive::ORDER_NOT_SET:
      break;
  }
}

void HostSide::Stop(const std::string& cause, int64_t grace_ms) {
  order_.mutable_stop()->set_cause(cause);
  order_.mutable_stop()->set_grace_ms(grace_ms);
}

void HostSide::SayStopping(BootTime now, const v1::Stop& stop, Effects* out) {
  if (!IsNewStop(stop, node_.memory) || !stop_lines_.Take(now)) return;
  Say(node_.serves() ? Severity::kDebug : Severity::kInfo,
      absl::StrCat("stopping workers: ", CutUtf8(stop.cause(), kMaxReasonShown)), out,
      {.event = events::kRoundStopping});
}

void HostSide::ExitWith(BootTime now, const NodeEnd& end, bool alone, Effects* out) {
  if (exiting()) return;
  v1::Exit* exit = order_.mutable_exit();  // must be complete now: the host obeys the first exit that it receives
  exit->set_exit_code(end.exit_code);
  exit->set_origin("muster");
  exit->set_reason(end.reason);
  exit->set_tells_all(alone || node_.serves());
  if (node_.memory.has_verdict()) {
    *exit->mutable_verdict() = node_.memory.verdict();
    exit->set_origin(node_.memory.verdict().origin());
  }
  if (node_.serves() && !node_.config.single_node()) exit->set_linger_ms(absl::ToInt64Milliseconds(kLinger));
  Tell(now, out);
}

void HostSide::ExitAlone(BootTime now, const std::optional<NodeEnd>& end, Effects* out) {
  if (!end) return;
  if (!node_.memory.has_verdict()) return ExitWith(now, *end, true, out);
  const v1::Verdict& verdict = node_.memory.verdict();
  const bool observer = node_.config.role() == v1::ROLE_OBSERVER;
  ExitWith(now, {observer ? 0 : verdict.exit_code(), verdict.reason()}, true, out);
}

// ---- the host's directive -----------------------------------------------------------------------------------

void HostSide::SetLeave(BootTime now, const std::string& why, Effects* out) {
  if (!leave_.empty()) return;
  leave_ = why;
  Tell(now, out);
}

void HostSide::SetServesOthers(BootTime now, bool others, Effects* out) {
  if (std::exchange(serves_others_, others) != others) Tell(now, out);
}

void HostSide::Tell(BootTime now, Effects* out) {
  if (watch_.ending()) return;
  told_at_ = now;
  v1::HostDirective directive = order_;
  directive.set_agent_number(node_.host.agent_number());
  directive.set_seq(++seq_);
  *directive.mutable_memory() = node_.memory;
  directive.set_leave(leave_);
  directive.set_serves_others(serves_others_);
  if (lease_deadline_ != absl::InfinitePast()) directive.set_lease_deadline_boot_ns(ToBootNanos(lease_deadline_));
  directive.set_lease_ms(absl::ToInt64Milliseconds(node_.Lease()));
  out->push_back(SendToHost{std::move(directive)});
}

void HostSide::TellIfDue(BootTime now, Effects* out) {
  if (now - told_at_ >= LinkBeat(node_.Leased() ? node_.Lease() : absl::ZeroDuration())) Tell(now, out);
}

}  // namespace muster::agent
