#include "rendezvous/core/actions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "rendezvous/core/enter.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/new_round.h"

namespace muster::rendezvous {
namespace {

v1::Verdict VerdictOf(const Host& cannot_start) {
  const v1::Failure& failure = cannot_start.status.cannot_start();
  v1::Verdict verdict;
  verdict.set_exit_code(ExitCodeOf(failure));
  verdict.set_origin("muster");
  verdict.set_reason(absl::StrCat(cannot_start.status.hostname(), " cannot start: ", failure.error_text()));
  *verdict.mutable_root_cause() = failure;
  return verdict;
}

void Drain(BootTime now, const StopReason& why, const Acting& acting, Effects* out) {
  Job* const job = acting.job;
  job->greatest.drain.cause = why.text;
  job->greatest.drain.began = now;
  acting.announcements->OnDrainBegins();
  // Usually 0 already. An earlier drain may have sent a STOP and turned back to recover a greater round.
  for (auto& [id, host] : job->hosts) host.exchange.stop_seq = 0;
  Enter(State::kDraining, now, why.is_logged ? absl::StrCat("stopping round ", job->greatest.number()) : why.text,
        job, out, {.rank = why.rank, .node_rank = why.node_rank});
}

std::string Millis(absl::Duration time) {
  return time < absl::Milliseconds(1) ? "0ms" : absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1)));
}

// A round has just begun or goes on.
void EndRecovery(const Glance& glance, Job* job, Effects* out) {
  if (!job->history.OnStart(glance.now)) return;
  const EndedRound& ended = job->history.newest().back();
  Say(Severity::kInfo,
      absl::StrCat("round ", job->greatest.number(), " began ", Millis(ended.lost),
                   " after the first sign that round ", ended.number, " had to end", ": ", Millis(ended.detecting),
                   " to notice that, ", Millis(ended.draining), " to stop, ", Millis(ended.gathering),
                   " to gather"),
      out, {.event = events::kRecovered, .round = NumberOfRound(*job)});
}

}  // namespace

// ---- verdicts -----------------------------------------------------------------------------------------------

void EndWithSuccess(const Glance& glance, const Acting& acting, Effects* out) {
  ConcludeWith(glance.now, 0, "every worker exited 0", acting.job, out);
}

void EndAsAsked(const Glance& glance, const Acting& acting, Effects* out) {
  ConcludeWith(glance.now, glance.job.asked_to_stop->exit_code, glance.job.asked_to_stop->why, acting.job, out);
}

void EndBecauseOneCannotStart(const Glance& glance, const Acting& acting, Effects* out) {
  const auto cannot = [&](const auto& entry) { return glance.job.CannotStart(entry.second); };
  const auto first = std::find_if(glance.job.hosts.begin(), glance.job.hosts.end(), cannot);
  Conclude(glance.now, VerdictOf(first->second), acting.job, out);
}

void EndBecauseNobodyJoined(const Glance& glance, const Acting& acting, Effects* out) {
  const Job& job = glance.job;
  ConcludeWith(glance.now, kExitUnavailable,
               absl::StrCat("no node joined within ", absl::FormatDuration(job.options.join_limit()),
                            " (--join-timeout)", job.refusals.Describe()),
               acting.job, out);
}

void EndBecauseTooFewCame(const Glance& glance, const Acting& acting, Effects* out) {
  ConcludeWith(glance.now, kExitUnavailable, TooFewNodes(glance.now, glance.job, glance.ready()), acting.job, out);
}

void EndAfterTheLastRound(const Glance& glance, const Acting& acting, Effects* out) {
  if (glance.job.asked_to_stop) return EndAsAsked(glance, acting, out);
  Conclude(glance.now, *VerdictAfter(glance.job, glance.account()), acting.job, out);
}

// ---- rounds -------------------------------------------------------------------------------------------------

void BeginGathering(const Glance& glance, const Acting& acting, Effects* out) {
  const bool all = glance.all_are_here();
  Enter(State::kGathering, glance.now, all ? "all nodes are here" : "no node reported a round", acting.job, out);
}

void MakeRound(const Glance& glance, const Acting& acting, Effects* out) {
  const std::vector<Candidate> members = AssignSeats(glance.candidates(), RoundSize(glance.job, glance.ready()));
  acting.announcements->OnMembers(glance.job, members, out);
  BeginRound(glance.now, members, acting.job, out);
  EndRecovery(glance, acting.job, out);
}

void ContinueRound(const Glance& glance, const Acting& acting, Effects* out) {
  GreatestRound& greatest = acting.job->greatest;
  Enter(State::kRunning, glance.now, "all members of the round are back", acting.job, out);
  greatest.is_controlled = greatest.kept.ever_controlled = true;
  acting.job->hang.BeginRound();
  EndRecovery(glance, acting.job, out);
  greatest.gone.ForgetFailures();
}

void StopRecoveredRound(const Glance& glance, const Acting& acting, Effects* out) {
  Drain(glance.now, {.text = glance.members().broken}, acting, out);
}

void StopForAbsentMembers(const Glance& glance, const Acting& acting, Effects* out) {
  const Succession& succession = glance.job.succession;
  MemberLosses& losses = acting.job->greatest.losses;
  losses.Note(succession.WhenLost(succession.epoch_start()), WhoDidNotReturn(glance.job), nullptr);
  Drain(glance.now, {.text = losses.text}, acting, out);
}

void StopRound(const Glance& glance, const Acting& acting, Effects* out) {
  if (glance.why_stop()) return Drain(glance.now, *glance.why_stop(), acting, out);
  Drain(glance.now, {.text = *WhyGrow(glance.now, glance.job)}, acting, out);
}

void GatherAgain(const Glance& glance, const Acting& acting, Effects* out) {
  Job* const job = acting.job;
  const RoundAccount& round = glance.account();
  // The first cause that was heard of started the drain and has been logged.
  if (round.what != job->greatest.drain.cause) {
    Say(Severity::kInfo, absl::StrCat("round ", job->greatest.number(), " ended; root cause: ", round.what), out,
        {.event = events::kRoundEnded, .round = NumberOfRound(*job)});
  }
  acting.announcements->OnExcluded(*job, out);
  const bool pauses = round.result.end == EndCause::kWorkerFailure;
  job->gathering.BeginAfterDrain(glance.now, pauses
                                                 ? job->counts.DelayBeforeNext(job->options, acting.random->Next())
                                                 : absl::ZeroDuration());
  Enter(State::kGathering, glance.now, absl::StrCat("drained: ", job->greatest.drain.cause), job, out);
  for (auto& [id, host] : job->hosts) host.part.in_round = host.part.succeeded = false;
  job->greatest.is_controlled = true;
}

void Release(const Glance& glance, const Acting& acting, Effects* out) {
  Enter(State::kReleasing, glance.now, "all nodes have acknowledged the verdict", acting.job, out);
}

}  // namespace muster::rendezvous
