// What a directive of the coordinator changes: which ones are obeyed, what is learnt from them, and the orders.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/process/core/agent_core.h"
#include "agent/process/core/round_check.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "base/wire/ranges.h"
#include "base/wire/takeover.h"

namespace muster::agent {

// The first check follows from the last one, because the applied directive is of the newest epoch. It is kept
// because it states the rule.
bool AgentCore::IsNewer(const v1::Directive& directive) const {
  if (Compare(directive.id().epoch(), memory_.epoch()) < 0) return false;
  return Compare(directive.id(), newest_) > 0 && Compare(directive.id(), memory_.applied()) > 0;
}

// An unknown order is neither obeyed nor reported as applied, and grants no lease. So the coordinator waits for
// this node's lease instead of relying on something that was not done.
void AgentCore::OnUnknownOrder(Effects* out) {
  if (std::exchange(unknown_order_reported_, true)) return;
  Say(Severity::kWarning,
      "ignoring an order from the coordinator that this version of muster does not know; use one version of "
      "muster on all nodes",
      out);
}

// The node stays where it is: a coordinator that means it sends a right one. Nothing of a wrong one is stored
// either, because this node would report it, and the right coordinator would refuse the node for that; and the
// right one's ids may be smaller.
bool AgentCore::IsSound(const v1::Directive& directive, Effects* out) {
  std::string why = OutOfRange(directive);
  if (why.empty()) why = WhyImpossible(directive.greatest());
  const int64_t lease_ms = directive.settings().lease_ms();
  const bool is_short = lease_ms != 0 && absl::Milliseconds(lease_ms) < kMinLease;
  if (why.empty() && is_short) why = absl::StrCat("a lease of ", lease_ms, " ms");
  if (why.empty() && directive.has_run()) why = WhyUnsound(directive.run(), config_.slots());
  if (why.empty()) return true;
  if (std::exchange(unsound_directive_reported_, true)) return false;
  Say(Severity::kError,
      absl::StrCat("ignoring an order that no coordinator gives (", why,
                   "): is this job's coordinator what "
                   "answers at ",
                   ToString(config_.primary()), "?"),
      out);
  return false;
}

void AgentCore::OnDirective(BootTime now, const v1::Directive& directive, Effects* out) {
  if (finished_ || !configured_) return;
  if (directive.has_refused()) return OnRefused(now, directive.refused(), out);
  if (directive.protocol() != kProtocol) return OnOtherProtocol(now, directive.protocol(), out);
  if (!IsNewer(directive)) return;
  WithdrawCandidate(out);
  if (link_.TakeReturn() && !config_.single_node() && link_lines_.Take(now)) {
    Say(Severity::kInfo,
        absl::StrCat("agent ", host_.agent_number(), " has reconnected to the coordinator at ",
                     ToString(config_.primary())),
        out, {.event = events::kCoordinatorFound});
  }
  link_.Heard(now);
  delays_.NoteAnswer();
  if (!IsSound(directive, out)) return;
  const bool has_order = directive.order_case() != v1::Directive::ORDER_NOT_SET;
  if (has_order) newest_ = directive.id();
  sent_.OnDirective(directive);
  if (host_watch_.gone()) {
    const bool heard = sent_.IsSeen(host_watch_.told_as());
    if (heard) Leave("the coordinator knows that the main process has ended", out);
    return;
  }
  if (!has_order) return OnUnknownOrder(out);
  ExtendLease(directive);
  *memory_.mutable_epoch() = directive.id().epoch();
  *memory_.mutable_applied() = directive.id();
  if (directive.has_settings()) *memory_.mutable_settings() = directive.settings();
  if (directive.has_greatest()) LearnRound(now, directive.greatest());
  AskHost(directive);
  ApplyOrder(now, directive, out);
  LearnPrimaryEnded(directive);
  TellHost(now, out);
}

// The lease of this node ends at the moment when it sent the status that this directive echoes, plus the lease.
void AgentCore::ExtendLease(const v1::Directive& directive) {
  const std::optional<BootTime> sent = sent_.WhenSent(host_.agent_number(), directive.echo());
  if (!directive.has_lease() || !sent) return;
  const absl::Duration lease = absl::Milliseconds(directive.lease().duration_ms());
  BootTime deadline = *sent + lease;
  if (directive.lease().not_after_boot_ns() != 0) {
    deadline = std::min(deadline, FromBootNanos(directive.lease().not_after_boot_ns()));
  }
  // The host, too, keeps the latest deadline, because a new agent knows only what the host tells it.
  lease_deadline_ = std::max(lease_deadline_, deadline);
}

void AgentCore::LearnRound(BootTime now, const v1::Round& round) {
  const int order = Compare(round.id(), memory_.last().id());
  if (order < 0 || (order == 0 && !(round.has_node_rank() && !memory_.last().has_node_rank()))) return;
  *memory_.mutable_last() = round;
  memory_.mutable_last()->clear_primary_ended();
  memory_.clear_primary_ended_boot_ns();
  memory_.set_last_told_boot_ns(ToBootNanos(now));
}

// The directive was sent after the status that it echoes, however long it was on its way. So the age in it,
// counted back from the sending of that status, gives the earliest possible time.
void AgentCore::LearnPrimaryEnded(const v1::Directive& directive) {
  const v1::Round& round = directive.greatest();
  if (!round.has_primary_ended() || !Same(round.id(), memory_.last().id())) return;
  const std::optional<BootTime> sent = sent_.WhenSent(host_.agent_number(), directive.echo());
  if (!sent) return;
  const BootTime ended = *sent - absl::Milliseconds(round.primary_ended().age_ms());
  const bool known = memory_.last().has_primary_ended();
  const int64_t before = known ? memory_.primary_ended_boot_ns() : ToBootNanos(ended);
  *memory_.mutable_last()->mutable_primary_ended() = round.primary_ended();
  memory_.set_primary_ended_boot_ns(std::max(before, ToBootNanos(ended)));
}

// A brief verdict does not replace the full one with the same digest.
void AgentCore::LearnVerdict(BootTime now, const v1::Verdict& verdict) {
  if (!memory_.has_verdict()) memory_.set_verdict_boot_ns(ToBootNanos(now));
  const bool held = memory_.has_verdict() && memory_.verdict().digest() == verdict.digest();
  if (!verdict.brief() || !held) *memory_.mutable_verdict() = verdict;
}

// About a hang: where do the workers stand, and which of them must end.
void AgentCore::AskHost(const v1::Directive& directive) {
  order_.set_snapshot(directive.snapshot());
  order_.set_learned_silence_ms(directive.learned_silence_ms());
  order_.clear_hang();
  if (directive.has_hang()) *order_.mutable_hang() = directive.hang();
}

void AgentCore::ApplyOrder(BootTime now, const v1::Directive& directive, Effects* out) {
  if (order_.has_exit()) return;  // the host is exiting already
  switch (directive.order_case()) {
    case v1::Directive::kWait:
      order_.set_hold(true);
      ApplyWait(now, directive.wait(), out);
      break;
    case v1::Directive::kRun:
      LearnRound(now, directive.run());
      memory_.set_gathering_since_boot_ns(0);
      SetWaiting(now, "", out);
      order_.set_hold(true);
      if (Compare(directive.run().id(), memory_.stopped()) > 0) *order_.mutable_start() = directive.run();
      break;
    case v1::Directive::kStop:
      ApplyStop(now, directive.stop(), out);
      break;
    case v1::Directive::kVerdict:
      LearnVerdict(now, directive.verdict());
      memory_.set_gathering_since_boot_ns(0);
      SetWaiting(now, "", out);
      order_.mutable_stop()->set_cause("the verdict");
      order_.mutable_stop()->set_grace_ms(config_.shutdown_grace_ms());
      break;
    case v1::Directive::kRelease:
      ExitWith(now, directive.release().exit_code(), CutUtf8(directive.release().reason(), kMaxReasonShown), false,
               out);
      break;
    case v1::Directive::kRefused:
    case v1::Directive::ORDER_NOT_SET:
      break;
  }
}

void AgentCore::ApplyStop(BootTime now, const v1::Stop& stop, Effects* out) {
  const std::string cause = CutUtf8(stop.cause(), kMaxReasonShown);
  // A coordinator stops what this node has been told of. Any other number would keep it from all rounds below.
  const bool is_known = Compare(stop.round(), memory_.last().id()) <= 0;
  if (is_known && Compare(stop.round(), memory_.stopped()) > 0) {
    *memory_.mutable_stopped() = stop.round();
    if (stop_lines_.Take(now)) {
      Say(memory_.served() ? Severity::kDebug : Severity::kInfo, absl::StrCat("stopping workers: ", cause), out,
          {.event = events::kRoundStopping});
    }
  }
  SetWaiting(now, "", out);
  order_.mutable_stop()->set_cause(cause);
  order_.mutable_stop()->set_grace_ms(stop.grace_ms());
}

void AgentCore::ApplyWait(BootTime now, const v1::Wait& wait, Effects* out) {
  // A spare that stands by while a round runs is not gathering.
  const bool gathering = wait.gathering();
  if (!gathering) memory_.set_gathering_since_boot_ns(0);
  place_in_line_ = wait.place_in_line();
  if (gathering && PhaseOf(host_, host_watch_.gone()) == v1::PHASE_READY &&
      memory_.gathering_since_boot_ns() == 0) {
    memory_.set_gathering_since_boot_ns(ToBootNanos(now));
  }
  if (wait.has_held_by()) {
    const std::string& process = wait.held_by().process();
    const bool is_here = !process.empty() && !config_.split();
    if (is_here && probe_.Take(now, process)) out->push_back(Probe{process});
  }
  std::string what = CutUtf8(wait.reason(), kMaxReasonShown);
  if (wait.place_in_line() > 0) absl::StrAppend(&what, "; this node is spare ", wait.place_in_line(), " in line");
  const bool alone = config_.coordinator_alone();
  if ((memory_.served() || alone) && wait.absent_count() > 0) {
    absl::StrAppend(&what, "; missing: ", CutUtf8(absl::StrJoin(wait.absent(), ", "), kMaxReasonShown));
    if (wait.absent_count() > wait.absent_size()) {
      absl::StrAppend(&what, " and ", wait.absent_count() - wait.absent_size(), " more");
    }
  }
  if (!memory_.served()) {
    absl::StrAppend(&what, " (reported by ", TitleOfCoordinator(config_), " at ", ToString(config_.primary()),
                    ")");
  }
  SetWaiting(now, std::move(what), out);
}

}  // namespace muster::agent
