#include "tests/simulation/policies.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/wire/ids.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/invariants.h"

namespace muster::simulation {
namespace {

constexpr Micros kSameMoment = 50 * kMillisecond;  // within it a signal beats an exit code
constexpr Micros kSlack = kSecond;                 // for events at a tick or a heartbeat
constexpr int kChances = 3;                        // statuses heard after the time for a decision has come
constexpr int kRestartsWithoutProgress = 3;
constexpr Micros kNever = int64_t{1} << 60;

Micros Longer(Micros time) { return time + time / 50; }  // tolerance for the drift between any two clocks
Micros Shorter(Micros time) { return time - time / 50; }

}  // namespace

struct Policies::RoundRecord {
  std::string name;
  int home = 0;
  Micros told_at = 0;
  std::map<std::string, const HostProcess*> members;
  v1::Round told;
  bool complete = false;
  std::map<std::string, Micros> excluded;  // by host id: for how long from told_at
  std::vector<WorkerFailure> failures;
  Micros progressed_at = -1;
  Micros ended_at = -1;     // when the next round was sent
  v1::Epoch ended_in;       // of the coordinator that sent it
  std::string stopped_for;  // the cause in its first STOP
};

struct Policies::HostRecord {
  v1::AgentStatus status;
  Micros ready_since = -1;  // in the current round or gathering
  const Session* heard_on = nullptr;
  const Session* session = nullptr;  // the newest with a directive
  std::string failed_in;             // the round of the newest failure that it reported,
  Micros failed_by = kNever;         // and by when it must have happened
  uint64_t first_directive = 0;      // on that session: an older status does not count
  v1::Epoch epoch;
};

struct Policies::HomeRecord {
  std::map<std::string, HostRecord> hosts;  // by host id, from statuses
  std::optional<RoundKey> round;            // the newest round that it made itself
  Micros newcomer_since = -1;               // when the first non-member was ready in that round
  bool stopped = false;                     // that round was stopped
  int chances = 0;                          // statuses since a newcomer should have been taken in,
  int waits = 0;                            // since a round should have been made
  Micros ran_at = -1;                       // when it last ran a round
};

Policies::Policies(const Scenario& scenario, const Environment* env, const Cluster* cluster,
                   Invariants* invariants)
    : scenario_(scenario), env_(env), cluster_(cluster), invariants_(invariants) {}
Policies::~Policies() = default;

void Policies::Fail(int number, const std::string& what) { invariants_->Fail(number, what); }

int Policies::RoundSize(int ready) const {
  const int size = std::min(ready, scenario_.job.max_nodes);
  return size - size % scenario_.job.node_unit;
}

// ---- who could be in a round

void Policies::OnStatus(const Session& session, const v1::AgentStatus& status) {
  const HostProcess& from = *session.agent->host;
  HomeRecord& record = homes_[session.home->id];
  HostRecord& host = record.hosts[from.id()];
  const auto number = [](const v1::StatusId& id) { return std::make_pair(id.agent_number(), id.seq()); };
  if (number(status.id()) <= number(host.status.id())) return;  // a repeated status
  const bool ready =
      status.phase() == v1::PHASE_READY && !status.offer().host().empty() && !status.has_cannot_start();
  if (!ready || host.heard_on != &session) host.ready_since = -1;  // after an absence it counts as new
  host.heard_on = &session;
  if (ready && host.ready_since < 0) host.ready_since = env_->now();
  host.status = status;
  const rendezvous::State state = session.home->core.state();
  const bool undecided = state == rendezvous::State::kRunning || state == rendezvous::State::kDraining;
  if (undecided && status.has_failure() && !status.failure().after_our_signal()) {
    const std::string round = ToString(KeyOf(status.failure().round()));
    if (host.failed_in != round) host.failed_by = kNever;
    host.failed_in = round;
    host.failed_by = std::min(host.failed_by, env_->now() - Shorter(status.failure().age_ms() * kMillisecond));
  }
  if (!ready || !record.round || rounds_[*record.round].members.count(from.id()) > 0) return;
  if (record.newcomer_since < 0) record.newcomer_since = env_->now();
}

// Whether a coordinator that knows the host can use it for a round.
bool Policies::IsCandidate(const CoordinatorHome& home, const HostProcess& host) const {
  if (host.place >= scenario_.job.nodes || !host.runs() || host.fate.zombie || host.fate.asked_to_leave ||
      host.fate.asked_to_cancel) {
    return false;
  }
  const AgentProcess* agent = host.agent;
  if (agent == nullptr || !agent->runs() || agent->session == nullptr || agent->session->home != &home)
    return false;
  if (!agent->session->agent_open || !agent->session->coordinator_open) return false;
  const auto& heard = homes_.at(home.id).hosts;
  const auto it = heard.find(host.id());
  if (it == heard.end() || it->second.ready_since < 0 || it->second.session != agent->session) return false;
  const v1::DirectiveId& applied = it->second.status.applied();
  if (!Same(applied.epoch(), it->second.epoch) || applied.seq() < it->second.first_directive) return false;
  // An older host of the place may hold it still.
  const auto& hosts = cluster_->hosts();
  return std::none_of(hosts.begin(), hosts.end(), [&](const auto& other) {
    return other.get() != &host && scenario_.job.places != Places::kNone && other->place == host.place &&
           heard.count(other->id()) > 0;
  });
}

std::vector<const HostProcess*> Policies::Newcomers(const CoordinatorHome& home, const RoundRecord& round) const {
  std::vector<const HostProcess*> newcomers;
  for (const auto& host : cluster_->hosts()) {
    if (round.members.count(host->id()) > 0 || !IsCandidate(home, *host)) continue;
    const auto aside = round.excluded.find(host->id());
    if (aside != round.excluded.end() && env_->now() < round.told_at + Longer(aside->second) + kSlack) continue;
    if (IsHeldBack(home, *host)) continue;
    newcomers.push_back(host.get());
  }
  return newcomers;
}

// Or was, until a moment ago: it settles first.
bool Policies::IsHeldBack(const CoordinatorHome& home, const HostProcess& host) const {
  const rendezvous::Host* known = home.core.job().hosts.Find(host.id());
  if (known == nullptr) return false;
  const std::string node = rendezvous::NodeFor(*known, home.core.job().gathering.first_round);
  const BootTime until = home.core.job().crash_loops.HeldBackUntil(node);
  const BootTime now = home.owner->machine->BootAt(env_->now());
  return now < until + absl::Microseconds(Longer(scenario_.policy.join_settle) + kSlack);
}

// Where all nodes give rank 0 as a hint, a new one stands by for that place until the coordinator has found out
// that its holder is alive, and gives the new one another rank. A round that starts before cannot count on it.
// CheckGrowth and CheckGathering see to it that no node stands by for ever.
bool Policies::AwaitsItsRank(const CoordinatorHome& home, const HostProcess& host) const {
  const rendezvous::Hosts& hosts = home.core.job().hosts;
  const rendezvous::Host* known = hosts.Find(host.id());
  return known != nullptr && known->status.place_is_hint() && !hosts.HoldsPlace(*known);
}

// Only a node that was in two rounds at least, and not for longer than the limit.
void Policies::CheckHeldBack(const CoordinatorHome& home, const rendezvous::Host& known) {
  const std::string node = rendezvous::NodeFor(known, home.core.job().gathering.first_round);
  const auto was_in = [&](const auto& round) {
    return std::any_of(round.second.members.begin(), round.second.members.end(), [&](const auto& member) {
      return !known.status.has_place() || member.second->options.config.place() == known.status.place();
    });
  };
  const auto rounds = std::count_if(rounds_.begin(), rounds_.end(), was_in);
  const BootTime now = home.owner->machine->BootAt(env_->now());
  const bool too_long = home.core.job().crash_loops.HeldBackUntil(node) > now + rendezvous::kMaxHoldBack;
  if (rounds >= 2 && !too_long) return;
  Fail(7, absl::StrCat("coordinator ", home.id, " holds ", known.status.host_id(), " back, whose node was in ",
                       rounds, " rounds"));
}

// ---- growth

void Policies::AfterStatus(const CoordinatorHome& home) {
  const rendezvous::State state = home.core.state();
  const bool has_round = state == rendezvous::State::kRunning || state == rendezvous::State::kDraining;
  if (has_round) homes_[home.id].ran_at = env_->now();
  CheckGrowth(home);
  CheckGathering(home);
  for (const auto& [id, known] : home.core.job().hosts) {
    if (home.core.job().IsHeldBack(known, home.owner->machine->BootAt(env_->now()))) CheckHeldBack(home, known);
  }
}

// A spare that waits longer than the settle time although there is room was forgotten.
void Policies::CheckGrowth(const CoordinatorHome& home) {
  HomeRecord& record = homes_[home.id];
  if (!record.round || scenario_.policy.scale_up != v1::NodeConfig::SCALE_UP_IMMEDIATE) return;
  const RoundRecord& round = rounds_[*record.round];
  // One more change would end the job.
  if (scenario_.policy.max_membership_changes > 0 &&
      round.told.idle_changes() >= scenario_.policy.max_membership_changes)
    return;
  const bool runs = home.core.state() == rendezvous::State::kRunning && round.complete && !record.stopped &&
                    !home.core.job().MakesNoMoreRounds() && KeyOf(home.core.greatest().id()) == *record.round;
  const std::vector<const HostProcess*> newcomers =
      runs ? Newcomers(home, round) : std::vector<const HostProcess*>();
  Micros since = -1;
  for (const HostProcess* host : newcomers) {
    since = std::max(since, record.hosts[host->id()].ready_since);
    const auto aside = round.excluded.find(host->id());
    if (aside != round.excluded.end()) since = std::max(since, round.told_at + Longer(aside->second));
  }
  const int node_count = static_cast<int>(round.members.size());
  const bool room = RoundSize(node_count + static_cast<int>(newcomers.size())) > node_count;
  since = std::max({since, round.told_at, home.owner->runs_since});  // one that has been stopped reads first
  const auto some_succeeded = [&] {
    return std::any_of(round.members.begin(), round.members.end(), [&](const auto& member) {
      const auto heard = record.hosts.find(member.first);
      return heard == record.hosts.end() || heard->second.status.phase() != v1::PHASE_RUNNING;
    });
  };
  if (!runs || !room || env_->now() < since + Longer(scenario_.policy.join_settle) + kSlack || some_succeeded()) {
    record.chances = 0;
    return;
  }
  if (++record.chances <= kChances * static_cast<int>(record.hosts.size())) return;
  Fail(7, absl::StrCat("coordinator ", home.id, ": ", newcomers.front()->id(), " stands by, though round ",
                       round.name, " has room for it"));
}

// Once the maximum number of nodes is ready, excluded or not, only a lease, a pause or the primary's return may
// delay the round.
void Policies::CheckGathering(const CoordinatorHome& home) {
  HomeRecord& record = homes_[home.id];
  if (home.core.state() != rendezvous::State::kGathering || scenario_.policy.restart_delay > 0) {
    record.waits = 0;
    return;
  }
  Micros since = -1;
  int ready = 0;
  for (const auto& host : cluster_->hosts()) {
    if (!IsCandidate(home, *host)) continue;
    since = std::max(since, record.hosts[host->id()].ready_since);
    ++ready;
  }
  // A node that may be fit soon keeps its rank from a spare.
  const bool some_prepare = std::any_of(record.hosts.begin(), record.hosts.end(), [](const auto& entry) {
    return !entry.second.status.preparing().empty();
  });
  const HostProcess* primary = cluster_->HostAt(0);
  const bool primary_leaves = primary != nullptr && primary->fate.asked_to_leave;
  const Micros patience = Longer(scenario_.limits.lease + scenario_.limits.reconnect_grace) + 2 * kSlack;
  if (RoundSize(ready) < RoundSize(scenario_.job.max_nodes) || primary_leaves || some_prepare ||
      env_->now() < since + patience) {
    record.waits = 0;
    return;
  }
  if (++record.waits <= kChances * static_cast<int>(record.hosts.size())) return;
  Fail(7, absl::StrCat("coordinator ", home.id, " makes no round, though ", ready, " nodes are ready"));
}

void Policies::OnStop(const CoordinatorHome& home, const v1::Stop& stop) {
  HomeRecord& record = homes_[home.id];
  if (!record.round || KeyOf(stop.round()) != *record.round || record.stopped) return;
  record.stopped = true;
  RoundRecord& round = rounds_[*record.round];
  if (round.stopped_for.empty()) round.stopped_for = stop.cause();
  if (!absl::EndsWith(stop.cause(), " new node is ready to join") &&
      !absl::EndsWith(stop.cause(), " new nodes are ready to join")) {
    return;
  }
  const std::string where =
      absl::StrCat("coordinator ", home.id, " restarts round ", round.name, " for new nodes, ");
  if (scenario_.policy.scale_up != v1::NodeConfig::SCALE_UP_IMMEDIATE) {
    return Fail(7, absl::StrCat(where, "which --scale-up does not allow"));
  }
  const auto ready = std::count_if(record.hosts.begin(), record.hosts.end(), [&](const auto& entry) {
    return round.members.count(entry.first) == 0 && entry.second.ready_since >= 0;
  });
  if (ready == 0) {
    // The nodes that were ready at the decision may have left since.
    if (record.newcomer_since < 0) Fail(7, absl::StrCat(where, "but none is ready"));
    return;
  }
  const int size = RoundSize(static_cast<int>(round.members.size() + ready));
  const bool full = size == RoundSize(scenario_.job.max_nodes);
  if (full || env_->now() >= record.newcomer_since + Shorter(scenario_.policy.join_settle)) return;
  Fail(7, absl::StrCat(where, "but they settle for ", scenario_.policy.join_settle / kMillisecond,
                       " ms, and the first was ready ", (env_->now() - record.newcomer_since) / kMillisecond,
                       " ms ago"));
}

// ---- a new round

void Policies::OnDirectiveSent(const Session& session, const v1::Directive& directive) {
  const CoordinatorHome& home = *session.home;
  const HostProcess& to = *session.agent->host;
  HostRecord& host = homes_[home.id].hosts[to.id()];
  if (host.session != &session || !Same(host.epoch, directive.id().epoch())) {
    host.session = &session;
    host.first_directive = directive.id().seq();
    host.epoch = directive.id().epoch();
  }
  if (directive.has_run()) OnRun(home, to, directive.run());
  if (directive.has_stop()) OnStop(home, directive.stop());
  if (directive.has_verdict()) OnVerdict(home, directive.verdict());
}

void Policies::OnRun(const CoordinatorHome& home, const HostProcess& to, const v1::Round& round) {
  if (!round.has_node_rank()) return;
  const RoundKey key = KeyOf(round.id());
  RoundRecord& record = rounds_[key];
  if (record.complete) return;
  if (record.members.empty()) {
    record.name = ToString(key);
    record.home = home.id;
    record.told_at = env_->now();
    record.told = round;
    for (const v1::Exclusion& exclusion : round.excluded()) {
      if (exclusion.left_ms() > 0) record.excluded[exclusion.host_id()] = exclusion.left_ms() * kMillisecond;
    }
  }
  record.members[to.id()] = &to;
  if (static_cast<int>(record.members.size()) < round.node_count()) return;
  record.complete = true;
  OnComplete(home, record);
  HomeRecord& maker = homes_[home.id];
  if (record.home == home.id) maker.round = key;
  const bool some_stand_by = std::any_of(maker.hosts.begin(), maker.hosts.end(), [&](const auto& entry) {
    return record.members.count(entry.first) == 0 && entry.second.ready_since >= 0;
  });
  maker.newcomer_since = some_stand_by ? env_->now() : -1;
  maker.stopped = false;
  maker.chances = 0;
}

void Policies::OnComplete(const CoordinatorHome& home, const RoundRecord& round) {
  if (round.home != home.id) return;
  CheckExcluded(home, round);
  const HomeRecord& maker = homes_[home.id];
  for (auto& [key, other] : rounds_) {
    if (&other == &round || other.ended_at >= 0) continue;
    other.ended_at = round.told_at;
    other.ended_in = home.core.epoch();
  }
  if (!maker.round) return;
  const RoundRecord& before = rounds_[*maker.round];
  // It may have learned another history since then, and continue that one.
  if (!Same(before.told.id().epoch(), round.told.id().epoch())) return;
  CheckKeptRanks(home, before, round);
  CheckPause(before, round);
  CheckCharged(before, round);
  CheckCulprit(home, before, round);
}

// A spare that is ready earlier does not displace a member that continues.
void Policies::CheckKeptRanks(const CoordinatorHome& home, const RoundRecord& before, const RoundRecord& round) {
  if (scenario_.job.places != Places::kNone) return;
  const auto newcomer = std::find_if(round.members.begin(), round.members.end(),
                                     [&](const auto& member) { return before.members.count(member.first) == 0; });
  if (newcomer == round.members.end()) return;
  for (const auto& [id, host] : before.members) {
    const bool aside = round.excluded.count(id) > 0 || IsHeldBack(home, *host);
    if (round.members.count(id) > 0 || aside || !IsCandidate(home, *host)) continue;
    if (host->agent->session->first_heard > before.told_at) continue;  // it was away and may have been forgotten
    return Fail(7, absl::StrCat("round ", round.name, ": ", newcomer->first, " has the rank of ", id,
                                ", which is ready, too"));
  }
}

void Policies::CheckPause(const RoundRecord& before, const RoundRecord& round) {
  const int fast = round.told.fast_failures();
  const bool charged = fast == before.told.fast_failures() + 1 && round.told.failures() > before.told.failures();
  if (scenario_.policy.restart_delay == 0 || fast < 2 || !charged || before.failures.empty()) return;
  constexpr int kMaxDoublings = 6;  // limit of the check
  const Micros least = (scenario_.policy.restart_delay << std::min(fast - 2, kMaxDoublings)) / 2;
  const Micros first = before.failures.front().at;
  if (env_->now() - first >= Shorter(std::min<Micros>(least, 30 * kSecond))) return;
  Fail(7,
       absl::StrCat("round ", round.name, ": ", fast, " rounds failed fast, the pause is ", least / kMillisecond,
                    " ms or more, but the last failed ", (env_->now() - first) / kMillisecond, " ms ago"));
}

void Policies::CheckExcluded(const CoordinatorHome& home, const RoundRecord& round) {
  int sound = 0;
  std::string taken;
  for (const auto& [id, host] : round.members) {
    if (round.excluded.count(id) > 0) taken = id;
    sound += round.excluded.count(id) > 0 ? 0 : 1;
  }
  for (const HostProcess* host : Newcomers(home, round)) sound += AwaitsItsRank(home, *host) ? 0 : 1;
  if (!taken.empty() && RoundSize(sound) >= scenario_.job.min_nodes) {
    return Fail(7, absl::StrCat("round ", round.name, ": ", taken, " is set aside, but takes part, and ", sound,
                                " others suffice"));
  }
  for (const auto& [id, left] : round.excluded) {
    const int failed = static_cast<int>(failed_rounds_[id].size());
    if (failed < scenario_.policy.exclude_after || scenario_.policy.exclude_after == 0) {
      return Fail(7, absl::StrCat("round ", round.name, ": ", id, " is set aside after ", failed,
                                  " rounds in which its workers failed"));
    }
    const RoundRecord& last = rounds_[*failed_rounds_[id].rbegin()];
    // A coordinator that restarted since may not know that end.
    const Micros set_at = Same(last.ended_in, home.core.epoch()) ? last.ended_at : env_->now();
    if (env_->now() + left <= set_at + Longer(scenario_.policy.exclude_for) + kSlack) continue;
    return Fail(7, absl::StrCat("round ", round.name, ": ", id, " is set aside for ", left / kMillisecond,
                                " ms more, ", (env_->now() - set_at) / kMillisecond, " ms after it last failed"));
  }
}

// ---- failures

void Policies::OnFailure(const WorkerProcess& worker, bool by_signal) {
  const v1::NodeConfig& config = worker.host->options.config;
  rounds_[worker.round].failures.push_back({worker.word.at >= 0 ? worker.word.at : env_->now(), worker.host->id(),
                                            config.hostname(), worker.rank, by_signal});
  failed_rounds_[worker.host->id()].insert(worker.round);
}

void Policies::OnProgress(const HostProcess& host, const RoundKey& round) {
  if (host.agent != nullptr && host.agent->runs()) rounds_[round].progressed_at = env_->now();
}

// The order of messages is not checked once anything but a worker's own failure has happened.
bool Policies::Clean(const RoundRecord& round) const {
  const bool lossy = scenario_.network.lossy();
  return round.complete && !lossy && env_->disturbed_at() < round.told_at;
}

// Then the worker's own time of its failure differs.
bool Policies::ClockWasSetIn(const RoundRecord& round) const {
  return scenario_.workers.early_words_percent > 0 && cluster_->wall_clock_set_at() >= round.told_at;
}

// Latest time of this round's first failure as known to this coordinator: arrival of a report minus the age in it.
// Never earlier than the failure.
Micros Policies::FirstHeard(const CoordinatorHome& home, const RoundRecord& round) const {
  Micros first = kNever;
  for (const auto& [id, host] : homes_.at(home.id).hosts) {
    if (host.failed_in == round.name) first = std::min(first, host.failed_by);
  }
  return first;
}

// A round that was stopped because a worker failed, and lost no node, costs a restart. The loss of a node in a
// crash loop costs nothing: that node is held back from the next round.
void Policies::CheckCharged(const RoundRecord& before, const RoundRecord& round) {
  if (!Clean(before) || !absl::StartsWith(before.stopped_for, "rank ")) return;
  const bool lost_one = round.told.loss_ages_ms_size() != before.told.loss_ages_ms_size();
  const bool one_is_held_back = std::any_of(before.members.begin(), before.members.end(), [&](const auto& member) {
    return round.members.count(member.first) == 0 && round.excluded.count(member.first) == 0;
  });
  if (lost_one || one_is_held_back || round.told.failures() != before.told.failures()) return;
  Fail(7, absl::StrCat("round ", before.name, " was stopped for a failure (", before.stopped_for, "), but round ",
                       round.name, " counts no failure more"));
}

void Policies::CheckCulprit(const CoordinatorHome& home, const RoundRecord& before, const RoundRecord& round) {
  const std::string& culprit = round.told.culprit();
  if (ClockWasSetIn(before)) return;
  if (round.told.failures() != before.told.failures() + 1) return;
  const Micros until = FirstHeard(home, before) + kSameMoment;
  Micros named = kNever;
  for (const WorkerFailure& f : before.failures) {
    if (f.host_id == culprit) named = std::min(named, f.at);
  }
  if (named <= until || named == kNever) return;
  Fail(8, absl::StrCat("round ", before.name, " failed on ", culprit,
                       ", is said, but it was known that another failed ",
                       (named - until + kSameMoment) / kMillisecond, " ms earlier"));
}

// ---- the verdict

void Policies::OnVerdict(const CoordinatorHome& home, const v1::Verdict& verdict) {
  if (!verdicts_.insert(verdict.reason()).second) return;  // already decided
  if (verdict.origin() == "worker") {
    CheckBudget(verdict);
    CheckCause(home, verdict);
  }
  if (verdict.exit_code() == kExitNoProgress) CheckNoProgress(verdict);
  if (absl::StartsWith(verdict.reason(), "too few nodes: ")) CheckTooFew(home, verdict);
}

// A gathering that fails lasts as long as its timeout, and lacks nodes that are needed.
void Policies::CheckTooFew(const CoordinatorHome& home, const v1::Verdict& verdict) {
  int ready = 0;
  if (std::sscanf(verdict.reason().c_str(), "too few nodes: %d of", &ready) != 1) return;
  if (RoundSize(ready) >= scenario_.job.min_nodes) {
    return Fail(7, absl::StrCat("the verdict is \"", verdict.reason(), "\", but they suffice"));
  }
  const Micros ran_at = homes_[home.id].ran_at;
  if (ran_at < 0 || env_->now() - ran_at >= Shorter(scenario_.limits.rejoin_timeout)) return;
  Fail(7, absl::StrCat("the verdict is \"", verdict.reason(), "\", ", (env_->now() - ran_at) / kMillisecond,
                       " ms after a round had ended"));
}

void Policies::CheckBudget(const v1::Verdict& verdict) {
  int failed = 0;
  for (const auto& [key, round] : rounds_) {
    const bool counts = scenario_.policy.restart_window == 0 || round.ended_at < 0 ||
                        env_->now() <= round.ended_at + Longer(scenario_.policy.restart_window) + 10 * kSlack;
    failed += counts && !round.failures.empty() ? 1 : 0;
  }
  if (failed > scenario_.policy.max_restarts) return;
  Fail(7, absl::StrCat("the verdict is ", verdict.exit_code(), " after ", failed,
                       " failed rounds; --max-restarts is ", scenario_.policy.max_restarts));
}

void Policies::CheckNoProgress(const v1::Verdict& verdict) {
  const bool by_progress = absl::StrContains(verdict.reason(), "restarts: ");
  int seen = 0;
  for (auto it = rounds_.rbegin(); it != rounds_.rend() && by_progress && seen < kRestartsWithoutProgress; ++it) {
    const RoundRecord& round = it->second;
    ++seen;
    if (round.progressed_at < 0 || !Clean(round)) continue;
    return Fail(
        7, absl::StrCat("the verdict is ", verdict.exit_code(), ", but round ", round.name, " made progress"));
  }
  if (by_progress && seen < kRestartsWithoutProgress) {
    Fail(7, absl::StrCat("the verdict is ", verdict.exit_code(), " after ", seen, " rounds"));
  }
  if (!by_progress && static_cast<int>(rounds_.size()) <= scenario_.policy.max_membership_changes) {
    Fail(7, absl::StrCat("the verdict is ", verdict.exit_code(), " after ", rounds_.size(), " rounds"));
  }
}

void Policies::CheckCause(const CoordinatorHome& home, const v1::Verdict& verdict) {
  const v1::Failure& cause = verdict.root_cause();
  const auto it = rounds_.find(KeyOf(cause.round()));
  if (it == rounds_.end() || ClockWasSetIn(it->second)) return;
  const Micros until = FirstHeard(home, it->second) + kSameMoment;
  for (const WorkerFailure& f : it->second.failures) {
    if (f.hostname != cause.host() || f.rank != cause.rank() || f.at <= until) continue;
    return Fail(8, absl::StrCat("the verdict names rank ", cause.rank(), " on ", cause.host(),
                                ", but it was known that another failed ",
                                (f.at - until + kSameMoment) / kMillisecond, " ms earlier"));
  }
}

}  // namespace muster::simulation
