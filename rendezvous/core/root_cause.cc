#include "rendezvous/core/root_cause.h"

#include <algorithm>
#include <csignal>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/text/text.h"
#include "base/wire/failure.h"
#include "base/wire/other_failures.h"
#include "rendezvous/core/options.h"

namespace muster::rendezvous {
namespace {

// Priority as the root cause. 2: out of memory, which the end of a peer never causes; 1: a signal; 0: an exit
// code.
int CausePriority(const v1::Failure& failure) { return failure.oom_killed() ? 2 : failure.has_signal() ? 1 : 0; }

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
      return f.at <= own.front().at + kEchoPatience && !SoundsLikeAnEcho(*f.failure);
    };
    const auto cause = std::find_if(std::next(own.begin()), own.end(), is_cause);
    if (cause != own.end()) first = &*cause;
  }
  const BootTime from = first->at, until = first->at + kSameMoment;
  const bool takes_echoes = SoundsLikeAnEcho(*first->failure);
  for (const FailureRef& f : own) {
    if (f.at < from || f.at > until || (!takes_echoes && SoundsLikeAnEcho(*f.failure))) continue;
    if (CausePriority(*f.failure) > CausePriority(*first->failure)) first = &f;
  }
  return SeenFailure{*first->failure, *first->host_id, first->at};
}

namespace {

void AddOther(const v1::Failure& failure, v1::Verdict* verdict) {
  if (verdict->other_failures_size() >= kMaxOtherFailures) {
    verdict->set_more_failures(std::min(verdict->more_failures() + 1, kMaxCount));
    return;
  }
  v1::Failure* brief = verdict->add_other_failures();
  *brief = failure;
  brief->set_error_text(CutUtf8(failure.error_text(), kMaxBriefText));
  brief->clear_callstack();
  brief->clear_last_output();
  brief->clear_hint();
  brief->clear_others();
  brief->clear_more_others();
}

}  // namespace

void SetRootCause(const v1::Failure& cause, std::vector<FailureRef> failures, v1::Verdict* verdict) {
  *verdict->mutable_root_cause() = cause;
  verdict->mutable_root_cause()->clear_others();
  verdict->mutable_root_cause()->clear_more_others();
  std::vector<const v1::Failure*> others;
  int more = 0;
  const auto add_others_of = [&](const v1::Failure& failure) {
    for (const v1::Failure& other : failure.others()) others.push_back(&other);
    more = std::min(more + failure.more_others(), kMaxCount);
  };
  add_others_of(cause);
  SortByTime(&failures);
  for (const FailureRef& seen : failures) {
    if (seen.failure->rank() == cause.rank()) continue;
    others.push_back(seen.failure);
    add_others_of(*seen.failure);
  }
  // Who had left its peers is known where that happened.
  if (SoundsLikeAnEcho(cause) && cause.hint().empty()) {
    const auto hinted = std::find_if(failures.begin(), failures.end(),
                                     [](const FailureRef& f) { return !f.failure->hint().empty(); });
    if (hinted != failures.end()) verdict->mutable_root_cause()->set_hint(hinted->failure->hint());
  }
  // Workers that failed by themselves first: they say more about the cause than those that muster stopped.
  std::stable_partition(others.begin(), others.end(), [](const v1::Failure* f) { return !f->after_our_signal(); });
  verdict->set_more_failures(more);
  for (const v1::Failure* other : others) AddOther(*other, verdict);
}

int ExitCodeOf(const v1::Failure& failure) {
  const int code = failure.has_signal() ? 128 + failure.signal() : failure.exit_code();
  return code > 0 && code <= 255 ? code
                                 : 1;  // a node may report any code: a failure never ends the job as a success
}

std::string DescribeFailure(const v1::Failure& failure) {
  // In these cases the way the worker ended says nothing without the text, which names who ended it.
  const bool is_usage = WasNeverStarted(failure) && failure.exit_code() == kExitUsage;
  const bool is_killed = failure.signal() == SIGKILL || failure.signal() == SIGTERM;
  const bool needs_text = (failure.hung() || is_usage || is_killed) && !failure.error_text().empty();
  const std::string text =
      is_killed ? failure.error_text().substr(0, failure.error_text().find('\n')) : failure.error_text();
  const bool needs_hint = failure.port_taken() && !failure.hint().empty();
  return absl::StrCat("rank ", failure.rank(), " on ", failure.host(), " ", DescribeEnd(failure),
                      needs_text ? ": " : "", needs_text ? text : "", needs_hint ? ": " : "",
                      needs_hint ? failure.hint() : "");
}

}  // namespace muster::rendezvous
