#include "rendezvous/core/drain.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/wire/failure.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

bool HasAppliedRun(const Job& job, const Host& host) {
  const uint64_t run = host.exchange.run_seq;
  return job.Follows(host) && run != 0 && host.status.applied().seq() >= run;
}

// absent_may_return: a disconnected member causes no drain until its lease ends and it is lost.
std::optional<std::string> WhyStopFor(BootTime now, const Job& job, const Host& host, bool absent_may_return) {
  if (host.part.succeeded) return std::nullopt;
  const v1::Phase phase = host.status.phase();
  const std::string name = host.Name();
  if (!host.IsAttached() && now > host.closed_at + job.options.reconnect_grace) {
    if (absent_may_return) return std::nullopt;
    return absl::StrCat(name, " disconnected and did not reconnect within ",
                        absl::FormatDuration(job.options.reconnect_grace));
  }
  if (job.LeavesAfterSuccess(host)) return std::nullopt;
  if (host.IsLeaving() || host.IsUnusable()) return HowLost(host);
  if (phase == v1::PHASE_FAILED && job.Claims(host)) {
    if (!host.status.has_failure()) return absl::StrCat(name, " failed");
    const v1::Failure& failure = host.status.failure();
    return absl::StrCat(DescribeFailure(failure), DescribeEcho(failure, job.greatest.round.world_size()));
  }
  const bool applied = HasAppliedRun(job, host);
  if (applied && (phase == v1::PHASE_READY || phase == v1::PHASE_STOPPING)) {
    const bool by_lease = host.status.outcome() == v1::OUTCOME_LEASE_ENDED;
    return absl::StrCat(name, " stopped its workers on its own",
                        by_lease ? absl::StrCat(": ", WhyLeaseEnded(host)) : "");
  }
  if (!applied && host.exchange.run_seq != 0 && now > host.exchange.run_sent_at + kRunLimit) {
    return absl::StrCat(name, " did not start the round within ", absl::FormatDuration(kRunLimit));
  }
  return std::nullopt;
}

bool IsDrained(BootTime now, const Job& job, const Host& host) {
  const bool away = !host.IsAttached() && now > host.closed_at + job.options.reconnect_grace;
  if (now > host.lease_until && (away || StopIsOverdue(now, job, host))) return true;
  const v1::Phase phase = host.status.phase();
  if (phase == v1::PHASE_LEAVING) return host.IsIdle();
  return HasAppliedStop(job, host) && (phase == v1::PHASE_READY || phase == v1::PHASE_UNUSABLE);
}

// If all are, a predecessor that is cut off has no more than its own node, whose lease it cannot renew alone.
bool AllNodesAreAttached(const Job& job) {
  const auto is_here = [](const auto& entry) { return entry.second.IsTrainer() && entry.second.IsAttached(); };
  return std::count_if(job.hosts.begin(), job.hosts.end(), is_here) >= job.options.max_nodes;
}

// The host whose agent contained the known round's coordinator is here with another agent.
bool PredecessorsHostIsBack(const Job& job) {
  const v1::Round& round = job.greatest.round;
  if (!job.greatest.IsKnown() || !round.has_coordinator_rank()) return false;
  return std::any_of(job.hosts.begin(), job.hosts.end(), [&](const auto& entry) {
    return job.Claims(entry.second) && entry.second.part.round.node_rank() == round.coordinator_rank();
  });
}

// At the moment of the cut no round was running, so the predecessor may have made one: its RUN has reached only
// nodes that are not here.
bool MayHideARound(const Job& job) {
  const bool none_ran = job.greatest.IsKnown() ? job.greatest.came_drained : job.succession.had_predecessor();
  return none_ran && !AllNodesAreAttached(job);
}

// The predecessor may still answer members of the known round. A node that is cut off alone with its own
// coordinator ends with its lease, which needs an echo (lease.h).
bool MayHaveMembers(const Job& job) {
  if (!job.greatest.IsKnown()) return false;
  const v1::Round& round = job.greatest.round;
  const bool is_a_member =
      round.has_coordinator_rank() && !job.greatest.losses.ended.contains(round.coordinator_rank());
  return job.MembersUnseen() > (is_a_member ? 1 : 0);
}

// Whether the coordinator before this one may be cut off with members that it still answers: it takes a lease and
// its margin to notice, and then gives them a grace period. It has ended if it said so.
bool PredecessorMayGoOn(const Job& job) {
  if (!job.options.leased() || job.succession.FarewellIsValid() || PredecessorsHostIsBack(job)) return false;
  return MayHideARound(job) || MayHaveMembers(job);
}

}  // namespace

std::optional<StopReason> WhyStop(BootTime now, const Job& job) {
  const GreatestRound& round = job.greatest;
  if (round.losses.at) {
    return StopReason{.text = round.losses.text.empty() ? "a node was lost" : round.losses.text,
                      .is_logged = round.losses.is_logged};
  }
  if (job.asked_to_stop)
    return StopReason{.text = job.asked_to_stop->why, .is_logged = job.asked_to_stop->is_logged};
  if (!round.restart_order.empty()) return StopReason{.text = round.restart_order, .is_logged = true};
  const bool absent_may_return = job.OnlyAbsentNodesRun();
  for (const auto& [id, host] : job.hosts) {
    if (!host.part.in_round) continue;
    std::optional<std::string> why = WhyStopFor(now, job, host, absent_may_return);
    if (!why) continue;
    const bool failed = host.status.phase() == v1::PHASE_FAILED && host.status.has_failure();
    return StopReason{.text = *std::move(why),
                      .rank = failed ? host.status.failure().rank() : -1,
                      .node_rank = host.part.round.node_rank()};
  }
  // The node cannot end its hung worker, and the stop of the round will show why.
  const Hang& hang = job.hang;
  if (hang.kill_order && now >= hang.kill_ordered_at + kHungEnds) {
    return StopReason{.text = hang.kill_order->why(), .is_logged = true, .rank = hang.kill_order->rank()};
  }
  return std::nullopt;
}

BootTime PredecessorsLeasesEnd(const Job& job) {
  const BootTime end = job.succession.members_known_until();
  if (!PredecessorMayGoOn(job)) return end;
  return end + job.options.lease + job.options.margin() + job.options.shutdown_grace;
}

bool PredecessorsRoundMayRun(BootTime now, const Job& job) {
  if (job.greatest.is_controlled || now >= PredecessorsLeasesEnd(job)) return false;
  if (job.PrimaryIsKnownEnded()) {
    std::set<int> accounted = job.AccountedFor();
    accounted.insert(job.succession.farewell()->node_rank());
    return static_cast<int>(accounted.size()) < job.greatest.node_count();
  }
  return job.MembersMissing() > 0 || (job.options.leased() && job.succession.had_predecessor());
}

// Without all members this coordinator may be the one that is cut off, and its successor waits for no more than a
// grace period after this one has noticed (PredecessorsLeasesEnd). So a node that leaves has that, too, and no
// more.
bool StopIsOverdue(BootTime now, const Job& job, const Host& host) {
  const CoordinatorOptions& options = job.options;
  const BootTime grace_ends = job.greatest.drain.began + options.shutdown_grace;
  if (!options.leased() || now <= grace_ends) return false;
  if (job.MembersUnseen() > 0) {
    const BootTime missed_at = job.greatest.losses.missed_at.value_or(job.greatest.drain.began);
    return !host.IsLeaving() || now > missed_at + options.shutdown_grace;
  }
  return now > grace_ends + (host.IsLeaving() ? kLeaveLimit : kStopLimit);
}

bool HasAppliedStop(const Job& job, const Host& host) {
  const uint64_t stop = host.exchange.stop_seq;
  return stop != 0 && job.Follows(host) && host.status.applied().seq() >= stop;
}

bool RoundIsDrained(BootTime now, const Job& job) {
  return !PredecessorsRoundMayRun(now, job) &&
         std::none_of(job.hosts.begin(), job.hosts.end(),
                      [&](const auto& entry) { return HoldsUpDrain(now, job, entry.second); });
}

bool HoldsUpDrain(BootTime now, const Job& job, const Host& host) {
  return host.part.in_round ? !IsDrained(now, job, host) : host.RunsSomething() && now <= host.lease_until;
}

}  // namespace muster::rendezvous
