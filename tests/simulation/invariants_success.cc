// A round that succeeded is not run again: what each coordinator has heard of the newest round that it knows.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/invariants.h"

namespace muster::simulation {
namespace {

bool HasLiveWorkers(const HostProcess& host) {
  return std::any_of(host.workers.begin(), host.workers.end(), [](const WorkerProcess* w) { return !w->dead; });
}

}  // namespace

void Invariants::OnStatusHeard(const CoordinatorHome& home, const v1::AgentStatus& status) {
  CoordinatorRecord& coordinator = coordinators_[home.id];
  coordinator.heard_a_verdict |= status.has_verdict();
  // The agent of a dead host alone knows how a job has ended: it is refused, and the job runs again (README).
  if (status.has_verdict() && status.phase() == v1::PHASE_HOST_GONE) return;
  const v1::Round& last = status.last();
  const RoundKey key = KeyOf(last.id());
  // A coordinator that has made a round has left those of others behind, also one of which it hears too late: from
  // the agent of a dead host, where all other nodes were replaced and nobody could know of it.
  const v1::Epoch& epoch = home.core.epoch();
  const auto is_own = [&epoch](const RoundKey& round) {
    return round.epoch_number == epoch.number() && round.epoch_random == epoch.random();
  };
  if (is_own(coordinator.newest_known) && !is_own(key)) return;
  if (key > coordinator.newest_known) coordinator.Know(key);
  if (!last.has_node_rank() || key != coordinator.newest_known) return;
  const bool swept = status.live_workers() == 0 || status.phase() == v1::PHASE_UNUSABLE;
  if (status.outcome() == v1::OUTCOME_SUCCEEDED && swept) {
    // A drain that began when nobody was known to have succeeded, and nobody was there to be told, goes on.
    if (coordinator.succeeded.empty() && home.core.state() == rendezvous::State::kDraining)
      coordinator.drained = key;
    coordinator.succeeded.insert(last.node_rank());
  }
  if (status.outcome() > v1::OUTCOME_SUCCEEDED) coordinator.ended_otherwise.insert(last.node_rank());
}

bool Invariants::KnowsOfSuccess(const CoordinatorRecord& coordinator) const {
  const auto round = rounds_.find(coordinator.newest_known);
  return round != rounds_.end() && static_cast<int>(coordinator.succeeded.size()) == round->second.node_count;
}

// A member of a round that has succeeded as a whole, which has not told this coordinator so and may until its
// lease ends. Who was cut off for longer cannot be known to have succeeded, nor who holds the lease of another
// coordinator, which is cut off with it.
const HostProcess* Invariants::SucceededUnheard(const CoordinatorHome& home,
                                                const CoordinatorRecord& coordinator) const {
  const auto round = rounds_.find(coordinator.newest_known);
  if (round == rounds_.end()) return nullptr;
  const RoundRecord& record = round->second;
  if (static_cast<int>(record.ok_ranks.size()) != record.world_size) return nullptr;
  for (const auto& host : cluster_->hosts()) {
    if (!host->alive || host->finish.has_value() || !cluster_->LeaseRuns(*host)) continue;
    const Session* const session = host->agent == nullptr ? nullptr : host->agent->session;
    if (session != nullptr && session->home != &home) continue;
    for (const auto& [node_rank, id] : record.host_by_node_rank) {
      const bool heard = coordinator.succeeded.count(node_rank) + coordinator.ended_otherwise.count(node_rank) > 0;
      if (id == host->id() && !heard) return host.get();
    }
  }
  return nullptr;
}

// Not one that follows another coordinator, whose lease it holds then.
bool Invariants::MayReturn(const CoordinatorHome& home, const HostProcess& member) const {
  const bool attached = std::any_of(home.sessions.begin(), home.sessions.end(),
                                    [&](const auto& entry) { return entry.second->agent->host == &member; });
  const bool follows = Same(member.memory.epoch(), home.core.epoch());
  return member.alive && follows && !attached && cluster_->LeaseRuns(member);
}

void Invariants::CoordinatorRecord::Know(const RoundKey& round) {
  newest_known = round;
  succeeded.clear();
  ended_otherwise.clear();
  lost_a_member = false;
}

// Who holds a place of the round is what the coordinator knows of it.
void Invariants::OnNodeLost(const CoordinatorHome& home, int node_rank) {
  const rendezvous::GreatestRound& round = home.core.job().greatest;
  CoordinatorRecord& coordinator = coordinators_[home.id];
  const auto member = round.members.find(node_rank);
  if (KeyOf(round.id()) != coordinator.newest_known || member == round.members.end()) return;
  coordinator.lost_a_member = true;
  for (const auto& host : cluster_->hosts()) {
    if (host->id() != member->second || !MayReturn(home, *host)) continue;
    const bool has_drained = home.core.state() == rendezvous::State::kDraining && !HasLiveWorkers(*host);
    if (has_drained) continue;  // it has said so, and needs no lease any more
    Fail(4, absl::StrCat("coordinator ", home.id, " takes node ", node_rank, " (", host->id(),
                         ") for lost, which may return within its lease"));
  }
}

// The first STOP of a round that this coordinator has told: if all others are done, nobody is away who may return.
void Invariants::CheckDrain(const CoordinatorHome& home, const v1::RoundId& round) {
  CoordinatorRecord& coordinator = coordinators_[home.id];
  const RoundKey key = KeyOf(round);
  if (key != coordinator.greatest || key != coordinator.newest_known || key == coordinator.drained) return;
  // Told to a member that succeeded, was lost and came back: the others run on.
  if (home.core.state() == rendezvous::State::kRunning) return;
  coordinator.drained = key;
  const auto& hosts = cluster_->hosts();
  const bool cancelled =
      std::any_of(hosts.begin(), hosts.end(), [](const auto& h) { return h->fate.asked_to_cancel; });
  const auto& members = rounds_[key].host_by_node_rank;
  if (cancelled || coordinator.succeeded.empty() || coordinator.succeeded.size() == members.size()) return;
  if (coordinator.lost_a_member) return;  // which ends the round, and was right: see OnNodeLost
  for (const auto& [node_rank, id] : members) {
    if (coordinator.succeeded.count(node_rank) > 0) continue;
    if (coordinator.ended_otherwise.count(node_rank) > 0) return;  // it has said so
    const auto member =
        std::find_if(hosts.begin(), hosts.end(), [&id = id](const auto& h) { return h->id() == id; });
    if (member == hosts.end() || !MayReturn(home, **member)) return;
  }
  Fail(4, absl::StrCat("coordinator ", home.id, " drains round ", ToString(key),
                       " for absent nodes alone, which may", " return within their leases"));
}

// Two coordinators have made a round of this number, and which of the two is the later one only their order by
// epochs says, which is a random one.
bool Invariants::TwoHaveTheNumberOf(const RoundKey& round) const {
  const auto has_it = [&round](const auto& entry) { return entry.first.number == round.number; };
  return std::count_if(rounds_.begin(), rounds_.end(), has_it) > 1;
}

// The first word of a round that this coordinator has made.
void Invariants::CheckNewRound(const CoordinatorHome& home, const RoundKey& key) {
  CoordinatorRecord& coordinator = coordinators_[home.id];
  const std::string what = absl::StrCat("coordinator ", home.id, " starts round ", ToString(key), ", but ");
  const std::string before = absl::StrCat(" of round ", ToString(coordinator.newest_known));
  if (KnowsOfSuccess(coordinator) && !TwoHaveTheNumberOf(coordinator.newest_known))
    Fail(4, absl::StrCat(what, "has heard that every node", before, " succeeded"));
  if (const HostProcess* host = SucceededUnheard(home, coordinator)) {
    Fail(4, absl::StrCat(what, "every node", before, " succeeded, and ", host->id(), " still holds its lease"));
  }
  coordinator.Know(key);
}

// A round that was left behind may have succeeded, too: what a later one has written since then is not complete.
void Invariants::CheckConcludedSuccess(const CoordinatorHome& home) {
  const CoordinatorRecord& coordinator = coordinators_[home.id];
  if (coordinator.heard_a_verdict || KnowsOfSuccess(coordinator)) return;
  if (TwoHaveTheNumberOf(coordinator.newest_known)) return;
  // Its own round ran on when a node came back from a greater one, which had ended before.
  const rendezvous::GreatestRound& greatest = home.core.job().greatest;
  if (greatest.was_made_here && KeyOf(greatest.id()) != coordinator.newest_known) return;
  Fail(4, absl::StrCat("coordinator ", home.id, " concludes 0, but has not heard that every node of round ",
                       ToString(coordinator.newest_known), " succeeded"));
}

}  // namespace muster::simulation
