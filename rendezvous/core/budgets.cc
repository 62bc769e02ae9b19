#include "rendezvous/core/budgets.h"

#include <algorithm>
#include <iterator>

namespace muster::rendezvous {

namespace {

// A node may have reported any count within its range.
int Next(int count) { return std::min(count + 1, kMaxCount); }

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
  next.restart_count = Next(restart_count);
  ForgetOld(&next.losses, round.at, options.node_loss_window);
  ForgetOld(&next.failure_times, round.at, options.restart_window);
  if (MadeProgress(round)) next.idle_failures = next.idle_changes = 0;
  if (round.lasted >= kFastFailure) next.fast_failures = 0;
  if (round.end == EndCause::kWorkerFailure) {
    next.NoteFailure(round, options);
  } else if (round.end != EndCause::kAsked && !round.loss_is_free) {
    if (!MadeProgress(round)) next.idle_changes = Next(idle_changes);
    if (round.end == EndCause::kNodeLoss) next.losses.push_back(round.at);
  }
  for (auto it = next.excluded.begin(); it != next.excluded.end();) {
    it = it->second <= round.at ? next.excluded.erase(it) : std::next(it);
  }
  return next;
}

void RestartLedger::NoteFailure(const RoundResult& round, const CoordinatorOptions& options) {
  // A fault of the machine, as a node loss is; without a bound it could go on for ever.
  if (round.port_taken && static_cast<int>(losses.size()) < options.max_node_losses)
    return losses.push_back(round.at);
  failures = Next(failures);
  if (options.restart_window < absl::InfiniteDuration()) {
    failure_times.push_back(round.at);
    if (failure_times.size() > kMaxFailureAges) failure_times.erase(failure_times.begin());
  }
  if (round.lasted < kFastFailure) fast_failures = Next(fast_failures);
  const bool was_a_restart = restart_count > 1;  // After() has counted the next restart already
  if (was_a_restart && !MadeProgress(round)) idle_failures = Next(idle_failures);
  culprit_streak = !round.culprit.empty() && round.culprit == culprit ? Next(culprit_streak) : 1;
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
  const size_t skipped = losses.size() - std::min<size_t>(losses.size(), kMaxLossAges);
  for (size_t i = skipped; i < losses.size(); ++i) {
    round->add_loss_ages_ms(WireMilliseconds(now - losses[i]));
  }
  round->clear_failure_ages_ms();
  for (BootTime failure : failure_times) round->add_failure_ages_ms(WireMilliseconds(now - failure));
  round->clear_excluded();
  for (const auto& [host_id, until] : excluded) {
    v1::Exclusion* exclusion = round->add_excluded();
    exclusion->set_host_id(host_id);
    // Rounded up: as long as the exclusion lasts, the rest is not 0.
    exclusion->set_left_ms(WireMilliseconds(absl::Ceil(until - now, absl::Milliseconds(1))));
  }
}

void RestartLedger::LimitExclusions(BootTime now, const CoordinatorOptions& options) {
  if (options.exclude_after == 0) excluded.clear();
  for (auto& [host_id, until] : excluded) until = std::min(until, now + options.exclude_for);
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

}  // namespace muster::rendezvous
