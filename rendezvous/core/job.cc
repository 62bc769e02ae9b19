#include "rendezvous/core/job.h"

#include <algorithm>
#include <utility>

#include "base/wire/ids.h"

namespace muster::rendezvous {

Job::Job(CoordinatorOptions options_given, BootTime now, uint64_t random)
    : options(std::move(options_given)),
      began(now),
      state_since(now),
      succession(now, options.lease + options.margin(), random),
      gathering(now),
      hang(StallJudge(options.hang_timeout, options.start_timeout), random),
      pauses(now, options.lease),
      stacks(random),
      ranks(random),
      signalling(random) {}

// ---- one host -----------------------------------------------------------------------------------------------

bool Job::IsReady(const Host& host) const {
  return host.IsAttached() && !host.status.has_cannot_start() && host.status.phase() == v1::PHASE_READY &&
         IsCurrent(host) && !host.status.offer().host().empty();
}

bool Job::MadeItsRound() const {
  return greatest.is_controlled && greatest.was_made_here && Same(greatest.id().epoch(), epoch());
}

const Host* Job::OwnHost() const {
  const auto own =
      std::find_if(hosts.begin(), hosts.end(), [](const auto& entry) { return entry.second.status.at_primary(); });
  return own == hosts.end() ? nullptr : &own->second;
}

const Host* Job::HostOf(int rank) const {
  const auto found =
      std::find_if(hosts.begin(), hosts.end(), [rank](const auto& entry) { return entry.second.HasRank(rank); });
  return found == hosts.end() ? nullptr : &found->second;
}

bool Job::Claims(const Host& host) const {
  const v1::Round& last = host.status.last();
  return greatest.IsKnown() && last.has_node_rank() && Same(last.id(), greatest.id()) &&
         greatest.MayBe(host.status.host_id(), last.node_rank());
}

bool Job::WasMember(const Host& host) const {
  return Claims(host) || (greatest.IsKnown() && Same(host.part.round.id(), greatest.id()));
}

// The outcome decides, not the phase: the node may have applied a STOP since, be leaving, have lost its main
// process, or have a process that cannot be ended. Processes that its workers left behind must have ended, unless
// they cannot be ended.
bool Job::HasSucceeded(const Host& host) const {
  if (!Claims(host)) return false;
  return host.status.outcome() == v1::OUTCOME_SUCCEEDED && (host.IsIdle() || host.IsUnusable());
}

// A node that was asked to leave after its success may report both at once, and processes that its workers left
// behind may still be ending.
bool Job::LeavesAfterSuccess(const Host& host) const {
  return Claims(host) && host.IsLeaving() && host.status.outcome() == v1::OUTCOME_SUCCEEDED;
}

bool Job::CostsTheRound(const Host& host) const { return host.part.in_round && !host.part.succeeded && !IsOver(); }

bool Job::CannotStart(const Host& host) const {
  return host.status.has_cannot_start() && host.IsTrainer() && gathering.first_round;
}

bool Job::IsExcluded(const std::string& host_id, BootTime now) const {
  const auto it = counts.excluded.find(host_id);
  return it != counts.excluded.end() && now < it->second;
}

bool Job::IsHeldBack(const Host& host, BootTime now) const {
  return now < crash_loops.HeldBackUntil(NodeFor(host, gathering.first_round));
}

// ---- the greatest round -------------------------------------------------------------------------------------

// A reported success stays valid wherever its node is now. While recovering, all attached members must follow this
// epoch: until then another coordinator may have a later round for them.
bool Job::EveryNodeSucceeded() const {
  if (!greatest.IsKnown() || !greatest.AllSucceeded()) return false;
  if (state != State::kRecovering) return true;
  return std::all_of(hosts.begin(), hosts.end(), [this](const auto& entry) {
    const Host& host = entry.second;
    return !host.IsAttached() || !Claims(host) || Follows(host);
  });
}

// A drain because of a disconnected member stops the others early. If all attached members have succeeded there
// are no workers to stop, and the disconnected one may return within its lease, finished or still running.
bool Job::OnlyAbsentNodesRun() const {
  if (greatest.successes.ranks.empty()) return false;
  return std::all_of(hosts.begin(), hosts.end(), [](const auto& entry) {
    const Host& host = entry.second;
    return !host.part.in_round || !host.IsAttached() || host.part.succeeded;
  });
}

bool Job::SomeProgressed() const {
  const auto progressed = [this](const auto& entry) {
    return Claims(entry.second) && entry.second.status.progressed();
  };
  return greatest.gone.had_progressed || std::any_of(hosts.begin(), hosts.end(), progressed);
}

bool Job::ProgressIsWatched() const {
  const auto watches = [this](const auto& entry) {
    return Claims(entry.second) && entry.second.status.watches_progress();
  };
  return greatest.gone.watched_progress || std::any_of(hosts.begin(), hosts.end(), watches);
}

std::set<int> Job::AccountedFor() const {
  std::set<int> accounted = greatest.successes.departed;
  for (const auto& [id, host] : hosts) {
    if (host.part.in_round) accounted.insert(host.part.round.node_rank());
  }
  return accounted;
}

int Job::MembersMissing() const { return greatest.node_count() - static_cast<int>(AccountedFor().size()); }

// A drain asks for each status, so this makes no set.
int Job::MembersUnseen() const {
  const std::set<int>& departed = greatest.successes.departed;
  const auto counted = [&](int rank) { return departed.count(rank) > 0; };
  int seen = static_cast<int>(departed.size());
  for (const int rank : greatest.losses.ended) seen += counted(rank) ? 0 : 1;
  for (const auto& [id, host] : hosts) {
    const int rank = host.part.round.node_rank();
    seen += host.part.in_round && !counted(rank) && greatest.losses.ended.count(rank) == 0 ? 1 : 0;
  }
  return greatest.node_count() - seen;
}

std::vector<FailureRef> Job::Failures() const {
  std::vector<FailureRef> failures = RefsTo(greatest.gone.failures);
  for (const auto& [id, host] : hosts) {
    if (!host.part.in_round || !host.status.has_failure()) continue;
    if (!Same(host.status.failure().round(), greatest.id())) continue;
    failures.push_back({&host.status.failure(), &id, host.failed_at});
  }
  return failures;
}

// ---- the predecessor's farewell -----------------------------------------------------------------------------

std::optional<int> Job::RankOfEndedPrimary() const {
  if (greatest.is_controlled || !succession.FarewellIsValid()) return std::nullopt;
  const int rank = succession.farewell()->node_rank();
  if (AccountedFor().count(rank) > 0) return std::nullopt;
  return rank;
}

bool Job::PrimaryIsKnownEnded() const {
  if (greatest.is_controlled || !succession.FarewellIsValid()) return false;
  int told = 0;
  for (const auto& [id, host] : hosts) {
    if (!host.IsTrainer()) continue;
    if (host.HadAPart() && !host.told_by_predecessor) return false;
    told += host.IsAttached() && host.told_by_predecessor && Follows(host) ? 1 : 0;
  }
  return told >= succession.farewell()->known_to();
}

// ---- all nodes ----------------------------------------------------------------------------------------------

int Job::CountCannotStart() const {
  return static_cast<int>(std::count_if(hosts.begin(), hosts.end(), [this](const auto& entry) {
    const Host& host = entry.second;
    return host.IsAttached() && hosts.HoldsPlace(host) && CannotStart(host);
  }));
}

// A node that leaves is waited for until it has gone, so that its workers keep the time that they have to save.
bool Job::NeedsCoordinator(BootTime now, const Host& host) const {
  const bool here = host.IsAttached() || now < host.closed_at + options.reconnect_grace;
  if (!here) return false;
  if (host.IsLeaving()) return now < *asked_to_end_at + kLeaveLimit;
  return host.RunsSomething() && now < *asked_to_end_at + kOthersAskedWithin;
}

// The primary leaves last: it waits, at most kReleaseLimit, for the other nodes to apply RELEASE and close their
// streams, or to reconnect and do so.
bool Job::OthersAttached(BootTime now, const Host& primary) const {
  if (state == State::kReleasing && now > state_since + kReleaseLimit) return false;
  for (const auto& [id, other] : hosts) {
    if (&other == &primary) continue;
    if (state == State::kReleasing || (other.IsAttached() && !other.IsIdle())) return true;
  }
  return AwaitsLatecomers(now);
}

// The nodes of a job start at about the same time, but a job of MIN:MAX nodes may be over before the last node has
// connected. That node would find no coordinator and wait for --join-timeout, so the primary stays until
// kLatecomers after its own start. A job that took longer, was cancelled or asked to leave, or never had a round
// ends at once. So does one whose coordinator had a predecessor: it does not know which nodes were there before.
bool Job::AwaitsLatecomers(BootTime now) const {
  if (state != State::kReleasing || succession.had_predecessor() || MakesNoMoreRounds() || asked_to_stop) {
    return false;
  }
  if (!greatest.IsKnown()) return false;
  return now < began + kLatecomers && hosts.places_seen().size() < options.place_names.size();
}

}  // namespace muster::rendezvous
