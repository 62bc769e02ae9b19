#include "agent/host/core/round_failures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/host/core/output_hints.h"
#include "base/text/exception_text.h"
#include "base/text/text.h"
#include "base/wire/failure.h"
#include "base/wire/other_failures.h"

namespace muster::host {
namespace {

constexpr char kUsageHint[] =
    "exit code 2 soon after the start usually means that argparse rejected the arguments; if the script expects ";

constexpr int kWorkerUsage = 2;        // argparse's exit code
constexpr int kUncaughtException = 1;  // Python's
// For a process that has reported its failure to end. One that lives longer went on.
constexpr absl::Duration kReportBefore = absl::Seconds(5);

constexpr size_t kMaxLeftNamed = 8;

}  // namespace

bool RoundFailures::OnEnd(const WorkerEnd& end, std::optional<BootTime> stopping_since, Effects* out) {
  const Ending& ending = end.ending;
  if (ending.without_input) without_input_[end.local_rank] = ending.output_is_unseen;
  const bool by_itself = !stopping_since || end.at < *stopping_since;
  all_usage_errors_ &= ending.by_signal ? !by_itself : ending.number == kWorkerUsage;
  if (ending.ok() && by_itself) left_early_.emplace(end.local_rank, end.at);
  if (ending.ok()) return false;
  if (ending.done) {
    if (by_itself) SayDone(end, out);
    return false;
  }
  if (!stopping_since) {
    if (ending.hung == Ending::Hung::kNo && SoundsLikeAnEcho(MakeFailure(end, end.at))) {
      AddEcho(end);
      return false;
    }
    Fail(end, out);
    return true;
  }
  if (ending.hung != Ending::Hung::kNo) {
    TakeHung(end, out);
    return false;
  }
  if (cause_ || !TakesLate(end, *stopping_since, out)) AddFurther(end, *stopping_since, out);
  return false;
}

void RoundFailures::AddEcho(const WorkerEnd& echo) {
  const auto is_earlier = [](const WorkerEnd& a, const WorkerEnd& b) { return a.at < b.at; };
  echoes_.insert(std::upper_bound(echoes_.begin(), echoes_.end(), echo, is_earlier), echo);
}

std::optional<BootTime> RoundFailures::AwaitsCauseUntil() const {
  if (cause_ || echoes_.empty()) return std::nullopt;
  return echoes_.front().at + kEchoPatience;
}

void RoundFailures::TakeEchoes(Effects* out) {
  const WorkerEnd first = echoes_.front();
  echoes_.erase(echoes_.begin());
  Fail(first, out);
}

void RoundFailures::SayDone(const WorkerEnd& end, Effects* out) const {
  const v1::Failure late = MakeFailure(end, end.at);
  Say(Severity::kWarning,
      absl::StrCat("worker rank ", late.rank(), " had finished (it has created MUSTER_DONE_FILE), and then ",
                   DescribeEnd(late), "; this counts as success"),
      out, {.rank = late.rank(), .node_rank = round_.node_rank()});
}

void RoundFailures::Fail(const WorkerEnd& end, Effects* out) {
  SetCause(end, FailedAt(end));
  const std::string& text = end.ending.error_text;
  SayCause(end, text.empty() ? "" : absl::StrCat(": ", text), out);
  for (const WorkerEnd& echo : std::exchange(echoes_, {}))
    AddOther(MakeFailure(echo, FailedAt(echo)), FailedAt(echo));
}

// The end of the hung worker made the others fail, and one of them ended before it did.
void RoundFailures::TakeHung(const WorkerEnd& end, Effects* out) {
  if (cause_) AddOther(*std::move(cause_), cause_at_);
  Fail(end, out);
}

// A failure that is reported after the node began to stop its workers. A worker that failed earlier than the
// cause, or whose failure the cause may be an echo of, becomes the cause after all.
void RoundFailures::AddFurther(const WorkerEnd& end, BootTime stopping_since, Effects* out) {
  const BootTime at = FailedAt(end);
  v1::Failure other = MakeFailure(end, at);
  const std::optional<BootTime> before = FailedBefore(end, stopping_since);
  const bool after_echo = cause_ && SoundsLikeAnEcho(*cause_), is_echo = SoundsLikeAnEcho(other);
  const bool by_itself = end.at < stopping_since;
  const bool by_our_signal = end.ending.by_signal && !by_itself;
  const bool is_earlier = before && *before < cause_at_ && !by_our_signal && (after_echo || !is_echo);
  if (!cause_ || !before || !(is_earlier || (after_echo && !is_echo))) {
    other.set_after_our_signal(!by_itself);
    return AddOther(std::move(other), at);
  }
  AddOther(*std::move(cause_), cause_at_);
  TakeLate(end, *before, stopping_since, out);
}

// When the worker failed, if it had ended before this node began to stop its workers, or if what it wrote shows
// that it had failed. What is on its standard error counts only beside an echo, and only if an exception is the
// end of it: a program may print a traceback and go on.
std::optional<BootTime> RoundFailures::FailedBefore(const WorkerEnd& end, BootTime stopping_since) const {
  const Ending& ending = end.ending;
  if (end.at < stopping_since) return FailedAt(end);
  BootTime at = absl::InfiniteFuture();
  if (ending.failed_at_s) {
    at = FailedAt(end);
    if (ending.by_signal && at < stopping_since - kReportBefore) return std::nullopt;  // it went on
  } else if (cause_ && SoundsLikeAnEcho(*cause_) && ending.spoke_at && EndsWithException(ending.last_words)) {
    at = std::clamp(absl::UnixEpoch() + (*ending.spoke_at - end.wall_at_boot), started_at_, end.at);
    if (at < cause_at_ - kReportBefore) return std::nullopt;
  }
  return at < stopping_since ? std::optional(at) : std::nullopt;
}

void RoundFailures::AddOther(v1::Failure other, BootTime at) {
  if (others_.size() >= static_cast<size_t>(kMaxOtherFailures)) {
    ++more_others_;
    return;
  }
  other.set_error_text(CutUtf8(other.error_text(), kMaxBriefText));
  other.clear_callstack();
  other.clear_last_output();
  others_.push_back({std::move(other), at});
}

// A worker that had failed before the stop, and whose end took longer, or its report, than its peers took to fail
// because of it: their failures may all be echoes of this one. The node was stopped by then anyway.
bool RoundFailures::TakesLate(const WorkerEnd& end, BootTime stopping_since, Effects* out) {
  const std::optional<BootTime> at = FailedBefore(end, stopping_since);
  if (!at) return false;
  TakeLate(end, *at, stopping_since, out);
  return true;
}

void RoundFailures::TakeLate(const WorkerEnd& end, BootTime at, BootTime stopping_since, Effects* out) {
  SetCause(end, at);
  if (end.ending.by_signal && end.at >= stopping_since) {
    cause_->set_exit_code(kUncaughtException);
    cause_->set_hint("it had failed, and muster's signal ended it before it could exit");
  }
  const absl::Duration before = absl::Trunc(stopping_since - at, absl::Milliseconds(1));
  SayCause(end,
           absl::StrCat("; it had failed ", absl::FormatDuration(before),
                        " before this node began to stop its workers"),
           out);
}

// When the worker failed. Its own timestamp may precede its end, but it is truncated to a second, so the latest
// moment that it can mean counts: the end of that second, or the error file's modification time if that is
// earlier. A modification time before that second comes from another clock (a file server's) and is ignored. The
// result is never before the round.
BootTime RoundFailures::FailedAt(const WorkerEnd& end) const {
  const Ending& ending = end.ending;
  if (!ending.failed_at_s) return end.at;
  const absl::Time second = absl::FromUnixSeconds(*ending.failed_at_s);
  absl::Time latest = second + absl::Seconds(1);
  if (ending.reported_at && *ending.reported_at >= second) latest = std::min(latest, *ending.reported_at);
  return std::clamp(absl::UnixEpoch() + (latest - end.wall_at_boot), started_at_, end.at);
}

v1::Failure RoundFailures::MakeFailure(const WorkerEnd& end, BootTime at) const {
  const Ending& ending = end.ending;
  v1::Failure failure;
  *failure.mutable_round() = round_.id();
  failure.set_local_rank(end.local_rank);
  failure.set_rank(round_.first_rank() + end.local_rank);
  failure.set_node_rank(round_.node_rank());
  failure.set_host(node_.hostname);
  failure.set_pid(end.pid);
  if (ending.by_signal) {
    failure.set_signal(ending.number);
  } else {
    failure.set_exit_code(ending.number);
  }
  failure.set_core_dumped(ending.core_dumped);
  failure.set_oom_killed(ending.oom_killed);
  failure.set_hung(ending.hung != Ending::Hung::kNo);
  failure.set_hung_for_all(ending.hung == Ending::Hung::kForAll);
  failure.set_error_text(CutUtf8(ending.error_text, kMaxErrorText));
  failure.set_callstack(CutUtf8(ending.callstack, kMaxErrorText));
  failure.set_last_output(CutUtf8(ending.last_words, kMaxErrorText));
  failure.set_error_file(ending.error_file);
  if (!ending.port_taken_by.empty()) {
    failure.set_port_taken(true);
    failure.set_hint(absl::StrCat(ending.port_taken_by, " listens on port ", round_.master().port(),
                                  ", which this round had as MASTER_PORT; stop it, or choose other ports "
                                  "(--worker-port)"));
  }
  const absl::Time wall = end.wall_at_boot + (at - absl::UnixEpoch());
  failure.set_wall_time_s(ending.failed_at_s.value_or(absl::ToUnixSeconds(wall)));
  return failure;
}

void RoundFailures::SetCause(const WorkerEnd& end, BootTime at) {
  cause_at_ = at;
  cause_ = MakeFailure(end, at);
}

void RoundFailures::SayCause(const WorkerEnd& end, const std::string& more, Effects* out) const {
  Say(Severity::kWarning,
      absl::StrCat("worker rank ", cause_->rank(), end.pid > 0 ? absl::StrCat(" (pid ", end.pid, ") ") : " ",
                   DescribeEnd(*cause_), more, DescribeEcho(*cause_, round_.world_size())),
      out, {.event = events::kWorkerFailed, .rank = cause_->rank(), .node_rank = round_.node_rank()});
}

void RoundFailures::OnLastOutput(const std::string& lines) {
  if (!cause_) return;
  if (!lines.empty()) cause_->set_last_output(CutUtf8(lines, kMaxErrorText));
  if (cause_->hint().starts_with(kUsageHint) && !MayMeanLocalRank(lines)) cause_->clear_hint();
  if (cause_->hint().empty()) cause_->set_hint(MissingModuleHint(*cause_, lines, node_.python));
  if (cause_->hint().empty()) cause_->set_hint(UnknownOptionHint(*cause_, lines, node_.local_rank_option));
  const auto unseen = without_input_.find(cause_->local_rank());
  if (unseen == without_input_.end() || !cause_->hint().empty()) return;
  cause_->set_hint(KeyboardHint(*cause_, lines, unseen->second));
}

void RoundFailures::AddHint() {
  if (!cause_) return;
  if (SoundsLikeAnEcho(*cause_) && cause_->hint().empty()) cause_->set_hint(LeftEarly());
  const bool early = cause_at_ - started_at_ <= kUsageErrorWithin;
  if (!all_usage_errors_ || !early || cause_->exit_code() != kWorkerUsage) return;
  const std::string& option = node_.local_rank_option;
  const bool chosen_by_user = !option.empty() && option != "local-rank";
  if (chosen_by_user || !MayMeanLocalRank(cause_->last_output())) return;
  cause_->set_hint(absl::StrCat(
      kUsageHint, option.empty()
                      ? "--local-rank, add --pass-local-rank (for --local_rank: --pass-local-rank=local_rank)"
                      : "--local_rank, with an underscore, use --pass-local-rank=local_rank"));
}

// Which ranks left their peers without a failure; empty: none. A rank that has closed its connections may end
// after those that failed because of it.
std::string RoundFailures::LeftEarly() const {
  std::vector<std::string> before, after;
  for (const auto& [local_rank, at] : left_early_) {
    (at <= cause_at_ ? before : after).push_back(absl::StrCat("rank ", round_.first_rank() + local_rank));
  }
  if (before.empty() && after.empty()) return "";
  return before.empty()
             ? absl::StrCat(JoinAtMost(after, kMaxLeftNamed),
                            " exited with code 0 soon after this failure; a process closes its "
                            "connections before it ends")
             : absl::StrCat(JoinAtMost(before, kMaxLeftNamed), " exited with code 0 while this rank still ran");
}

void RoundFailures::Describe(v1::HostStatus* status) const {
  if (!cause_ && others_.empty()) return;
  const bool has_cause = cause_.has_value();
  v1::Failure* failure = status->mutable_failure();
  *failure = has_cause ? *cause_ : others_.front().failure;
  for (size_t i = has_cause ? 0 : 1; i < others_.size(); ++i) *failure->add_others() = others_[i].failure;
  failure->set_more_others(more_others_);
  status->set_failure_boot_ns(ToBootNanos(has_cause ? cause_at_ : others_.front().at));
}

}  // namespace muster::host
