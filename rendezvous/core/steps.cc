// The coordinator's steps, one function for each state. After each event steps are taken until nothing changes.
#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"
#include "base/crypto/held.h"
#include "base/exit_codes.h"
#include "base/wire/ids.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/directives.h"
#include "rendezvous/core/drain.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/core/round_end.h"

namespace muster::rendezvous {
namespace {

constexpr int kMaxSteps = 16;  // per event; the longest path is recovering -> draining -> gathering -> running

const char* EventOf(State entered) {
  if (entered == State::kRunning) return events::kRoundStarted;
  if (entered == State::kDraining) return events::kRoundStopping;
  return entered == State::kVerdict ? events::kVerdict : "";
}

// For the log of the coordinator's process, whose own node may be in an older round, or in none.
int64_t RoundOf(const Job& job) {
  return job.greatest.IsKnown() ? static_cast<int64_t>(job.greatest.number()) : -1;
}

// A verdict before the first round waits for nodes that are still starting: they hear why the job ends, and one of
// them may know of a round that this coordinator does not.
bool EnoughAreHere(BootTime now, const Job& job) {
  const auto is_here = [](const auto& entry) { return entry.second.IsTrainer() && entry.second.IsAttached(); };
  const auto here = std::count_if(job.hosts.begin(), job.hosts.end(), is_here);
  return here >= job.options.max_nodes || now >= job.state_since + kLatecomers;
}

// The node that runs the job's last command (--on-success, --on-failure): rank 0 of the last round, which is the
// primary unless that has left; else the primary; else the first by place. One that is asked to leave only if
// there is no other. The verdict carries the choice, so a coordinator that takes over does not make another.
std::string WhoCloses(const Job& job) {
  const auto suitability = [&job](const Host& host) {
    const bool first = job.WasMember(host) && host.part.round.node_rank() == 0;
    const int place = host.status.has_place() ? host.status.place() : std::numeric_limits<int>::max();
    return std::make_tuple(host.IsLeaving(), !first, !host.status.at_primary(), place);
  };
  const Host* best = nullptr;
  for (const auto& [id, host] : job.hosts) {
    if (!host.IsTrainer() || !host.IsAttached() || !job.hosts.HoldsPlace(host)) continue;
    if (best == nullptr || suitability(host) < suitability(*best)) best = &host;
  }
  return best == nullptr ? "" : best->status.host_id();
}

v1::Verdict VerdictOf(const Host& cannot_start) {
  const v1::Failure& failure = cannot_start.status.cannot_start();
  v1::Verdict verdict;
  verdict.set_exit_code(ExitCodeOf(failure));
  verdict.set_origin("muster");
  verdict.set_reason(absl::StrCat(cannot_start.status.hostname(), " cannot start: ", failure.error_text()));
  *verdict.mutable_root_cause() = failure;
  return verdict;
}

}  // namespace

void Coordinator::Decide(BootTime now, Effects* out) {
  directives_.ForgetAbsent();
  for (int i = 0; i < kMaxSteps; ++i) {
    LoseSilentHosts(now, out);
    if (!Step(now, out)) return;
  }
}

bool Coordinator::Step(BootTime now, Effects* out) {
  if (!job_.IsOver() && (EndWithSuccess(now, out) || EndBeforeRound(now, out))) return true;
  switch (job_.state) {
    case State::kRecovering:
      return StepRecovering(now, out);
    case State::kGathering:
      return StepGathering(now, out);
    case State::kRunning:
      return StepRunning(now, out);
    case State::kDraining:
      return StepDraining(now, out);
    case State::kVerdict:
      return StepVerdict(now, out);
    case State::kReleasing:
      return false;
  }
  return false;
}

// whom: what the line in the log is about; its event is the state's.
void Coordinator::Enter(State state, BootTime now, const std::string& why, Effects* out, const NoteSubject& whom) {
  MUSTER_CHECK(MayEnter(state, now, job_), "state transition not in the table, or its condition does not hold");
  // Starts and stops of rounds are logged for users; other transitions are logged elsewhere, or only for
  // debugging.
  const bool news = state == State::kRunning || state == State::kDraining;
  Say(news ? Severity::kInfo : Severity::kDebug, why, out,
      {.event = EventOf(state), .rank = whom.rank, .node_rank = whom.node_rank, .round = RoundOf(job_)});
  // The reason for nodes that wait meanwhile.
  if (state == State::kRunning) {
    const int count = job_.greatest.node_count();
    job_.why =
        absl::StrCat("round ", job_.greatest.number(), " runs with ", count, count == 1 ? " node" : " nodes");
  } else if (state == State::kDraining) {
    job_.why = absl::StrCat("round ", job_.greatest.number(), " is stopping: ", job_.greatest.drain_cause);
  } else if (state == State::kVerdict) {
    job_.why = "the job has ended; its result is on its way";
  }
  job_.state = state;
  job_.state_since = now;
  if (state == State::kGathering) job_.gathering.since = std::min(job_.gathering.since, now);
}

// ---- verdicts without a further round -----------------------------------------------------------------------

// In every state, a round has succeeded once all its nodes report success, even while it is drained or afterwards.
// This no longer holds when a later round has started, even one of fewer nodes: its workers have begun to
// overwrite what the others had finished.
bool Coordinator::EndWithSuccess(BootTime now, Effects* out) {
  if (!job_.EveryNodeSucceeded()) return false;
  ConcludeWith(now, 0, "every worker exited 0", out);
  return true;
}

// While no round runs, a cancellation, or a node that cannot start its program before the first round, leads to a
// verdict. For the second one the coordinator must have left RECOVERING: until then a round may run that no node
// has reported yet.
bool Coordinator::EndBeforeRound(BootTime now, Effects* out) {
  if (job_.farewell) return false;
  if (job_.state != State::kRecovering && job_.state != State::kGathering) return false;
  const bool enough = job_.state == State::kGathering && EnoughAreHere(now, job_);
  for (const auto& [id, host] : job_.hosts) {
    if (enough && job_.CannotStart(host)) {
      Conclude(now, VerdictOf(host), out);
      return true;
    }
  }
  if (!job_.cancelled_on.empty()) {
    ConcludeWith(now, kExitCancelled, absl::StrCat("cancelled on ", job_.cancelled_on), out);
    return true;
  }
  return false;
}

// ---- recovering ---------------------------------------------------------------------------------------------

bool Coordinator::StepRecovering(BootTime now, Effects* out) {
  if (job_.greatest.IsKnown()) return RecoverRound(now, out);
  const int ready = static_cast<int>(ReadyCandidates(job_).size());
  job_.why = WhyNoRoundYet(job_, ready);
  const bool all_are_here = ready + job_.CountCannotStart() >= job_.options.max_nodes;
  const bool all = all_are_here && !SparesMayHideARound(now, job_) && !PredecessorsRoundMayRun(now, job_);
  if (job_.hosts.empty()) {  // only `muster coordinator`: inside an agent its own host is always attached
    const absl::Duration limit = job_.options.join_limit();
    if (now < job_.succession.epoch_start() + limit) return false;
    ConcludeWith(now, kExitUnavailable,
                 absl::StrCat("no node joined within ", absl::FormatDuration(limit), " (--join-timeout)",
                              job_.refusals.Describe()),
                 out);
    return true;
  }
  if (!all && now < job_.succession.members_known_until()) return false;
  Enter(State::kGathering, now, all_are_here ? "all nodes are here" : "no node reported a round", out);
  return true;
}

// Continues the greatest round if all its members are back and running; otherwise drains it.
bool Coordinator::RecoverRound(BootTime now, Effects* out) {
  const Members members = LookAtMembers(job_);
  const absl::Duration patience = PatienceForAbsent(job_, members);
  job_.why = WhyRecovering(job_, patience);
  if (!members.broken.empty()) {
    Drain(now, {.text = members.broken}, out);
    return true;
  }
  if (members.all_run) {
    Enter(State::kRunning, now, "all members of the round are back", out);
    job_.greatest.owned = job_.greatest.ever_owned = true;
    job_.hang.BeginRound(now);
    job_.greatest.ForgetLostFailures();
    return true;
  }
  if (now < AbsentAreAwaitedUntil(job_, members)) return false;
  job_.greatest.NoteLoss(job_.succession.WhenLost(job_.succession.epoch_start()), WhoDidNotReturn(job_));
  Drain(now, {.text = job_.greatest.loss_text}, out);
  return true;
}

// ---- gathering ----------------------------------------------------------------------------------------------

bool Coordinator::StepGathering(BootTime now, Effects* out) {
  std::vector<Candidate> ready = WithoutExcluded(now, job_, ReadyCandidates(job_));
  const int count = static_cast<int>(ready.size());
  const Arriving arriving = WhoArrives(now, job_);
  // StepDraining waited for these workers already, and none of them is granted a lease while gathering.
  if (arriving.something_runs) return false;
  if (job_.MakesNoMoreRounds()) {
    job_.why = absl::StrCat(job_.primary_leaves ? "the primary is leaving" : "the coordinator is ending",
                            "; the job continues once it is back");
    return false;
  }
  BootTime& min_reached = job_.gathering.min_reached;
  min_reached = count >= job_.options.min_nodes ? std::min(min_reached, now) : absl::InfiniteFuture();
  if (now < job_.gathering.not_before) {
    job_.why = WhyPaused(job_);
    return false;
  }
  const bool starts = StartsNow(now, job_, count, arriving);
  const bool overdue = GatheringIsOverdue(now, job_);
  const bool waits = !starts && (!overdue || PreparingMaySuffice(job_, count, arriving));
  const std::string end = overdue ? "waits for nodes that prepare" : HowGatheringEnds(job_, count, arriving);
  job_.why = HowManyAreReady(job_, count, waits ? end : "");
  if (starts) {
    MakeRound(now, AssignSeats(std::move(ready), RoundSize(job_, count)), out);
    return true;
  }
  if (waits) return false;
  ConcludeWith(now, kExitUnavailable, TooFewNodes(now, job_, count), out);
  return true;
}

// members: in the order of their ranks. job_.why is the reason why it begins now.
void Coordinator::MakeRound(BootTime now, const std::vector<Candidate>& members, Effects* out) {
  announcements_.OnMembers(job_, members, out);
  job_.refusals.BeginRound();
  std::vector<v1::Round> rounds = AssignRanks(members);
  GreatestRound& greatest = job_.greatest;
  Gathering& gathering = job_.gathering;
  v1::RoundId id;
  // The ledger may come from a round with a greater number than any seen here; the restart count bounds it from
  // below.
  const auto restarts = static_cast<uint64_t>(job_.counts.restart_count);
  id.set_number(1 + std::max({greatest.max_number, greatest.number(), restarts}));
  *id.mutable_epoch() = job_.epoch();
  gathering.largest = std::max(gathering.largest, static_cast<int>(members.size()));
  const bool is_first = gathering.first_round;
  std::map<int, std::string> host_ids;
  for (const v1::Round& round : rounds) {
    host_ids[round.node_rank()] = members[static_cast<size_t>(round.node_rank())].host_id;
  }
  const auto own = std::find_if(members.begin(), members.end(), [](const Candidate& c) { return c.at_primary; });
  for (auto& [host_id, host] : job_.hosts) {
    // Normally cleared already: by StepDraining, or because without a drain no round was known.
    host.part.in_round = host.part.succeeded = false;
    host.exchange.run_seq = host.exchange.stop_seq = 0;
    host.part.lost_at = absl::InfiniteFuture();
  }
  for (size_t i = 0; i < members.size(); ++i) {
    Host& host = job_.hosts.Get(members[i].host_id);
    v1::Round& round = rounds[i];
    *round.mutable_id() = id;
    if (own != members.end()) round.set_coordinator_rank(static_cast<int>(own - members.begin()));
    job_.counts.WriteTo(now, &round);
    round.set_largest_node_count(gathering.largest);
    round.set_max_restarts(job_.options.max_restarts);
    host.part.in_round = true;
    host.part.round = round;
    host.part.workers = host.status.slots();
    host.part.node = NodeFor(host, is_first);
    host.seat = members[i].seat;
  }
  greatest.Become(rounds.front(), now, true);
  greatest.members = std::move(host_ids);
  greatest.counts = job_.counts;
  job_.hang.BeginRound(now);
  gathering.first_round = false;
  gathering.newcomers_since = absl::InfiniteFuture();
  job_.succession.ForgetFarewell();
  job_.succession.BeginRound();
  MUSTER_CHECK(greatest.node_count() >= job_.options.min_nodes && greatest.node_count() <= job_.options.max_nodes,
               "round size outside MIN..MAX");
  Enter(State::kRunning, now, DescribeStart(job_, job_.why), out);
}

// ---- running and draining -----------------------------------------------------------------------------------

// Whether it hangs shows on each tick; what follows is a failure on the node that ends a rank. If nothing is a
// hang, it does not look at the hosts, of which there may be thousands.
void Coordinator::WatchForHang(BootTime now, Effects* out) {
  if (job_.options.hang_timeout == absl::InfiniteDuration()) return;
  Hang& hang = job_.hang;
  const std::optional<bool> stalls = hang.Judge(now, SilenceOf(now, kFreshBeats * Beat(job_) + kTick, job_));
  if (!stalls) return;
  if (!*stalls) {
    if (hang.Dismiss())
      Say(Severity::kInfo, "the workers show signs of life again", out, {.event = events::kHang});
    if (hang.judge.is_cold_silence() && !std::exchange(hang.grace_reported, true))
      Say(Severity::kInfo, DescribeColdSilence(job_), out, {.event = events::kHang});
    return;
  }
  if (hang.reported) return;
  if (hang.question == 0) return AskWhereWorkersStand(now, out);
  if (AllHaveAnswered(job_) || now >= hang.asked_at + kSnapshotAnswers) ActOnHang(now, out);
}

void Coordinator::AskWhereWorkersStand(BootTime now, Effects* out) {
  job_.hang.Ask(now);
  Say(Severity::kWarning, absl::StrCat(DescribeSilence(job_), ": asking all nodes where their workers stand"), out,
      {.event = events::kHang, .round = RoundOf(job_)});
  TellMembersAtOnce();
}

void Coordinator::TellMembersAtOnce() {
  for (auto& [id, host] : job_.hosts) {
    if (host.part.in_round) host.exchange.order_sent = -1;
  }
}

void Coordinator::ActOnHang(BootTime now, Effects* out) {
  Hang& hang = job_.hang;
  const Finding finding = FindHung(job_);
  hang.reported = true;
  hang.question = 0;
  Say(Severity::kError, finding.why, out, {.event = events::kHang, .rank = finding.rank, .round = RoundOf(job_)});
  for (const std::string& line : finding.lines) Say(Severity::kInfo, line, out, {.event = events::kStacks});
  if (job_.options.on_hang == OnHang::kReport)
    return Say(Severity::kWarning, "the job is left as it is (--on-hang report)", out, {.event = events::kHang});
  hang.kill_order.emplace();
  *hang.kill_order->mutable_round() = job_.greatest.id();
  hang.kill_order->set_rank(finding.rank);
  hang.kill_order->set_why(finding.why);
  hang.kill_order->set_is_sure(finding.is_sure);
  hang.kill_ordered_at = now;
  TellMembersAtOnce();
}

bool Coordinator::StepRunning(BootTime now, Effects* out) {
  std::optional<StopReason> why = WhyStop(now, job_);
  if (!why && job_.greatest.succeeded.empty()) {
    NoteNewcomers(now, &job_);
    if (std::optional<std::string> growth = WhyGrow(now, job_)) why = StopReason{.text = *std::move(growth)};
  }
  if (!why) WatchForHang(now, out);
  if (!why) return false;
  Drain(now, *why, out);
  return true;
}

void Coordinator::Drain(BootTime now, const StopReason& why, Effects* out) {
  job_.greatest.drain_cause = why.text;
  job_.greatest.trouble_at = now;
  announcements_.OnDrainBegins();
  // Usually 0 already. An earlier drain may have sent a STOP and turned back to recover a greater round.
  for (auto& [id, host] : job_.hosts) host.exchange.stop_seq = 0;
  Enter(State::kDraining, now, why.is_logged ? absl::StrCat("stopping round ", job_.greatest.number()) : why.text,
        out, {.rank = why.rank, .node_rank = why.node_rank});
}

bool Coordinator::StepDraining(BootTime now, Effects* out) {
  if (job_.farewell) return false;  // the next coordinator counts the cost
  if (!RoundIsDrained(now, job_)) return false;
  NoteLossesOfDrain(now);
  NoteCrashLoops(now, out);
  const RoundAccount round = AccountOf(now, job_);
  job_.counts = job_.greatest.counts.After(round.result, job_.options);
  if (!job_.cancelled_on.empty()) {
    ConcludeWith(now, kExitCancelled, absl::StrCat("cancelled on ", job_.cancelled_on), out);
    return true;
  }
  if (std::optional<v1::Verdict> verdict = VerdictAfter(job_, round)) {
    Conclude(now, *std::move(verdict), out);
    return true;
  }
  // The first cause that was heard of started the drain and has been logged.
  if (round.what != job_.greatest.drain_cause) {
    Say(Severity::kInfo, absl::StrCat("round ", job_.greatest.number(), " ended; root cause: ", round.what), out,
        {.event = events::kRoundEnded, .round = RoundOf(job_)});
  }
  announcements_.OnExcluded(job_, out);
  const bool pauses = round.result.end == EndCause::kWorkerFailure;
  job_.gathering.BeginAfterDrain(
      now, pauses ? job_.counts.DelayBeforeNext(job_.options, random_.Next()) : absl::ZeroDuration());
  Enter(State::kGathering, now, absl::StrCat("drained: ", job_.greatest.drain_cause), out);
  for (auto& [id, host] : job_.hosts) host.part.in_round = host.part.succeeded = false;
  job_.greatest.owned = true;
  return true;
}

// Before the cost of the round is counted, which depends on it.
void Coordinator::NoteCrashLoops(BootTime now, Effects* out) {
  const GreatestRound& greatest = job_.greatest;
  std::set<std::string> lost, kept;
  for (const auto& [rank, node] : greatest.lost) {
    if (!node.empty()) lost.insert(node);
  }
  for (const auto& [id, host] : job_.hosts) {
    const Part& part = host.part;
    if (part.in_round && greatest.lost.count(part.round.node_rank()) == 0) kept.insert(part.node);
  }
  job_.crash_loops.OnRoundEnd(now, greatest.trouble_at - greatest.since, lost, kept);
  if (!RestSuffices(job_)) return;
  for (const std::string& node : lost) {
    const int losses = job_.crash_loops.LossesInARow(node);
    if (losses < 2) continue;
    Say(Severity::kWarning,
        absl::StrCat(node, " was lost ", losses,
                     " times in a row, soon after it had joined: while the others suffice, ",
                     node == kNewNode ? "such nodes are" : "it is", " held back for ",
                     absl::FormatDuration(job_.crash_loops.HeldBackUntil(node) - now),
                     ", and this loss does not count (--max-node-losses)"),
        out, {.event = events::kNodeSetAside, .round = RoundOf(job_)});
  }
}

void Coordinator::NoteLossesOfDrain(BootTime now) {
  GreatestRound& greatest = job_.greatest;
  for (const auto& [id, host] : job_.hosts) {
    const bool lost = host.part.in_round && !host.part.succeeded && host.part.lost_at != absl::InfiniteFuture();
    if (lost)
      greatest.NoteLoss(host.part.lost_at, HowLost(host), false, host.part.round.node_rank(), host.part.node);
  }
  if (const std::string ended = HowPrimaryEnded(job_); !ended.empty()) {
    greatest.NoteLoss(job_.succession.primary_ended_at(), ended);
  } else if (job_.MembersMissing() > 0 && !greatest.loss_at) {
    greatest.NoteLoss(job_.succession.WhenLost(now),
                      absl::StrCat("no heartbeat from ", MissingNames(job_), " since this coordinator started"));
  }
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
  if (verdict.digest() == 0) {  // it is this coordinator's own
    verdict.set_closing_host(WhoCloses(job_));
    verdict.set_digest(DigestOf(verdict));
  }
  job_.verdict = std::move(verdict);
  job_.concluded_at = now;
  Enter(State::kVerdict, now, absl::StrCat("verdict ", job_.verdict->exit_code(), ": ", job_.verdict->reason()),
        out);
}

bool Coordinator::StepVerdict(BootTime now, Effects* out) {
  // After adopting a verdict from an agent, wait for the other members of its round, which are about to reconnect
  // and must receive it, too.
  if (!job_.greatest.owned && job_.MembersMissing() > 0 && now < job_.succession.members_known_until())
    return false;
  if (!AwaitsNoAcknowledgement(now, job_)) return false;
  Enter(State::kReleasing, now, "all nodes have acknowledged the verdict", out);
  return true;
}

}  // namespace muster::rendezvous
