#include "rendezvous/core/round_end.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/text/text.h"
#include "base/wire/failure.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/hung_ranks.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

constexpr int kExitOfUsage = 2;  // of Python and of most programs

// "; all 3 allowed restarts are used up (--max-restarts)"
std::string BudgetSpent(int budget, const std::string& what, const std::string& option) {
  const std::string plural = absl::StrCat(what, what.back() == 's' ? "es" : "s");
  if (budget == 0) return absl::StrCat("; no ", what, " is allowed (", option, ")");
  if (budget == 1) return absl::StrCat("; the only allowed ", what, " is used up (", option, ")");
  return absl::StrCat("; all ", budget, " allowed ", plural, " are used up (", option, ")");
}

// The loss of a node makes its peers' workers fail. These failures are echoes of the loss unless they came more
// than kEchoWindow before it.
EndCause Classify(const GreatestRound& round, const std::optional<SeenFailure>& cause,
                  const std::vector<FailureRef>& failures) {
  if (round.losses.at && (!cause || *round.losses.at <= cause->at + kEchoWindow)) return EndCause::kNodeLoss;
  const EndCause otherwise = round.restart_order.empty() ? EndCause::kMembership : EndCause::kAsked;
  if (!cause) return otherwise;
  // If no worker failed before the drain started, the round was stopped for another reason, and the failures come
  // from workers that saw their peers end. Any failure counts here, not only the root cause, which need not be the
  // earliest: a signal ranks above an exit code.
  const bool failed_before = std::any_of(failures.begin(), failures.end(), [&round](const FailureRef& f) {
    return f.at <= round.drain.began && !f.failure->after_our_signal();
  });
  return failed_before ? EndCause::kWorkerFailure : otherwise;
}

std::string Describe(const GreatestRound& round, EndCause end, const std::optional<SeenFailure>& cause) {
  if (end == EndCause::kWorkerFailure) return DescribeFailure(cause->failure);
  return round.losses.text.empty() ? round.drain.cause : round.losses.text;
}

RoundResult ResultOf(BootTime now, const Job& job, EndCause end, const std::optional<SeenFailure>& cause) {
  RoundResult result;
  result.end = end;
  result.at = now;
  // A coordinator that was down when the failure happened hears of it late.
  const BootTime began = job.greatest.drain.began;
  const BootTime trouble = cause ? std::min(began, cause->at) : began;
  result.lasted = std::max(absl::ZeroDuration(), trouble - job.greatest.since);
  result.watched = job.ProgressIsWatched();
  result.progressed = job.SomeProgressed();
  result.loss_is_free =
      end == EndCause::kNodeLoss && RestSuffices(job) &&
      std::all_of(job.greatest.losses.nodes.begin(), job.greatest.losses.nodes.end(),
                  [&job](const auto& lost) { return job.crash_loops.LossesInARow(lost.second) >= 2; });
  if (end != EndCause::kWorkerFailure) return result;
  result.port_taken = cause->failure.port_taken();
  if (!cause->failure.hung_for_all()) result.culprit = cause->host_id;
  return result;
}

// For a cause that is an echo: the nodes that had left the others without a failure; empty: none.
std::string WhoLeftEarly(const Job& job) {
  std::vector<std::string> names;
  for (const auto& [id, host] : job.hosts) {
    if (host.part.in_round && host.part.succeeded) names.push_back(host.Name());
  }
  return names.empty() ? ""
                       : absl::StrCat("all ranks of ", JoinAtMost(names, kMaxAbsentNamed), " exited with code 0");
}

// False for a command line or a program that another start would find as wrong.
bool MayEndOtherwise(int exit_code) {
  return exit_code != kExitOfUsage && exit_code != kExitUsage && exit_code != kExitNotExecutable &&
         exit_code != kExitNotFound;
}

// The job's end, if the restart budget is used up or several restarts in a row made no progress; else nullopt.
std::optional<v1::Verdict> VerdictAfterFailure(const Job& job, const RoundAccount& round) {
  const CoordinatorOptions& options = job.options;
  v1::Verdict verdict;
  verdict.set_origin("muster");
  SetRootCause(*round.cause, job.Failures(), &verdict);
  verdict.set_more_failures(std::min(verdict.more_failures() + job.greatest.gone.more_failures, kMaxCount));
  v1::Failure& cause = *verdict.mutable_root_cause();
  if (SoundsLikeAnEcho(cause) && cause.hint().empty()) cause.set_hint(WhoLeftEarly(job));
  verdict.set_exit_code(ExitCodeOf(*round.cause));
  if (job.ProgressIsWatched() && job.counts.idle_failures >= kMaxIdleFailures) {
    verdict.set_exit_code(kExitNoProgress);
    verdict.set_reason(absl::StrCat(round.what, "; no progress in ", kMaxIdleFailures,
                                    " restarts: the progress file was not touched"));
    return verdict;
  }
  if (round.cause->hung() && options.on_hang == OnHang::kStop) {
    verdict.set_reason(absl::StrCat(round.what, " (--on-hang stop)"));
    return verdict;
  }
  if (job.counts.FailuresInWindow(options) <= options.max_restarts) return std::nullopt;
  if (!WasNeverStarted(*round.cause)) verdict.set_origin("worker");
  const bool may_help = options.max_restarts > 0 || MayEndOtherwise(verdict.exit_code());
  verdict.set_reason(
      absl::StrCat(round.what, may_help ? BudgetSpent(options.max_restarts, "restart", "--max-restarts") : ""));
  return verdict;
}

}  // namespace

bool RestSuffices(const Job& job) {
  const int rest = job.greatest.node_count() - static_cast<int>(job.greatest.losses.nodes.size());
  return rest - rest % job.options.node_unit >= job.options.min_nodes;
}

RoundAccount AccountOf(BootTime now, const Job& job) {
  const std::vector<FailureRef> failures = job.Failures();
  std::optional<SeenFailure> cause = FirstCause(failures);
  EndCause end = Classify(job.greatest, cause, failures);
  // The round hung, but no node has reported how it ended the rank: it could not, or was lost.
  const bool stops = job.options.on_hang == OnHang::kStop && end == EndCause::kNodeLoss;
  if (job.hang.kill_order && (end == EndCause::kMembership || end == EndCause::kAsked || stops)) {
    cause = FailureOfHang(job);
    end = EndCause::kWorkerFailure;
  }
  RoundAccount round;
  round.result = ResultOf(now, job, end, cause);
  round.what = Describe(job.greatest, end, cause);
  if (cause) round.cause = std::move(cause->failure);
  return round;
}

std::optional<v1::Verdict> VerdictAfter(const Job& job, const RoundAccount& round) {
  if (round.result.end == EndCause::kWorkerFailure) return VerdictAfterFailure(job, round);
  const CoordinatorOptions& options = job.options;
  v1::Verdict verdict;
  verdict.set_origin("muster");
  if (round.result.end == EndCause::kNodeLoss &&
      static_cast<int>(job.counts.losses.size()) > options.max_node_losses) {
    verdict.set_exit_code(kExitUnavailable);
    verdict.set_reason(
        absl::StrCat(round.what, BudgetSpent(options.max_node_losses, "node loss", "--max-node-losses")));
    return verdict;
  }
  if (options.max_membership_changes > 0 && job.counts.idle_changes > options.max_membership_changes) {
    verdict.set_exit_code(kExitNoProgress);
    verdict.set_reason(absl::StrCat(
        round.what, "; no progress in ", options.max_membership_changes,
        " membership changes (--max-membership-changes): ",
        job.ProgressIsWatched() ? "the progress file was not touched" : "no round ran for 5 minutes"));
    return verdict;
  }
  return std::nullopt;
}

namespace {

// Before the cost of the round is counted, which depends on it.
void NoteCrashLoops(BootTime now, Job* job, Effects* out) {
  const GreatestRound& greatest = job->greatest;
  std::set<std::string> lost, kept;
  for (const auto& [rank, node] : greatest.losses.nodes) {
    if (!node.empty()) lost.insert(node);
  }
  for (const auto& [id, host] : job->hosts) {
    const Part& part = host.part;
    if (part.in_round && greatest.losses.nodes.count(part.round.node_rank()) == 0) kept.insert(part.node);
  }
  job->crash_loops.OnRoundEnd(now, greatest.drain.began - greatest.since, lost, kept);
  if (!RestSuffices(*job)) return;
  for (const std::string& node : lost) {
    const int losses = job->crash_loops.LossesInARow(node);
    if (losses < 2) continue;
    Say(Severity::kWarning,
        absl::StrCat(node, " was lost ", losses,
                     " times in a row, soon after it had joined: while the others suffice, ",
                     node == kNewNode ? "such nodes are" : "it is", " held back for ",
                     absl::FormatDuration(job->crash_loops.HeldBackUntil(node) - now),
                     ", and this loss does not count (--max-node-losses)"),
        out, {.event = events::kNodeSetAside, .round = static_cast<int64_t>(greatest.number())});
  }
}

void NoteLosses(BootTime now, Job* job) {
  GreatestRound& greatest = job->greatest;
  for (const auto& [id, host] : job->hosts) {
    const bool lost = host.part.in_round && !host.part.succeeded && host.part.lost_at != absl::InfiniteFuture();
    if (lost) greatest.losses.Note(host.part.lost_at, HowLost(host), &host.part);
  }
  if (const std::string ended = HowPrimaryEnded(*job); !ended.empty()) {
    greatest.losses.Note(job->succession.primary_ended_at(), ended, nullptr);
  } else if (job->MembersMissing() > 0 && !greatest.losses.at) {
    greatest.losses.Note(job->succession.WhenLost(now),
                         absl::StrCat("no heartbeat from ", MissingNames(*job), " since this coordinator started"),
                         nullptr);
  }
}

// Somebody wanted each node that was lost to leave.
bool WasOrdered(const GreatestRound& round) {
  const auto& lost = round.losses.nodes;
  return !lost.empty() && std::all_of(lost.begin(), lost.end(), [&round](const auto& node) {
    return round.drain_orders.count(node.second) > 0;
  });
}

// A node that has just joined may be anybody's.
std::set<std::string> CulpritsOf(const RoundAccount& account, const Job& job) {
  std::set<std::string> nodes;
  if (account.result.end == EndCause::kNodeLoss) {
    for (const auto& [rank, node] : job.greatest.losses.nodes) nodes.insert(node);
  } else if (const Host* const host = job.hosts.Find(account.result.culprit)) {
    nodes.insert(host->part.node);
  }
  nodes.erase("");
  nodes.erase(kNewNode);
  for (const std::string& node : job.greatest.drain_orders) nodes.erase(node);
  return nodes;
}

// The first sign of a lost node is its silence, which comes before the drain.
void Remember(BootTime now, const RoundAccount& account, Job* job) {
  const GreatestRound& round = job->greatest;
  const BootTime trouble =
      std::min(round.since + account.result.lasted, round.losses.at.value_or(absl::InfiniteFuture()));
  const BootTime told = std::max(round.drain.began, trouble);
  EndedRound ended{.number = round.number(),
                   .end = account.result.end,
                   .was_ordered = WasOrdered(job->greatest),
                   .cause = account.what,
                   .culprits = CulpritsOf(account, *job),
                   .trouble = trouble,
                   .detecting = told - trouble,
                   .draining = now - told};
  if (round.was_made_here) ended.ran = std::max(absl::ZeroDuration(), trouble - round.since);
  job->history.OnEnd(ended);
}

}  // namespace

void CloseRound(BootTime now, Job* job, Effects* out) {
  NoteLosses(now, job);
  NoteCrashLoops(now, job, out);
  const RoundAccount account = AccountOf(now, *job);
  job->counts = job->greatest.counts.After(account.result, job->options);
  Remember(now, account, job);
}

bool AwaitsNoAcknowledgement(BootTime now, const Job& job) {
  if (now > job.state_since + job.options.shutdown_grace + kStopLimit) return true;
  return std::all_of(job.hosts.begin(), job.hosts.end(),
                     [&](const auto& entry) { return entry.second.HasAcknowledged(*job.verdict); });
}

}  // namespace muster::rendezvous
