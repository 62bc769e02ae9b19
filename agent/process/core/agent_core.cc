#include "agent/process/core/agent_core.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/process/core/agent_status.h"
#include "agent/process/core/job_memory.h"
#include "base/wire/ids.h"

namespace muster::agent {

// ---- the port, and the role ---------------------------------------------------------------------------------

// Each attempt looks the primary's name up, so a name that changes, or resolves late, leads here in the end. While
// the primary's agent alone is being replaced, its host keeps the port.
void AgentCore::OnUnanswered(BootTime, bool is_here, bool port_is_free, Effects* out) {
  const bool leaves = finished_ || host_.watch().ending() || host_.exiting();
  const bool is_candidate = node_.role == PortRole::kCandidate;
  if (!MayServe(node_.config) || node_.serves() || leaves || is_candidate) return;
  node_.role = is_here ? PortRole::kOwner : PortRole::kMember;
  // A node that has followed a coordinator knows that the address leads elsewhere.
  const bool may_be_meant =
      node_.config.serves() == v1::NodeConfig::SERVES_IF_REACHED && !IsSet(node_.memory.epoch());
  if (is_here ? port_is_free : may_be_meant) out->push_back(ClaimPort{});
}

// The process that gets the port is the primary; the others on this machine are its members. If the port cannot be
// had for another reason, this is the primary, and each Connect tries again.
void AgentCore::OnPortClaimed(BootTime now, bool used_by_other, Effects* out) {
  if (finished_ || used_by_other || node_.serves()) return;
  const bool is_owner = std::exchange(node_.role, PortRole::kCandidate) == PortRole::kOwner;
  if (is_owner) return OnReached(now, out);
  Say(Severity::kInfo,
      absl::StrCat(node_.config.primary().host(),
                   " is no address of this machine, and no primary answers there; this node, node 0, serves if "
                   "that address leads to it all the same (NAT, a load balancer)"),
      out);
}

void AgentCore::OnReached(BootTime now, Effects* out) {
  if (finished_ || node_.role != PortRole::kCandidate) return;
  coordinator_.ConnectNow(now);
  Begin(now, PortRole::kPrimary, out);
  host_.Tell(now, out);
}

// Once at the start, and once more when a member becomes the primary.
void AgentCore::Begin(BootTime now, PortRole role, Effects* out) {
  node_.role = role;
  node_.memory.set_served(node_.serves());
  // Not push_back: GCC 12 takes parts of a moved effect for uninitialised.
  out->emplace_back(TakeRole{.serves = node_.serves(), .was_in_job = coordinator_.link().ever_up()});
  host_.ExitAlone(now, coordinator_.Watch(now, absl::ZeroDuration(), out), out);
}

// ---- the host -----------------------------------------------------------------------------------------------

void AgentCore::OnHostStatus(BootTime now, const v1::HostStatus& status, Effects* out) {
  if (finished_ || host_.watch().ending()) return;
  const bool first = !configured();
  if (!first && status.dismissed()) return Leave("the host has replaced this agent", out);
  if (first ? !status.has_config() : status.seq() <= node_.host.seq()) return;
  node_.host = status;
  node_.host.clear_config();
  host_.OnStatus();
  if (first) {
    last_tick_ = now;
    node_.config = status.config();
    node_.memory = status.memory();
    host_.Begin(status.lease_deadline_boot_ns());
    coordinator_.Begin(now);
    Begin(now, RoleAtStart(node_.config, node_.memory), out);
  }
  if (!node_.host.flushed()) return coordinator_.TellIfChanged(now, out);
  coordinator_.Tell(now, out);  // reports that RELEASE is applied, which a closed stream alone does not
  Leave("the main process is about to exit", out);
}

void AgentCore::OnHostLinkClosed(BootTime now, Effects* out) {
  if (!configured()) return Leave("the main process closed the link before this agent had a part in the job", out);
  host_.OnLinkClosed(now);
}

void AgentCore::OnHostLives(BootTime, Effects* out) { Leave("the host has replaced this agent", out); }

void AgentCore::OnHostClosed(BootTime now, Effects* out) {
  if (finished_ || host_.watch().ending() || !configured()) return;
  host_.OnClosed(now, out);
  if (node_.config.split()) OnHostSwept(now, out);  // the kernel has ended all of the container
}

void AgentCore::OnHostSwept(BootTime now, Effects* out) {
  if (finished_ || host_.watch().gone()) return;
  host_.OnSwept(now, out);
  const bool left = node_.host.leave().signal() != 0 && node_.host.phase() == v1::HOST_PHASE_IDLE;
  if (left || node_.host.flushed()) {  // the host ended in order, so the coordinator need not be told
    Leave("the main process has ended in order", out);
    return;
  }
  coordinator_.Tell(now, out);
  host_.ReportedAs(coordinator_.sent().last_seq());
}

// Does not report HOST_GONE, which would be taken as proof: the coordinator waits for the lease of this node.
void AgentCore::OnHostNotSwept(BootTime, const std::string& left, Effects* out) {
  if (finished_ || host_.watch().gone()) return;
  Say(Severity::kError,
      absl::StrCat("the main process of this node died; processes that it had started could not be ended: ", left),
      out);
  Leave("processes that the main process had started could not be ended", out);
}

void AgentCore::OnServesOthers(BootTime now, bool others, Effects* out) {
  if (configured() && !finished_) host_.SetServesOthers(now, others, out);
}

void AgentCore::OnCredentials(BootTime now, const std::vector<std::string>& texts, Effects* out) {
  if (finished_ || !configured()) return;
  node_.memory.mutable_credentials()->Assign(texts.begin(), texts.end());
  host_.Tell(now, out);
}

void AgentCore::OnNotice(BootTime now, const std::string& why, Effects* out) {
  if (configured() && !finished_) host_.SetLeave(now, why, out);
}

// ---- the coordinator ----------------------------------------------------------------------------------------

void AgentCore::OnConnected(BootTime now, const std::string& local_address, Effects* out) {
  if (configured() && !finished_) coordinator_.OnConnected(now, local_address, out);
}

void AgentCore::OnLocalAddress(BootTime now, const std::string& address, Effects* out) {
  if (configured() && !finished_) coordinator_.OnLocalAddress(now, address, out);
}

void AgentCore::OnDisconnected(BootTime now, const std::string& why, int refused_code, Effects* out) {
  if (!finished_) host_.ExitAlone(now, coordinator_.OnDisconnected(now, why, refused_code, out), out);
}

void AgentCore::OnProbed(BootTime now, const std::string& process, bool dead, Effects* out) {
  if (configured() && !finished_) coordinator_.OnProbed(now, process, dead, out);
}

void AgentCore::OnDirective(BootTime now, const v1::Directive& directive, Effects* out) {
  if (finished_ || !configured()) return;
  if (directive.has_refused()) {
    return host_.ExitAlone(now, coordinator_.OnRefused(now, directive.refused(), out), out);
  }
  if (directive.protocol() != kProtocol) {
    return host_.ExitAlone(now, coordinator_.OnOtherProtocol(now, directive.protocol(), out), out);
  }
  if (!coordinator_.IsNewer(directive)) return;
  if (node_.role == PortRole::kCandidate) {
    node_.role = PortRole::kMember;
    out->push_back(FreePort{});
  }
  if (!coordinator_.Admit(now, directive, out)) return;
  if (host_.watch().gone()) {
    const bool heard = coordinator_.sent().IsSeen(host_.watch().told_as());
    if (heard) Leave("the coordinator knows that the main process has ended", out);
    return;
  }
  if (!coordinator_.KnowsOrder(directive, out)) return;
  const std::optional<BootTime> sent = coordinator_.WhenSent(directive.echo());
  host_.ExtendLease(directive, sent);
  LearnDirective(now, directive, &node_.memory);
  host_.PassOn(directive);
  if (!host_.exiting()) {
    host_.Obey(now, directive, out);
    LearnOrder(now, directive, PhaseOf(node_.host, false) == v1::PHASE_READY, &node_.memory);
    coordinator_.OnOrder(now, directive, out);
  }
  if (sent) LearnPrimaryEnded(*sent, directive.greatest(), &node_.memory);
  host_.Tell(now, out);
}

// ---- time, and the end --------------------------------------------------------------------------------------

void AgentCore::OnTick(BootTime now, Effects* out) {
  if (finished_ || !configured()) return;
  const absl::Duration counted = std::min(now - last_tick_, kMaxCountedSilence);
  last_tick_ = now;
  if (const std::optional<std::string> why = host_.Watch(now, counted, out)) return Leave(*why, out);
  host_.ExitAlone(now, coordinator_.Watch(now, counted, out), out);
  if (host_.watch().TellingIsOverdue(now)) {
    Leave("the coordinator could not be told that the main process has ended", out);
    return;
  }
  host_.TellIfDue(now, out);
  coordinator_.OnTick(now, out);
}

void AgentCore::Leave(const std::string& reason, Effects* out) {
  if (finished_) return;
  finished_ = true;
  if (coordinator_.link().up()) out->push_back(Disconnect{});
  out->push_back(ExitAgent{.exit_code = 0, .reason = reason});
}

}  // namespace muster::agent
