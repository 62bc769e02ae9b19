// The end of a round: when all its workers have ended, what it cost, and whether the verdict follows.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/exit_codes.h"
#include "base/held.h"
#include "base/ids.h"
#include "base/text.h"
#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {
namespace {

// "; all 3 allowed restarts are used up (--max-restarts)"
std::string BudgetSpent(int budget, const std::string& what, const std::string& option) {
  const std::string plural = absl::StrCat(what, what.back() == 's' ? "es" : "s");
  if (budget == 0) return absl::StrCat("; no ", what, " is allowed (", option, ")");
  if (budget == 1) return absl::StrCat("; the only allowed ", what, " is used up (", option, ")");
  return absl::StrCat("; all ", budget, " allowed ", plural, " are used up (", option, ")");
}

}  // namespace

void Coordinator::Drain(BootTime now, const std::string& why, Effects* out) {
  drain_cause_ = why;
  long_drain_logged_ = false;
  trouble_at_ = now;
  // Usually 0 already. An earlier drain may have sent a STOP and turned back to recover a greater round.
  for (auto& [id, host] : hosts_) host.stop_seq = 0;
  Enter(State::kDraining, now, why, out);
}

// Whether a host that has not attached since this coordinator started may still hold a lease of the predecessor.
// It may be a member of the reported round, or of a later round that no attached node has heard of: that round's
// RUN may have reached this one host, and other nodes may have its place by now.
bool Coordinator::PredecessorsRoundMayRun(BootTime now) const {
  if (round_owned_by_this_epoch_ || now >= members_known_until_) return false;
  if (PrimaryIsKnownEnded()) {
    std::set<int> accounted = AccountedFor();
    accounted.insert(word_left_->node_rank());
    return static_cast<int>(accounted.size()) < greatest_.node_count();
  }
  return MembersMissing() > 0 || (options_.leased() && had_predecessor_);
}

// Most drains are over within moments: only a noticeable one is logged.
void Coordinator::LogLongDrain(BootTime now, Effects* out) {
  if (long_drain_logged_ || state_ != State::kDraining || now < state_since_ + kNoticeableWait) return;
  long_drain_logged_ = true;
  const std::string round = absl::StrCat("round ", greatest_.id().number(), " ends");
  if (PredecessorsRoundMayRun(now)) {
    const absl::Duration left = absl::Ceil(members_known_until_ - now, absl::Seconds(1));
    return Say(Severity::kInfo,
               absl::StrCat(round, "; waiting up to ", absl::FormatDuration(left),
                            " before the next one: this coordinator has just started, and a node that has not "
                            "reached it may still run an earlier round"),
               out);
  }
  std::vector<std::string> names;
  for (const auto& [id, host] : hosts_) {
    if (HoldsUpDrain(now, host)) names.push_back(NameOf(host));
  }
  if (names.empty()) return;
  Say(Severity::kInfo,
      absl::StrCat(round, "; waiting for workers to stop or leases to expire on ",
                   JoinAtMost(names, kMaxAbsentNamed)),
      out);
}

bool Coordinator::IsDrained(BootTime now, const Host& host) const {
  if (now > host.lease_until && host.stream == 0 && now > host.closed_at + options_.reconnect_grace) return true;
  const v1::Phase phase = host.status.phase();
  if (phase == v1::PHASE_LEAVING) return Idle(host);
  const bool counted = host.stop_seq != 0 && Fresh(host) && host.status.applied().seq() >= host.stop_seq;
  return counted && (phase == v1::PHASE_READY || phase == v1::PHASE_UNUSABLE);
}

// A member that is not drained, or a member of an older round whose workers may still run.
bool Coordinator::HoldsUpDrain(BootTime now, const Host& host) const {
  return host.in_round ? !IsDrained(now, host) : RunsSomething(host) && now <= host.lease_until;
}

bool Coordinator::StepDraining(BootTime now, Effects* out) {
  if (farewell_) return false;  // the next coordinator counts the cost
  const int missing = MembersMissing();
  if (PredecessorsRoundMayRun(now)) return false;
  for (const auto& [id, host] : hosts_) {
    if (HoldsUpDrain(now, host)) return false;
  }
  for (const auto& [id, host] : hosts_) {
    const bool lost = host.in_round && !host.succeeded && host.lost_at != absl::InfiniteFuture();
    if (lost) NoteLoss(host.lost_at, HowLost(host));
  }
  if (std::optional<std::string> ended = HowPrimaryEnded()) {
    NoteLoss(primary_ended_at_, *std::move(ended));
  } else if (missing > 0 && !loss_at_) {
    NoteLoss(WhenLost(now), absl::StrCat("no heartbeat from ", MissingNames(), " since this coordinator started"));
  }
  const std::optional<SeenFailure> cause = FirstCause(Failures());
  const EndCause end = ClassifyEnd(cause);
  counts_ = round_counts_.After(BuildResult(now, end, cause), options_);
  if (!cancelled_on_.empty()) {
    ConcludeWith(now, kExitCancelled, absl::StrCat("cancelled on ", cancelled_on_), out);
    return true;
  }
  if (std::optional<v1::Verdict> verdict = VerdictAfter(end, cause)) {
    Conclude(now, *std::move(verdict), out);
    return true;
  }
  // The first cause that was heard of started the drain and has been logged.
  if (const std::string what = DescribeEnd(end, cause); what != drain_cause_) {
    Say(Severity::kInfo, absl::StrCat("round ", greatest_.id().number(), " ended; root cause: ", what), out,
        {.event = events::kRoundEnded});
  }
  SayWhoIsSetAside(out);
  const bool pauses = end == EndCause::kWorkerFailure;
  pause_ = pauses ? counts_.DelayBeforeNext(options_, NextRandom()) : absl::ZeroDuration();
  not_before_ = now + pause_;
  gathering_since_ = now;
  gathering_is_ours_ = true;
  min_reached_ = absl::InfiniteFuture();
  for (auto& [id, host] : hosts_) host.in_round = host.succeeded = false;
  round_owned_by_this_epoch_ = true;
  Enter(State::kGathering, now, absl::StrCat("drained: ", drain_cause_), out);
  return true;
}

RoundResult Coordinator::BuildResult(BootTime now, EndCause end, const std::optional<SeenFailure>& cause) const {
  RoundResult round;
  round.end = end;
  round.at = now;
  // A coordinator that was down when the failure happened hears of it late.
  const BootTime trouble = cause ? std::min(trouble_at_, cause->at) : trouble_at_;
  round.lasted = std::max(absl::ZeroDuration(), trouble - round_since_);
  round.watched = ProgressWatched();
  round.progressed = SomeProgressed();
  if (end == EndCause::kWorkerFailure) round.culprit = cause->host_id;
  return round;
}

// Describes the root cause, once all reports about this round have arrived.
std::string Coordinator::DescribeEnd(EndCause end, const std::optional<SeenFailure>& cause) const {
  if (end == EndCause::kWorkerFailure) return DescribeFailure(cause->failure);
  return loss_text_.empty() ? drain_cause_ : loss_text_;
}

// The verdict if a budget is used up; nullopt: the next round follows.
std::optional<v1::Verdict> Coordinator::VerdictAfter(EndCause end, const std::optional<SeenFailure>& cause) const {
  v1::Verdict verdict;
  verdict.set_origin("muster");
  const std::string what = DescribeEnd(end, cause);
  if (end == EndCause::kWorkerFailure) {
    SetRootCause(*cause, Failures(), &verdict);
    verdict.set_exit_code(ExitCodeOf(cause->failure));
    if (ProgressWatched() && counts_.idle_failures >= kMaxIdleFailures) {
      verdict.set_exit_code(kExitNoProgress);
      verdict.set_reason(absl::StrCat(what, "; no progress in ", kMaxIdleFailures,
                                      " restarts: the progress file was not touched"));
      return verdict;
    }
    if (counts_.FailuresInWindow(options_) <= options_.max_restarts) return std::nullopt;
    verdict.set_origin("worker");
    verdict.set_reason(absl::StrCat(
        what, options_.max_restarts > 0 ? BudgetSpent(options_.max_restarts, "restart", "--max-restarts") : ""));
    return verdict;
  }
  if (end == EndCause::kNodeLoss && static_cast<int>(counts_.losses.size()) > options_.max_node_losses) {
    verdict.set_exit_code(kExitUnavailable);
    verdict.set_reason(
        absl::StrCat(what, BudgetSpent(options_.max_node_losses, "node loss", "--max-node-losses")));
    return verdict;
  }
  if (options_.max_membership_changes > 0 && counts_.idle_changes > options_.max_membership_changes) {
    verdict.set_exit_code(kExitNoProgress);
    verdict.set_reason(
        absl::StrCat(what, "; no progress in ", options_.max_membership_changes,
                     " membership changes (--max-membership-changes): ",
                     ProgressWatched() ? "the progress file was not touched" : "no round ran for 5 minutes"));
    return verdict;
  }
  return std::nullopt;
}

void Coordinator::SayWhoIsSetAside(Effects* out) const {
  for (const auto& [host_id, until] : counts_.excluded) {
    const auto host = hosts_.find(host_id);
    if (host == hosts_.end() || round_counts_.excluded.count(host_id) > 0) continue;
    Say(Severity::kWarning,
        absl::StrCat(NameOf(host->second), " was the root cause ", options_.exclude_after,
                     options_.exclude_after == 1 ? " time" : " times",
                     " in a row (--exclude-after); excluding it for ", absl::FormatDuration(options_.exclude_for),
                     " unless too few other nodes are ready"),
        out, {.event = events::kNodeSetAside, .node_rank = host->second.round.node_rank()});
  }
}

std::vector<FailureRef> Coordinator::Failures() const {
  std::vector<FailureRef> failures = RefsTo(lost_failures_);
  for (const auto& [id, host] : hosts_) {
    if (!host.in_round || !host.status.has_failure()) continue;
    if (!Same(host.status.failure().round(), greatest_.id())) continue;
    failures.push_back({&host.status.failure(), &id, host.failed_at});
  }
  return failures;
}

// The loss of a node makes its peers' workers fail. These failures are echoes of the loss unless they came more
// than kEchoWindow before it.
EndCause Coordinator::ClassifyEnd(const std::optional<SeenFailure>& cause) const {
  if (loss_at_ && (!cause || *loss_at_ <= cause->at + kEchoWindow)) return EndCause::kNodeLoss;
  if (!cause) return EndCause::kMembership;
  // If no worker failed before the drain started, the round was stopped for another reason, and the failures come
  // from workers that saw their peers end. Any failure counts here, not only the root cause, which need not be the
  // earliest: a signal ranks above an exit code.
  const std::vector<FailureRef> failures = Failures();
  const bool failed_before = std::any_of(failures.begin(), failures.end(), [this](const FailureRef& f) {
    return f.at <= trouble_at_ && !f.failure->after_our_signal();
  });
  return failed_before ? EndCause::kWorkerFailure : EndCause::kMembership;
}

// ---- verdict ------------------------------------------------------------------------------------------------

void Coordinator::ConcludeWith(BootTime now, int exit_code, const std::string& reason, Effects* out) {
  v1::Verdict verdict;
  verdict.set_exit_code(exit_code);
  verdict.set_origin("muster");
  verdict.set_reason(reason);
  Conclude(now, std::move(verdict), out);
}

void Coordinator::Conclude(BootTime now, v1::Verdict verdict, Effects* out) {
  verdict_ = std::move(verdict);
  if (verdict_->digest() == 0) verdict_->set_digest(DigestOf(*verdict_));
  Enter(State::kVerdict, now, absl::StrCat("verdict ", verdict_->exit_code(), ": ", verdict_->reason()), out);
}

bool Coordinator::Acknowledged(const Host& host) const {
  // An unusable host can receive the verdict like any other, but its stuck workers are not waited for.
  return host.status.has_verdict() && (Idle(host) || Unusable(host));
}

bool Coordinator::Released(const Host& host) const {
  return host.release_seq != 0 && Fresh(host) && host.status.applied().seq() >= host.release_seq;
}

bool Coordinator::finished() const {
  return state_ == State::kReleasing && (hosts_.empty() || last_event_ > state_since_ + kReleaseLimit);
}

// The verdict goes to other nodes only once the primary's own host has stored it. Otherwise, if this coordinator
// dies and its successor is cut off from all nodes that know the verdict, the successor could conclude another
// one.
void Coordinator::LookWhetherTheVerdictIsKept() {
  verdict_kept_ = true;
  for (const auto& [id, host] : hosts_) {
    if (host.status.at_primary() && host.stream != 0 && !host.status.has_verdict()) verdict_kept_ = false;
  }
}

bool Coordinator::StepVerdict(Effects* out) {
  // After adopting a verdict from an agent, wait for the other members of its round, which are about to reconnect
  // and must receive it, too.
  if (!round_owned_by_this_epoch_ && MembersMissing() > 0 && last_event_ < members_known_until_) return false;
  for (const auto& [id, host] : hosts_) {
    if (!Acknowledged(host)) return false;
  }
  Enter(State::kReleasing, last_event_, "all nodes have acknowledged the verdict", out);
  return true;
}

}  // namespace muster::rendezvous
