#include "rendezvous/core/budgets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/text.h"

namespace muster::rendezvous {

Counts Counts::After(RoundEnd end, BootTime now, absl::Duration window) const {
  Counts next;
  next.restart_count = restart_count + 1;
  next.failures = failures + (end == RoundEnd::kWorkerFailure ? 1 : 0);
  for (BootTime loss : losses) {
    if (now - loss < window) next.losses.push_back(loss);
  }
  if (end == RoundEnd::kNodeLoss) next.losses.push_back(now);
  return next;
}

Counts Counts::AtLeast(const Counts& other) const {
  Counts result = losses.size() < other.losses.size() ? other : *this;
  result.restart_count = std::max(restart_count, other.restart_count);
  result.failures = std::max(failures, other.failures);
  return result;
}

std::optional<SeenFailure> FirstCause(const std::vector<SeenFailure>& failures) {
  const SeenFailure* first = nullptr;
  for (const SeenFailure& seen : failures) {
    if (seen.failure.after_our_signal()) continue;
    if (first == nullptr || seen.at < first->at) first = &seen;
  }
  if (first == nullptr) return std::nullopt;
  const BootTime until = first->at + kSameMoment;
  const auto violent = [](const v1::Failure& f) { return f.has_signal() || f.oom_killed(); };
  for (const SeenFailure& seen : failures) {
    if (seen.failure.after_our_signal() || seen.at > until || violent(first->failure)) continue;
    if (violent(seen.failure)) first = &seen;
  }
  return *first;
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

void SetRootCause(const SeenFailure& cause, std::vector<SeenFailure> failures, v1::Verdict* verdict) {
  *verdict->mutable_root_cause() = cause.failure;
  verdict->mutable_root_cause()->clear_others();
  verdict->mutable_root_cause()->clear_more_others();
  OtherFailures others(verdict);
  others.AddOthersOf(cause.failure);
  std::stable_sort(failures.begin(), failures.end(),
                   [](const SeenFailure& a, const SeenFailure& b) { return a.at < b.at; });
  for (const SeenFailure& seen : failures) {
    if (seen.failure.rank() == cause.failure.rank()) continue;
    others.Add(seen.failure);
    others.AddOthersOf(seen.failure);
  }
}

int ExitCodeOf(const v1::Failure& failure) {
  return failure.has_signal() ? 128 + failure.signal() : failure.exit_code();
}

std::string DescribeFailure(const v1::Failure& failure) {
  return absl::StrCat("the worker of rank ", failure.rank(), " on ", failure.host(),
                      failure.oom_killed()   ? " was killed because memory ran out"
                      : failure.has_signal() ? absl::StrCat(" was ended by signal ", failure.signal())
                                             : absl::StrCat(" exited with code ", failure.exit_code()));
}

}  // namespace muster::rendezvous
