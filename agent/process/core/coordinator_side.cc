#include "agent/process/core/coordinator_side.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/process/core/agent_status.h"
#include "agent/process/core/round_check.h"
#include "base/exit_codes.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "base/wire/loopback.h"
#include "base/wire/ranges.h"
#include "base/wire/takeover.h"

namespace muster::agent {
namespace {

constexpr int kMaxExitCode = 255;

// The coordinator of its own job refuses a member only with the exit code of that member's failure: it cannot
// start its program. A refusal with 77 comes from another job's coordinator, to which the primary's address or
// name leads now; its own may return at any moment. A node that knows the verdict needs no coordinator any more.
bool IsAnotherJobs(int exit_code, const v1::Memory& memory) {
  const bool is_member = IsSet(memory.epoch()) && !memory.has_verdict();
  return exit_code == kExitRefused && is_member;
}

const char* OptionOfTimeout(const CoordinatorLink& link) {
  return link.ever_up() ? "--coordinator-timeout" : "--join-timeout";
}

std::string NameOfCoordinator(const v1::NodeConfig& config) {
  if (config.single_node()) return "this node's own coordinator";
  return absl::StrCat(TitleOfCoordinator(config), " at ", ToString(config.primary()));
}

// How long this agent may be without a coordinator.
absl::Duration CoordinatorTimeout(const NodeRecord& node, const CoordinatorLink& link) {
  if (link.ever_up()) return absl::Milliseconds(node.config.coordinator_timeout_ms());
  return JoinLimit(absl::Milliseconds(node.config.join_timeout_ms()), node.Lease());
}

// How long a node that was never let in tries again after a refusal.
absl::Duration RefusalPatience(const v1::NodeConfig& config) {
  return std::min(kRefusalPatience, absl::Milliseconds(config.join_timeout_ms()) / 4);
}

// The primary waits for its own port, with other limits (rendezvous/core/port_retry.h).
std::string WhyNoCoordinator(const NodeRecord& node, const CoordinatorLink& link) {
  const std::string& why = link.why_down();
  std::string what = why.empty() ? absl::StrCat("connecting to ", NameOfCoordinator(node.config)) : why;
  if (node.serves()) return what;
  if (link.is_refused() && !link.ever_up()) return what;  // that it gives up soon was said
  return absl::StrCat(
      what, "; gives up after ", absl::FormatDuration(CoordinatorTimeout(node, link)), " (", OptionOfTimeout(link),
      ")",
      node.config.has_cannot_start() && !link.ever_up()
          ? "; this node cannot start its program: a job that has not begun ends once the coordinator answers"
          : "");
}

std::optional<NodeEnd> GiveUpOnCoordinator(BootTime now, const NodeRecord& node, const CoordinatorLink& link) {
  if (node.config.single_node()) return std::nullopt;  // it lives in this process
  const bool joining = !link.ever_up();
  const absl::Duration limit = CoordinatorTimeout(node, link);
  const bool raised = joining && limit > absl::Milliseconds(node.config.join_timeout_ms());
  const absl::Duration silence = joining ? now - FromBootNanos(node.memory.joined_boot_ns()) : link.unheard();
  if (silence < limit) return std::nullopt;
  const bool observer = node.config.role() == v1::ROLE_OBSERVER;
  const std::string why =
      link.why_down().empty() ? absl::StrCat("no answer from ", NameOfCoordinator(node.config)) : link.why_down();
  return NodeEnd{observer && !joining ? 0 : kExitUnavailable,
                 absl::StrCat("gave up after ", absl::FormatDuration(limit), " (", OptionOfTimeout(link),
                              raised ? ", at least the lease" : "", "): ", why)};
}

// Empty: the job is over, or the node has its order.
std::string WhyWaiting(const NodeRecord& node, const v1::Wait& wait) {
  if (wait.reason().empty()) return "";
  std::string what = CutUtf8(wait.reason(), kMaxReasonShown);
  if (wait.place_in_line() > 0) absl::StrAppend(&what, "; this node is spare ", wait.place_in_line(), " in line");
  const bool alone = node.config.coordinator_alone();
  if ((node.serves() || alone) && wait.absent_count() > 0) {
    absl::StrAppend(&what, "; missing: ", CutUtf8(absl::StrJoin(wait.absent(), ", "), kMaxReasonShown));
    if (wait.absent_count() > wait.absent_size()) {
      absl::StrAppend(&what, " and ", wait.absent_count() - wait.absent_size(), " more");
    }
  }
  if (!node.serves()) absl::StrAppend(&what, " (reported by ", NameOfCoordinator(node.config), ")");
  return what;
}

}  // namespace

// ---- the session --------------------------------------------------------------------------------------------

void CoordinatorSide::Begin(BootTime now) { link_.Begin(now, IsSet(node_.memory.epoch())); }

void CoordinatorSide::OnConnected(BootTime now, const std::string& local_address, Effects* out) {
  link_.Up(now);
  sent_.BeginSession();
  if (!local_address.empty()) local_address_ = local_address;
  Tell(now, out);
}

void CoordinatorSide::OnLocalAddress(BootTime now, const std::string& address, Effects* out) {
  if (address.empty()) return;
  // A loopback address, from a member on this machine, does not tell how other machines reach this node (on Debian
  // a machine's own name resolves to 127.0.1.1).
  if (!local_address_.empty() && (!IsLoopback(local_address_) || IsLoopback(address))) return;
  local_address_ = address;
  TellIfChanged(now, out);
}

std::optional<NodeEnd> CoordinatorSide::OnDisconnected(BootTime now, const std::string& why, int refused_code,
                                                       Effects* out) {
  if (link_.up() && link_lines_.Take(now)) {
    Say(Severity::kWarning, why, out, {.event = events::kCoordinatorLost});
  }
  link_.Down(why, now + delays_.Next(Turn()));
  if (IsAnotherJobs(refused_code, node_.memory)) {
    link_.Down(why, now + delays_.AfterRefusal(now, Turn()));
    return std::nullopt;
  }
  delays_.NoteNotRefused();
  if (refused_code == 0) return std::nullopt;
  if (refused_code != kExitRefused) return NodeEnd{refused_code, why};
  const absl::Duration patience = RefusalPatience(node_.config);
  const bool is_first = link_.NoteRefused(now);
  const bool is_final = node_.memory.has_verdict() || now - link_.refused_since() >= patience;
  if (is_final) return NodeEnd{refused_code, why};
  if (!is_first) return std::nullopt;
  Say(Severity::kWarning, absl::StrCat(why, "; this node tries again for ", absl::FormatDuration(patience)), out);
  return std::nullopt;
}

void CoordinatorSide::OnProbed(BootTime now, const std::string& process, bool dead, Effects* out) {
  if (probe_.OnAnswer(process, dead)) TellIfChanged(now, out);
}

std::optional<NodeEnd> CoordinatorSide::Watch(BootTime now, absl::Duration counted, Effects* out) {
  link_.CountSilence(counted);
  if (link_.HasHungSince(now, kConnectLimit + absl::Seconds(1))) {
    out->emplace_back(std::in_place_type<Disconnect>);
    link_.Down(link_.why_down(), now + delays_.Next(Turn()));
  }
  // If no directive arrives on an open stream for half a lease, try a new connection.
  if (node_.Leased() && link_.IsSilent(now, node_.Lease() / 2)) {
    Drop(absl::StrCat("no answer from ", NameOfCoordinator(node_.config), " on an open connection"),
         now + delays_.Next(Turn()), out);
  }
  if (link_.IsDue(now)) {
    link_.Connecting(now);
    delays_.NoteAttempt();
    out->emplace_back(std::in_place_type<Connect>);  // GCC 12 takes parts of a moved one for uninitialised
  }
  if (link_.up() || host_.exiting()) return std::nullopt;
  SetWaiting(now, WhyNoCoordinator(node_, link_), out);
  // While the host is being ended giving up would have no effect: HostSide::Tell sends it nothing any more.
  return host_.watch().ending() ? std::nullopt : GiveUpOnCoordinator(now, node_, link_);
}

void CoordinatorSide::Drop(const std::string& why, BootTime retry_at, Effects* out) {
  if (link_.up()) out->emplace_back(std::in_place_type<Disconnect>);
  link_.Down(why, retry_at);
}

NodeTurn CoordinatorSide::Turn() const {
  return {.last = &node_.memory.last(),
          .place_in_line = place_in_line_,
          .lease = node_.Leased() ? node_.Lease() : absl::ZeroDuration(),
          .lease_deadline = host_.lease_deadline(),
          .give_up_after = CoordinatorTimeout(node_, link_),
          .reconnect_grace = absl::Milliseconds(node_.config.reconnect_grace_ms())};
}

void CoordinatorSide::SetWaiting(BootTime now, std::string what, Effects* out, bool lasts) {
  if (std::optional<std::string> line = waiting_.Set(now, std::move(what), lasts)) {
    Say(Severity::kInfo, *std::move(line), out, {.event = events::kWaiting});
  }
}

// ---- directives ---------------------------------------------------------------------------------------------

// Nothing else of such a directive is applied, because the epoch of another job's coordinator is meaningless here.
// Any program may answer and refuse: a refused node has not succeeded, whatever the code.
std::optional<NodeEnd> CoordinatorSide::OnRefused(BootTime now, const v1::Refused& refused, Effects* out) {
  const std::string reason = CutUtf8(refused.reason(), kMaxReasonShown);
  const std::string where = ToString(node_.config.primary());
  if (refused.later()) {
    // Nothing of the ending job is remembered, so that the next one begins without a wait for it.
    Drop(absl::StrCat(reason, ", at ", where), now + delays_.Next(Turn()), out);
    return std::nullopt;
  }
  const bool is_failure = refused.exit_code() > 0 && refused.exit_code() <= kMaxExitCode;
  const int exit_code = is_failure ? refused.exit_code() : kExitRefused;
  if (!IsAnotherJobs(exit_code, node_.memory)) return NodeEnd{exit_code, reason};
  Drop(absl::StrCat("another job's coordinator answers at ", where, ": ", reason),
       now + delays_.AfterRefusal(now, Turn()), out);
  return std::nullopt;
}

// The fields of such a directive may have other meanings. A node that has been in this job keeps its lease and
// waits for a coordinator of its own protocol; a new node exits.
std::optional<NodeEnd> CoordinatorSide::OnOtherProtocol(BootTime now, uint32_t protocol, Effects* out) {
  const std::string why = absl::StrCat("the coordinator speaks protocol ", protocol, ", this node protocol ",
                                       kProtocol, "; use one version of muster on all nodes");
  if (!IsSet(node_.memory.epoch())) return NodeEnd{kExitRefused, why};
  if (!link_.up()) return std::nullopt;
  out->push_back(Disconnect{});
  return OnDisconnected(now, why, 0, out);
}

// The first check follows from the last one, because the applied directive is of the newest epoch. It is kept
// because it states the rule.
bool CoordinatorSide::IsNewer(const v1::Directive& directive) const {
  if (Compare(directive.id().epoch(), node_.memory.epoch()) < 0) return false;
  return Compare(directive.id(), newest_) > 0 && Compare(directive.id(), node_.memory.applied()) > 0;
}

// After an unsound directive the node stays where it is: a coordinator that means it sends a right one. Nothing of
// a wrong one is stored either, because this node would report it, and the right coordinator would refuse the node
// for that; and the right one's ids may be smaller.
bool CoordinatorSide::Admit(BootTime now, const v1::Directive& directive, Effects* out) {
  const std::string where = ToString(node_.config.primary());
  if (link_.TakeReturn() && !node_.config.single_node() && link_lines_.Take(now)) {
    Say(Severity::kInfo,
        absl::StrCat("agent ", node_.host.agent_number(), " has reconnected to the coordinator at ", where), out,
        {.event = events::kCoordinatorFound});
  }
  link_.Heard(now);
  delays_.NoteAnswer();
  const std::string why = WhyUnsound(directive, node_.config.slots());
  if (why.empty()) {
    if (directive.order_case() != v1::Directive::ORDER_NOT_SET) newest_ = directive.id();
    sent_.OnDirective(directive);
    events_.Learn(now, directive);
  } else if (!std::exchange(unsound_directive_reported_, true)) {
    Say(Severity::kError,
        absl::StrCat("ignoring an order that no coordinator gives (", why,
                     "): is this job's coordinator what answers at ", where, "?"),
        out);
  }
  return why.empty();
}

// An unknown order is neither obeyed nor reported as applied, and grants no lease. So the coordinator waits for
// this node's lease instead of relying on something that was not done.
bool CoordinatorSide::KnowsOrder(const v1::Directive& directive, Effects* out) {
  if (directive.order_case() != v1::Directive::ORDER_NOT_SET) return true;
  if (std::exchange(unknown_order_reported_, true)) return false;
  Say(Severity::kWarning,
      "ignoring an order from the coordinator that this version of muster does not know; use one version of "
      "muster on all nodes",
      out);
  return false;
}

void CoordinatorSide::OnOrder(BootTime now, const v1::Directive& directive, Effects* out) {
  if (!directive.has_wait()) return SetWaiting(now, "", out);
  const v1::Wait& wait = directive.wait();
  place_in_line_ = wait.place_in_line();
  const std::string& holder = wait.held_by().process();
  const bool is_here = !holder.empty() && !node_.config.split();
  if (is_here && probe_.Take(now, holder)) out->push_back(Probe{holder});
  const bool lasts = node_.config.role() == v1::ROLE_OBSERVER || place_in_line_ > 0;
  SetWaiting(now, WhyWaiting(node_, wait), out, lasts);
}

// ---- statuses -----------------------------------------------------------------------------------------------

std::optional<BootTime> CoordinatorSide::WhenSent(const v1::StatusId& echo) {
  return sent_.WhenSent(node_.host.agent_number(), echo);
}

v1::AgentStatus CoordinatorSide::MakeStatus() const {
  return agent::MakeStatus(node_, host_.watch(), local_address_, probe_.dead());
}

void CoordinatorSide::Tell(BootTime now, Effects* out) {
  // While it is open whether the host in another container has ended, nothing can be said of it.
  const HostWatch& watch = host_.watch();
  const bool open = node_.config.split() && watch.link_closed() && !watch.gone();
  if (!link_.up() || open) return;
  v1::AgentStatus status = MakeStatus();
  const std::string digest = DigestOf(status, node_.host);
  AddMoments(now, node_, &status);
  AddForThisSession(now, &status);
  sent_.Stamp(now, node_.host.agent_number(), digest, &status);
  out->push_back(SendToCoordinator{std::move(status)});
}

void CoordinatorSide::TellIfChanged(BootTime now, Effects* out) {
  if (link_.up() && DigestOf(MakeStatus(), node_.host) != sent_.last_digest()) Tell(now, out);
}

void CoordinatorSide::OnTick(BootTime now, Effects* out) {
  if (link_.up() && now - sent_.last_at() >= node_.Beat()) Tell(now, out);
  if (std::optional<std::string> line = waiting_.OnTick(now)) {
    Say(Severity::kInfo, *std::move(line), out, {.event = events::kWaiting});
  }
}

// Adds what the coordinator needs once in a session: to every status until a directive of this session has
// arrived.
void CoordinatorSide::AddForThisSession(BootTime now, v1::AgentStatus* status) const {
  const HostWatch& watch = host_.watch();
  if (watch.gone()) status->set_host_gone_ms(absl::ToInt64Milliseconds(watch.EndedAgo(now)));
  if (sent_.SessionIsSeen()) return;
  *status->mutable_facts() = node_.config.facts();
  status->set_connect_ms(WireMilliseconds(absl::Ceil(link_.setup_time(), absl::Milliseconds(1))));
  const v1::Memory& stored = node_.host.memory();
  if (stored.has_verdict()) {
    status->set_verdict_age_ms(WireMilliseconds(now - FromBootNanos(stored.verdict_boot_ns())));
  }
  events_.AddTo(now, status->mutable_events());
  if (!IsSet(newest_.epoch())) return;
  status->set_coordinator_silent_ms(absl::ToInt64Milliseconds(now - link_.last_contact()));
}

}  // namespace muster::agent
