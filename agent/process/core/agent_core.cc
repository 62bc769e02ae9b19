#include "agent/process/core/agent_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/process/core/container_end.h"
#include "base/exit_codes.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "base/wire/loopback.h"
#include "base/wire/takeover.h"

namespace muster::agent {
namespace {

constexpr int kMaxExitCode = 255;

}  // namespace

bool MayServe(const v1::NodeConfig& config) {
  return config.serves() == v1::NodeConfig::SERVES_IF_LOCAL ||
         config.serves() == v1::NodeConfig::SERVES_IF_REACHED;
}

const char* TitleOfCoordinator(const v1::NodeConfig& config) {
  return config.coordinator_alone() ? "the coordinator" : "the primary";
}

// ---- the host -----------------------------------------------------------------------------------------------

void AgentCore::OnHostStatus(BootTime now, const v1::HostStatus& status, Effects* out) {
  if (finished_ || host_watch_.ending()) return;
  const bool first = !configured_;
  if (!first && status.dismissed()) return Leave("the host has replaced this agent", out);
  if (first && !status.has_config()) return;
  if (!first && status.seq() <= host_.seq()) return;
  host_ = status;
  host_.clear_config();
  host_watch_.Heard();
  if (first) {
    configured_ = true;
    config_ = status.config();
    memory_ = status.memory();
    if (status.lease_deadline_boot_ns() != 0) lease_deadline_ = FromBootNanos(status.lease_deadline_boot_ns());
    ChooseRole(now, out);
  } else {
    UseHostStatus(now, out);
  }
}

// An agent of a host whose agent has served before serves at once.
void AgentCore::ChooseRole(BootTime now, Effects* out) {
  const bool serves = config_.single_node() || config_.serves() == v1::NodeConfig::SERVES_YES;
  BeginRole(now, serves || (MayServe(config_) && memory_.served()), out);
}

// Each attempt looks the primary's name up, so a name that changes, or resolves late, leads here in the end. While
// the primary's agent alone is being replaced, its host keeps the port.
void AgentCore::OnUnanswered(BootTime, bool is_here, bool port_is_free, Effects* out) {
  const bool leaves = finished_ || host_watch_.ending() || order_.has_exit();
  if (!MayServe(config_) || memory_.served() || leaves || is_candidate_) return;
  owns_address_ = is_here;
  // A node that has followed a coordinator knows that the address leads elsewhere.
  const bool may_be_meant = config_.serves() == v1::NodeConfig::SERVES_IF_REACHED && !IsSet(memory_.epoch());
  if (is_here ? port_is_free : may_be_meant) out->push_back(ClaimPort{});
}

// The process that gets the port is the primary; the others on this machine are its members. If the port cannot be
// had for another reason, this is the primary, and each Connect tries again.
void AgentCore::OnPortClaimed(BootTime now, bool used_by_other, Effects* out) {
  if (finished_ || used_by_other) return;
  if (owns_address_) return Serve(now, out);
  is_candidate_ = true;
  Say(Severity::kInfo,
      absl::StrCat(config_.primary().host(),
                   " is no address of this machine, and no primary answers there; this node, node 0, serves if "
                   "that address leads to it all the same (NAT, a load balancer)"),
      out);
}

void AgentCore::OnReached(BootTime now, Effects* out) {
  if (!finished_ && is_candidate_) Serve(now, out);
}

void AgentCore::Serve(BootTime now, Effects* out) {
  is_candidate_ = false;
  memory_.set_served(true);
  link_.Down("", now);
  out->push_back(TakeRole{.serves = true, .was_in_job = link_.ever_up()});
  WatchCoordinator(now, out);
  TellHost(now, out);
}

void AgentCore::WithdrawCandidate(Effects* out) {
  if (std::exchange(is_candidate_, false)) out->push_back(FreePort{});
}

void AgentCore::BeginRole(BootTime now, bool serves, Effects* out) {
  memory_.set_served(serves);
  last_tick_ = now;
  const bool was_in_job = IsSet(memory_.epoch());
  link_.Begin(now, was_in_job);
  order_.set_hold(true);
  host_watch_.Heard();
  out->push_back(TakeRole{.serves = serves, .was_in_job = was_in_job});
  WatchCoordinator(now, out);
  UseHostStatus(now, out);
}

void AgentCore::UseHostStatus(BootTime now, Effects* out) {
  if (host_.flushed()) {
    TellCoordinator(now, out);  // reports that RELEASE is applied, which a closed stream alone does not
    Leave("the main process is about to exit", out);
    return;
  }
  TellIfChanged(now, out);
}

void AgentCore::OnHostLinkClosed(BootTime now, Effects* out) {
  if (!configured_) return Leave("the main process closed the link before this agent had a part in the job", out);
  host_watch_.Runs(now, lease_deadline_);
  host_watch_.LinkClosed(now);
}

void AgentCore::OnHostLives(BootTime, Effects* out) { Leave("the host has replaced this agent", out); }

void AgentCore::OnHostClosed(BootTime now, Effects* out) {
  if (finished_ || host_watch_.ending() || !configured_) return;
  host_watch_.Runs(now, lease_deadline_);
  if (config_.split()) how_host_ended_ = HowContainerEnded(host_);
  was_suspended_ = host_.phase() != v1::HOST_PHASE_IDLE && host_watch_.WasSuspendedAt(lease_deadline_);
  if (was_suspended_) {
    how_host_ended_ = "its lease ended while its machine or job was suspended";
    Say(Severity::kWarning,
        absl::StrCat("the lease ended while this machine or job was suspended (--lease ",
                     absl::FormatDuration(LeaseDuration()), ")"),
        out, {.event = events::kLeaseEnded});
  }
  Say(Severity::kWarning,
      config_.split() ? absl::StrCat("this node is lost: ", how_host_ended_)
                      : absl::StrCat("muster (pid ", host_.host_pid(), ") ",
                                     how_host_ended_.empty() ? "died unexpectedly" : "was ended by the kernel",
                                     "; cleaning up its workers"),
      out, {.event = events::kHostLost});
  if (!config_.split()) return BeginEndingHost(now, false, out);
  host_watch_.BeginEnding(now);
  OnHostSwept(now, out);  // the kernel has ended all of the container
}

void AgentCore::BeginEndingHost(BootTime now, bool kill_first, Effects* out) {
  host_watch_.BeginEnding(now);
  out->push_back(EndHost{{host_.workers().begin(), host_.workers().end()}, kill_first});
}

void AgentCore::OnHostSwept(BootTime now, Effects* out) {
  if (finished_ || host_watch_.gone()) return;
  host_watch_.AllEnded(now, was_suspended_ ? kSuspendedGoneLimit : kGoneLimit);
  Say(Severity::kInfo,
      config_.split()
          ? std::string("every process of the training container has ended")
          : absl::StrCat("every process of muster (pid ", host_.host_pid(), ") that could be found has ended"),
      out);
  const bool left = host_.leave().signal() != 0 && host_.phase() == v1::HOST_PHASE_IDLE;
  if (left || host_.flushed()) {  // the host ended in order, so the coordinator need not be told
    Leave("the main process has ended in order", out);
    return;
  }
  TellCoordinator(now, out);
  host_watch_.ToldAs(sent_.last_seq());
}

// Does not report HOST_GONE, which would be taken as proof: the coordinator waits for the lease of this node.
void AgentCore::OnHostNotSwept(BootTime, const std::string& left, Effects* out) {
  if (finished_ || host_watch_.gone()) return;
  Say(Severity::kError,
      absl::StrCat("the main process of this node died; processes that it had started could not be ended: ", left),
      out);
  Leave("processes that the main process had started could not be ended", out);
}

void AgentCore::WatchHost(BootTime now, absl::Duration counted, Effects* out) {
  if (host_watch_.ending()) return;
  if (host_watch_.HasDroppedUs(now)) {
    if (!config_.split()) return Leave("a newer agent has taken over", out);
    // The proof that a container has ended comes once all of its processes have; until then this agent is silent,
    // and the lease runs out meanwhile.
    if (now >= lease_deadline_) Leave("the host has closed the link, and nothing proves that it has ended", out);
    return;
  }
  if (!Leased()) return;
  host_watch_.CountSilence(counted);
  if (!host_watch_.IsSilentFor(LeaseDuration() / 2)) return;
  // It cannot be killed from here; the end of its lease ends it. A host that goes on takes the next agent.
  if (config_.split()) return Leave("the main process of this node does not respond", out);
  Say(Severity::kWarning,
      absl::StrCat("the main process of this node has not responded for ",
                   absl::FormatDuration(LeaseDuration() / 2), "; ending it and everything that it started"),
      out, {.event = events::kHostLost});
  BeginEndingHost(now, true, out);
}

void AgentCore::TellHost(BootTime now, Effects* out) {
  if (host_watch_.ending()) return;
  host_told_at_ = now;
  v1::HostDirective directive = order_;
  directive.set_agent_number(host_.agent_number());
  directive.set_seq(++host_directive_seq_);
  *directive.mutable_memory() = memory_;
  directive.set_leave(leave_);
  directive.set_serves_others(serves_others_);
  if (lease_deadline_ != absl::InfinitePast()) directive.set_lease_deadline_boot_ns(ToBootNanos(lease_deadline_));
  directive.set_lease_ms(absl::ToInt64Milliseconds(LeaseDuration()));
  out->push_back(SendToHost{std::move(directive)});
}

void AgentCore::OnServesOthers(BootTime now, bool others, Effects* out) {
  if (!configured_ || finished_ || serves_others_ == others) return;
  serves_others_ = others;
  TellHost(now, out);
}

void AgentCore::ExitWith(BootTime now, int code, const std::string& reason, bool alone, Effects* out) {
  if (order_.has_exit()) return;
  v1::Exit* exit = order_.mutable_exit();  // must be complete now: the host obeys the first exit that it receives
  exit->set_exit_code(code);
  exit->set_origin("muster");
  exit->set_reason(reason);
  exit->set_tells_all(alone || memory_.served());
  if (memory_.has_verdict()) {
    *exit->mutable_verdict() = memory_.verdict();
    exit->set_origin(memory_.verdict().origin());
  }
  if (memory_.served() && !config_.single_node()) exit->set_linger_ms(absl::ToInt64Milliseconds(kLinger));
  TellHost(now, out);
}

void AgentCore::ExitAlone(BootTime now, int code, const std::string& reason, Effects* out) {
  if (!memory_.has_verdict()) return ExitWith(now, code, reason, true, out);
  const bool observer = config_.role() == v1::ROLE_OBSERVER;
  ExitWith(now, observer ? 0 : memory_.verdict().exit_code(), memory_.verdict().reason(), true, out);
}

void AgentCore::Leave(const std::string& reason, Effects* out) {
  if (finished_) return;
  finished_ = true;
  if (link_.up()) out->push_back(Disconnect{});
  out->push_back(ExitAgent{.exit_code = 0, .reason = reason});
}

// ---- the coordinator ----------------------------------------------------------------------------------------

void AgentCore::OnConnected(BootTime now, const std::string& local_address, Effects* out) {
  if (finished_ || !configured_) return;
  link_.Up(now);
  sent_.BeginSession();
  if (!local_address.empty()) local_address_ = local_address;
  TellCoordinator(now, out);
}

void AgentCore::OnLocalAddress(BootTime now, const std::string& address, Effects* out) {
  if (finished_ || !configured_ || address.empty()) return;
  // A loopback address, from a member on this machine, does not tell how other machines reach this node (on Debian
  // a machine's own name resolves to 127.0.1.1).
  if (!local_address_.empty() && (!IsLoopback(local_address_) || IsLoopback(address))) return;
  local_address_ = address;
  TellIfChanged(now, out);
}

void AgentCore::OnDisconnected(BootTime now, const std::string& why, int refused_code, Effects* out) {
  if (finished_) return;
  if (link_.up() && link_lines_.Take(now)) {
    Say(Severity::kWarning, why, out, {.event = events::kCoordinatorLost});
  }
  link_.Down(why, now + delays_.Next(Turn()));
  if (IsAnotherJobs(refused_code)) return link_.Down(why, now + delays_.AfterRefusal(now, Turn()));
  delays_.NoteNotRefused();
  if (refused_code == 0) return;
  if (refused_code != kExitRefused) return ExitAlone(now, refused_code, why, out);
  const bool is_first = link_.NoteRefused(now);
  const bool is_final = memory_.has_verdict() || now - link_.refused_since() >= RefusalPatience();
  if (is_final) return ExitAlone(now, refused_code, why, out);
  if (!is_first) return;
  Say(Severity::kWarning,
      absl::StrCat(why, "; this node tries again for ", absl::FormatDuration(RefusalPatience())), out);
}

absl::Duration AgentCore::RefusalPatience() const {
  return std::min(kRefusalPatience, absl::Milliseconds(config_.join_timeout_ms()) / 4);
}

// The coordinator of its own job refuses a member only with the exit code of that member's failure: it cannot
// start its program. A refusal with 77 comes from another job's coordinator, to which the primary's address or
// name leads now; its own may return at any moment. A node that knows the verdict needs no coordinator any more.
bool AgentCore::IsAnotherJobs(int exit_code) const {
  const bool is_member = IsSet(memory_.epoch()) && !memory_.has_verdict();
  return exit_code == kExitRefused && is_member;
}

// Nothing else of such a directive is applied, because the epoch of another job's coordinator is meaningless here.
// Any program may answer and refuse: a refused node has not succeeded, whatever the code.
void AgentCore::OnRefused(BootTime now, const v1::Refused& refused, Effects* out) {
  if (refused.later()) return TryLater(now, CutUtf8(refused.reason(), kMaxReasonShown), out);
  const bool is_failure = refused.exit_code() > 0 && refused.exit_code() <= kMaxExitCode;
  const int exit_code = is_failure ? refused.exit_code() : kExitRefused;
  const std::string reason = CutUtf8(refused.reason(), kMaxReasonShown);
  if (!IsAnotherJobs(exit_code)) return ExitAlone(now, exit_code, reason, out);
  if (link_.up()) out->push_back(Disconnect{});
  link_.Down(absl::StrCat("another job's coordinator answers at ", ToString(config_.primary()), ": ", reason),
             now + delays_.AfterRefusal(now, Turn()));
}

// Nothing of the ending job is remembered, so that the next one begins without a wait for it.
void AgentCore::TryLater(BootTime now, const std::string& why, Effects* out) {
  if (link_.up()) out->push_back(Disconnect{});
  link_.Down(absl::StrCat(why, ", at ", ToString(config_.primary())), now + delays_.Next(Turn()));
}

// The fields of such a directive may have other meanings. A node that has been in this job keeps its lease and
// waits for a coordinator of its own protocol; a new node exits.
void AgentCore::OnOtherProtocol(BootTime now, uint32_t protocol, Effects* out) {
  const std::string why = absl::StrCat("the coordinator speaks protocol ", protocol, ", this node protocol ",
                                       kProtocol, "; use one version of muster on all nodes");
  if (!IsSet(memory_.epoch())) return ExitAlone(now, kExitRefused, why, out);
  if (!link_.up()) return;
  out->push_back(Disconnect{});
  OnDisconnected(now, why, 0, out);
}

void AgentCore::OnCredentials(BootTime now, const std::vector<std::string>& texts, Effects* out) {
  if (finished_ || !configured_) return;
  memory_.mutable_credentials()->Assign(texts.begin(), texts.end());
  TellHost(now, out);
}

void AgentCore::OnProbed(BootTime now, const std::string& process, bool dead, Effects* out) {
  if (finished_ || !configured_) return;
  if (probe_.OnAnswer(process, dead)) TellIfChanged(now, out);
}

void AgentCore::OnNotice(BootTime now, const std::string& why, Effects* out) {
  if (finished_ || !configured_ || !leave_.empty()) return;
  leave_ = why;
  TellHost(now, out);
}

void AgentCore::OnTick(BootTime now, Effects* out) {
  if (finished_ || !configured_) return;
  host_watch_.Runs(now, lease_deadline_);
  const absl::Duration counted = std::min(now - last_tick_, kMaxCountedSilence);
  last_tick_ = now;
  link_.CountSilence(counted);
  WatchHost(now, counted, out);
  if (finished_) return;
  WatchCoordinator(now, out);
  if (finished_) return;
  if (host_watch_.TellingIsOverdue(now)) {
    Leave("the coordinator could not be told that the main process has ended", out);
    return;
  }
  if (now - host_told_at_ >= LinkBeat(Leased() ? LeaseDuration() : absl::ZeroDuration())) TellHost(now, out);
  if (link_.up() && now - sent_.last_at() >= Beat()) TellCoordinator(now, out);
  if (std::optional<std::string> line = waiting_.OnTick(now)) {
    Say(Severity::kInfo, *std::move(line), out, {.event = events::kWaiting});
  }
}

// ---- without a coordinator ----------------------------------------------------------------------------------

std::string AgentCore::NameOfCoordinator() const {
  if (config_.single_node()) return "this node's own coordinator";
  return absl::StrCat(TitleOfCoordinator(config_), " at ", ToString(config_.primary()));
}

NodeTurn AgentCore::Turn() const {
  return {.last = &memory_.last(),
          .place_in_line = place_in_line_,
          .lease = Leased() ? LeaseDuration() : absl::ZeroDuration(),
          .lease_deadline = lease_deadline_,
          .give_up_after = CoordinatorTimeout(),
          .reconnect_grace = absl::Milliseconds(config_.reconnect_grace_ms())};
}

void AgentCore::WatchCoordinator(BootTime now, Effects* out) {
  if (link_.HasHungSince(now, kConnectLimit + absl::Seconds(1))) {
    out->emplace_back(std::in_place_type<Disconnect>);
    link_.Down(link_.why_down(), now + delays_.Next(Turn()));
  }
  // If no directive arrives on an open stream for half a lease, try a new connection.
  if (Leased() && link_.IsSilent(now, LeaseDuration() / 2)) {
    out->emplace_back(std::in_place_type<Disconnect>);
    link_.Down(absl::StrCat("no answer from ", NameOfCoordinator(), " on an open connection"),
               now + delays_.Next(Turn()));
  }
  if (link_.IsDue(now)) {
    link_.Connecting(now);
    delays_.NoteAttempt();
    out->emplace_back(std::in_place_type<Connect>);  // GCC 12 takes parts of a moved one for uninitialised
  }
  if (!link_.up() && !order_.has_exit()) {
    SetWaiting(now, WhyNoCoordinator(), out);
    GiveUpOnCoordinator(now, out);
  }
}

absl::Duration AgentCore::CoordinatorTimeout() const {
  if (link_.ever_up()) return absl::Milliseconds(config_.coordinator_timeout_ms());
  return JoinLimit(absl::Milliseconds(config_.join_timeout_ms()), LeaseDuration());
}

const char* AgentCore::OptionOfCoordinatorTimeout() const {
  return link_.ever_up() ? "--coordinator-timeout" : "--join-timeout";
}

// The primary waits for its own port, with other limits (rendezvous/core/port_retry.h).
std::string AgentCore::WhyNoCoordinator() const {
  const std::string& why = link_.why_down();
  std::string what = why.empty() ? absl::StrCat("connecting to ", NameOfCoordinator()) : why;
  if (memory_.served()) return what;
  if (link_.is_refused() && !link_.ever_up()) return what;  // that it gives up soon was said
  return absl::StrCat(what, "; gives up after ", absl::FormatDuration(CoordinatorTimeout()), " (",
                      OptionOfCoordinatorTimeout(), ")");
}

void AgentCore::GiveUpOnCoordinator(BootTime now, Effects* out) {
  if (config_.single_node()) return;  // it lives in this process
  const bool joining = !link_.ever_up();
  const absl::Duration limit = CoordinatorTimeout();
  const bool raised = joining && limit > absl::Milliseconds(config_.join_timeout_ms());
  const absl::Duration silence = joining ? now - FromBootNanos(memory_.joined_boot_ns()) : link_.unheard();
  // While the host is being ended giving up would have no effect: TellHost sends it nothing any more.
  if (silence < limit || host_watch_.ending()) return;
  const bool observer = config_.role() == v1::ROLE_OBSERVER;
  ExitAlone(now, observer && !joining ? 0 : kExitUnavailable,
            absl::StrCat("gave up after ", absl::FormatDuration(limit), " (", OptionOfCoordinatorTimeout(),
                         raised ? ", at least the lease" : "", "): ",
                         link_.why_down().empty() ? absl::StrCat("no answer from ", NameOfCoordinator())
                                                  : link_.why_down()),
            out);
}

// ---- the lease and the beat ---------------------------------------------------------------------------------

bool AgentCore::Leased() const { return !config_.single_node() && LeaseDuration() > absl::ZeroDuration(); }

absl::Duration AgentCore::LeaseDuration() const {
  const int64_t agreed = memory_.settings().lease_ms();
  return absl::Milliseconds(agreed > 0 ? agreed : config_.lease_ms());
}

absl::Duration AgentCore::Beat() const {
  const int64_t agreed = memory_.settings().beat_ms();
  return agreed > 0 ? absl::Milliseconds(agreed) : kDefaultBeat;
}

// ---- waiting ------------------------------------------------------------------------------------------------

void AgentCore::SetWaiting(BootTime now, std::string what, Effects* out) {
  if (std::optional<std::string> line = waiting_.Set(now, std::move(what))) {
    Say(Severity::kInfo, *std::move(line), out, {.event = events::kWaiting});
  }
}

}  // namespace muster::agent
