#include "rendezvous/core/budgets.h"

#include <algorithm>
#include <csignal>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/failure.h"
#include "base/signal_name.h"
#include "base/text.h"

namespace muster::rendezvous {

namespace {

void ForgetOld(std::vector<BootTime>* times, BootTime now, absl::Duration window) {
  times->erase(std::remove_if(times->begin(), times->end(), [&](BootTime t) { return now - t >= window; }),
               times->end());
}

}  // namespace

bool MadeProgress(const RoundResult& round) {
  return round.watched ? round.progressed : round.lasted >= kLongRound;
}

RestartLedger RestartLedger::After(const RoundResult& round, const CoordinatorOptions& options) const {
  RestartLedger next = *this;
  next.restart_count += 1;
  ForgetOld(&next.losses, round.at, options.node_loss_window);
  ForgetOld(&next.failure_times, round.at, options.restart_window);
  if (MadeProgress(round)) next.idle_failures = next.idle_changes = 0;
  if (round.lasted >= kFastFailure) next.fast_failures = 0;
  if (round.end == EndCause::kWorkerFailure) {
    next.NoteFailure(round, options);
  } else {
    if (!MadeProgress(round)) next.idle_changes += 1;
    if (round.end == EndCause::kNodeLoss) next.losses.push_back(round.at);
  }
  for (auto it = next.excluded.begin(); it != next.excluded.end();) {
    it = it->second <= round.at ? next.excluded.erase(it) : std::next(it);
  }
  return next;
}

void RestartLedger::NoteFailure(const RoundResult& round, const CoordinatorOptions& options) {
  failures += 1;
  if (options.restart_window < absl::InfiniteDuration()) {
    failure_times.push_back(round.at);
    if (failure_times.size() > kMaxFailureAges) failure_times.erase(failure_times.begin());
  }
  if (round.lasted < kFastFailure) fast_failures += 1;
  const bool was_a_restart = restart_count > 1;  // After() has counted the next restart already
  if (was_a_restart && !MadeProgress(round)) idle_failures += 1;
  culprit_streak = !round.culprit.empty() && round.culprit == culprit ? culprit_streak + 1 : 1;
  culprit = round.culprit;
  if (culprit.empty() || options.exclude_after == 0 || culprit_streak < options.exclude_after) return;
  if (excluded.size() < kMaxExcluded) excluded[culprit] = round.at + options.exclude_for;
  culprit_streak = 0;
}

RestartLedger RestartLedger::MergedWith(const RestartLedger& seen) const {
  RestartLedger result = seen;
  if (losses.size() >= seen.losses.size()) result.losses = losses;
  if (failure_times.size() >= seen.failure_times.size()) result.failure_times = failure_times;
  result.restart_count = std::max(restart_count, seen.restart_count);
  result.failures = std::max(failures, seen.failures);
  return result;
}

int RestartLedger::FailuresInWindow(const CoordinatorOptions& options) const {
  return options.restart_window < absl::InfiniteDuration() ? static_cast<int>(failure_times.size()) : failures;
}

// There is no delay after the first fast failure, restart_delay after the second, and then it doubles. Up to half
// of it is random, so that many jobs that failed for one reason do not restart at the same moment.
absl::Duration RestartLedger::DelayBeforeNext(const CoordinatorOptions& options, uint64_t dice) const {
  if (fast_failures < 2) return absl::ZeroDuration();
  constexpr int kMaxDoublings = 16;
  const absl::Duration full = options.restart_delay * (int64_t{1} << std::min(fast_failures - 2, kMaxDoublings));
  constexpr int64_t kParts = 1000;
  return std::min(full, kMaxRestartDelay) * (kParts + static_cast<int64_t>(dice % kParts)) / (2 * kParts);
}

void RestartLedger::WriteTo(BootTime now, v1::Round* round) const {
  round->set_restart_count(restart_count);
  round->set_failures(failures);
  round->set_fast_failures(fast_failures);
  round->set_idle_failures(idle_failures);
  round->set_idle_changes(idle_changes);
  round->set_culprit(culprit);
  round->set_culprit_streak(culprit_streak);
  WriteAgesTo(now, round);
}

void RestartLedger::WriteAgesTo(BootTime now, v1::Round* round) const {
  round->clear_loss_ages_ms();
  for (BootTime loss : losses) round->add_loss_ages_ms(absl::ToInt64Milliseconds(now - loss));
  round->clear_failure_ages_ms();
  for (BootTime failure : failure_times) round->add_failure_ages_ms(absl::ToInt64Milliseconds(now - failure));
  round->clear_excluded();
  for (const auto& [host_id, until] : excluded) {
    v1::Exclusion* exclusion = round->add_excluded();
    exclusion->set_host_id(host_id);
    // Rounded up: as long as the exclusion lasts, the rest is not 0.
    exclusion->set_left_ms(absl::ToInt64Milliseconds(absl::Ceil(until - now, absl::Milliseconds(1))));
  }
}

RestartLedger RestartLedger::ReadFrom(const v1::Round& round, BootTime now) {
  RestartLedger seen;
  seen.restart_count = round.restart_count();
  seen.failures = round.failures();
  for (int64_t age : round.loss_ages_ms()) seen.losses.push_back(now - absl::Milliseconds(age));
  for (int64_t age : round.failure_ages_ms()) seen.failure_times.push_back(now - absl::Milliseconds(age));
  seen.fast_failures = round.fast_failures();
  seen.idle_failures = round.idle_failures();
  seen.idle_changes = round.idle_changes();
  seen.culprit = round.culprit();
  seen.culprit_streak = round.culprit_streak();
  for (const v1::Exclusion& exclusion : round.excluded()) {
    if (seen.excluded.size() >= kMaxExcluded) break;
    seen.excluded[exclusion.host_id()] = now + absl::Milliseconds(exclusion.left_ms());
  }
  return seen;
}

namespace {

// Priority as the root cause. 2: out of memory, which the end of a peer never causes; 1: a signal; 0: an exit
// code.
int CausePriority(const v1::Failure& failure) { return failure.oom_killed() ? 2 : failure.has_signal() ? 1 : 0; }

// Error texts of sockets, gloo, NCCL and TCPStore when the peer has gone.
constexpr const char* kEchoes[] = {"onnection reset by peer",
                                   "onnection closed by peer",
                                   "roken pipe",
                                   "ncclRemoteError",
                                   "remote process exited",
                                   "got 0 bytes",
                                   "Connection was likely closed"};

bool SaysThatAPeerHasGone(const std::string& text) {
  return std::any_of(std::begin(kEchoes), std::end(kEchoes),
                     [&text](const char* echo) { return absl::StrContains(text, echo); });
}

}  // namespace

bool SoundsLikeAnEcho(const v1::Failure& failure) {
  if (failure.oom_killed() || (failure.has_signal() && failure.signal() != SIGABRT)) return false;
  return SaysThatAPeerHasGone(failure.error_text()) || SaysThatAPeerHasGone(failure.callstack()) ||
         SaysThatAPeerHasGone(failure.last_output());
}

namespace {

void SortByTime(std::vector<FailureRef>* failures) {
  std::stable_sort(failures->begin(), failures->end(),
                   [](const FailureRef& a, const FailureRef& b) { return a.at < b.at; });
}

}  // namespace

std::vector<FailureRef> RefsTo(const std::vector<SeenFailure>& failures) {
  std::vector<FailureRef> refs;
  for (const SeenFailure& seen : failures) refs.push_back({&seen.failure, &seen.host_id, seen.at});
  return refs;
}

std::optional<SeenFailure> FirstCause(std::vector<FailureRef> own) {
  own.erase(
      std::remove_if(own.begin(), own.end(), [](const FailureRef& f) { return f.failure->after_our_signal(); }),
      own.end());
  if (own.empty()) return std::nullopt;
  SortByTime(&own);
  const FailureRef* first = &own.front();
  if (SoundsLikeAnEcho(*first->failure)) {
    const auto is_cause = [&own](const FailureRef& f) {
      return f.at <= own.front().at + kEchoWindow && !SoundsLikeAnEcho(*f.failure);
    };
    const auto cause = std::find_if(std::next(own.begin()), own.end(), is_cause);
    if (cause != own.end()) first = &*cause;
  }
  const BootTime from = first->at, until = first->at + kSameMoment;
  for (const FailureRef& f : own) {
    if (f.at >= from && f.at <= until && CausePriority(*f.failure) > CausePriority(*first->failure)) first = &f;
  }
  return SeenFailure{*first->failure, *first->host_id, first->at};
}

namespace {

class OtherFailures {
 public:
  explicit OtherFailures(v1::Verdict* verdict) : verdict_(verdict) {}

  void Add(const v1::Failure& failure) {
    if (verdict_->other_failures_size() >= kMaxOtherFailures) {
      verdict_->set_more_failures(verdict_->more_failures() + 1);
      return;
    }
    v1::Failure* brief = verdict_->add_other_failures();
    *brief = failure;
    brief->set_error_text(CutUtf8(failure.error_text(), kMaxBriefText));
    brief->clear_callstack();
    brief->clear_last_output();
    brief->clear_hint();
    brief->clear_others();
    brief->clear_more_others();
  }
  void AddOthersOf(const v1::Failure& failure) {
    for (const v1::Failure& other : failure.others()) Add(other);
    verdict_->set_more_failures(verdict_->more_failures() + failure.more_others());
  }

 private:
  v1::Verdict* const verdict_;
};

}  // namespace

void SetRootCause(const SeenFailure& cause, std::vector<FailureRef> failures, v1::Verdict* verdict) {
  *verdict->mutable_root_cause() = cause.failure;
  verdict->mutable_root_cause()->clear_others();
  verdict->mutable_root_cause()->clear_more_others();
  OtherFailures others(verdict);
  others.AddOthersOf(cause.failure);
  SortByTime(&failures);
  for (const FailureRef& seen : failures) {
    if (seen.failure->rank() == cause.failure.rank()) continue;
    others.Add(*seen.failure);
    others.AddOthersOf(*seen.failure);
  }
}

int ExitCodeOf(const v1::Failure& failure) {
  return failure.has_signal() ? 128 + failure.signal() : failure.exit_code();
}

std::string DescribeFailure(const v1::Failure& failure) {
  return absl::StrCat("rank ", failure.rank(), " on ", failure.host(),
                      WasNeverStarted(failure) ? " could not be started"
                      : failure.oom_killed()   ? " was killed because memory ran out"
                      : failure.has_signal() ? absl::StrCat(" was killed (", DescribeSignal(failure.signal()), ")")
                                             : absl::StrCat(" exited with code ", failure.exit_code()));
}

}  // namespace muster::rendezvous
