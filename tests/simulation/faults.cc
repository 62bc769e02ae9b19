#include "tests/simulation/faults.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr Micros kLongestHold = 40 * kSecond;  // how long the kernel may hold a process
constexpr int kLeaveIsForAllPercent = 20;
constexpr Micros kLongestSkew = 3 * kSecond;
constexpr Micros kAgentDeathWindow = 11 * kSecond;
constexpr size_t kAgentDeathsAllowed = 3;  // within the window; the fifth ends the workers by design

}  // namespace

Faults::Faults(World* world)
    : world_(world),
      env_(&world->env()),
      cluster_(&world->cluster()),
      strangers_(env_, cluster_, &world->execution(), &world->checks()) {}

void Faults::Begin() {
  if (env_->scenario().faults.total_weight() > 0) ScheduleNext();
  if (env_->scenario().unwelcome.strangers_every > 0) ScheduleStranger();
  if (env_->scenario().sidecars.second_every > 0) ScheduleSecondSidecar();
}

void Faults::ScheduleSecondSidecar() {
  env_->scheduler().After(env_->hardships().Exponential(env_->scenario().sidecars.second_every) + 1, [this] {
    if (stopped_) return;
    HostProcess* host = cluster_->HostAt(static_cast<int>(env_->hardships().Below(cluster_->place_count())));
    if (host != nullptr && host->agent != nullptr) world_->sidecars().AddAnother(*host);
    ScheduleSecondSidecar();
  });
}

void Faults::ScheduleStranger() {
  env_->scheduler().After(env_->prng().Exponential(env_->scenario().unwelcome.strangers_every) + 1, [this] {
    if (stopped_) return;
    strangers_.Knock();
    ScheduleStranger();
  });
}

void Faults::Stop() { stopped_ = true; }

void Faults::ScheduleNext() {
  env_->scheduler().After(env_->prng().Exponential(env_->scenario().faults.gap) + 1, [this] {
    if (stopped_) return;
    Strike(Draw());
    ScheduleNext();
  });
}

Fault Faults::Draw() {
  auto dice = static_cast<int>(env_->prng().Below(env_->scenario().faults.total_weight()));
  int kind = 0;
  while ((dice -= env_->scenario().faults.weight[kind]) >= 0) ++kind;
  return static_cast<Fault>(kind);
}

Micros Faults::Outage() {
  return env_->prng().Skewed(env_->scenario().faults.outage_low, env_->scenario().faults.outage_high);
}

HostProcess* Faults::AnyHost() {
  const int least = env_->scenario().faults.spare_the_primary && cluster_->place_count() > 1 ? 1 : 0;
  return cluster_->HostAt(static_cast<int>(env_->prng().Between(least, cluster_->place_count() - 1)));
}

WorkerProcess* Faults::AnyWorker() {
  HostProcess* host = AnyHost();
  if (host == nullptr || host->workers.empty()) return nullptr;
  return host->workers[env_->prng().Below(host->workers.size())];
}

bool Faults::MayKillAgentOf(const HostProcess& host) const {
  size_t recent = 0;
  for (Micros at : host.agent_starts) recent += env_->now() - at < kAgentDeathWindow ? 1 : 0;
  return recent < kAgentDeathsAllowed || (!env_->scenario().faults.only_agents_die && env_->prng().Chance(20));
}

void Faults::Strike(Fault fault) {
  switch (fault) {
    case Fault::kWorkerFails:
    case Fault::kFreezeWorker:
    case Fault::kStuckWorker:
      return StrikeWorker(fault);
    case Fault::kKillCoordinator:
      return KillCoordinator();
    case Fault::kFreezeCoordinator:
      if (env_->scenario().job.coordinator_alone) return FreezeAlone();
      return StrikeProcess(Fault::kFreezeAgent, cluster_->HostAt(0));
    case Fault::kKillAgent:
    case Fault::kFreezeAgent:
    case Fault::kFreezeHost:
    case Fault::kFreezeBoth:
      return StrikeProcess(fault, AnyHost());
    case Fault::kKillHost: {
      const int percent = env_->scenario().faults.host_is_primary_percent;
      const bool primary = percent > 0 && env_->prng().Chance(percent);
      return StrikeNode(fault, primary ? cluster_->HostAt(0) : AnyHost());
    }
    case Fault::kKillBoth:
    case Fault::kKillNode:
    case Fault::kIsolateAndReplace:
    case Fault::kLeave:
    case Fault::kLeaveTwice:
    case Fault::kCancel:
    case Fault::kStartFails:
    case Fault::kNotice:
      return StrikeNode(fault, AnyHost());
    default:
      return StrikeNetwork(fault, AnyHost());
  }
}

void Faults::KillCoordinator() {
  if (!env_->scenario().job.coordinator_alone) return StrikeProcess(Fault::kKillAgent, cluster_->HostAt(0));
  AloneProcess* alone = world_->coordinators().current();
  if (alone == nullptr) return;
  constexpr int kAskedPercent = 30;
  if (env_->hardships().Chance(kAskedPercent)) return world_->coordinators().AskToEnd(alone);
  env_->Note("fault", absl::StrCat("kill ", alone->name));
  world_->coordinators().End(alone, true);
}

void Faults::FreezeAlone() {
  if (AloneProcess* alone = world_->coordinators().current()) world_->execution().Freeze(alone, Outage());
}

void Faults::StrikeWorker(Fault fault) {
  WorkerProcess* worker = AnyWorker();
  // The held process may be a worker's leftover, which then outlasts the sweeps.
  const bool descendant = fault == Fault::kStuckWorker && env_->scenario().workers.late_forks_percent > 0;
  if (worker != nullptr && descendant && !worker->host->descendants.empty()) {
    worker = worker->host->descendants.back();
  }
  if (worker == nullptr || worker->dead || (!worker->executing && fault != Fault::kStuckWorker)) return;
  env_->Note("fault", absl::StrCat(Name(fault), " ", worker->host->name, ":", worker->local_rank));
  if (fault == Fault::kWorkerFails) {
    world_->workers().Fail(worker, world_->workers().DrawFailure());
  } else if (fault == Fault::kStuckWorker) {
    world_->workers().HoldInKernel(worker, env_->prng().Skewed(kSecond, kLongestHold));
  } else {
    world_->workers().Freeze(worker, Outage());
  }
}

void Faults::StrikeProcess(Fault fault, HostProcess* host) {
  if (host == nullptr || host->agent == nullptr) return;
  if (fault == Fault::kKillAgent && !MayKillAgentOf(*host)) return;
  env_->Note("fault", absl::StrCat(Name(fault), " ", host->name));
  const Micros outage = Outage();
  ++host->fate.agents_struck;
  switch (fault) {
    case Fault::kKillAgent:
      return world_->deaths().KillAgent(host->agent);
    case Fault::kFreezeAgent:
      return world_->execution().Freeze(host->agent, outage);
    case Fault::kFreezeHost:
      return world_->execution().Freeze(host, outage);
    default:
      world_->execution().Freeze(host, outage);
      world_->execution().Freeze(host->agent, env_->prng().Chance(50) ? outage : Outage());
      return FreezeNeighbours(*host, outage);
  }
}

// A stalled machine stalls all hosts on it.
void Faults::FreezeNeighbours(const HostProcess& struck, Micros outage) {
  if (env_->scenario().job.hosts_per_machine == 1) return;
  for (const auto& host : cluster_->hosts()) {
    if (host.get() == &struck || host->machine != struck.machine || !host->alive) continue;
    ++host->fate.agents_struck;
    world_->execution().Freeze(host.get(), outage);
    if (host->agent != nullptr) world_->execution().Freeze(host->agent, outage);
  }
}

void Faults::StrikeNode(Fault fault, HostProcess* host) {
  if (host == nullptr || world_->platform().ForgetsAZombie(host->place)) return;
  env_->Note("fault", absl::StrCat(Name(fault), " ", host->name));
  switch (fault) {
    case Fault::kKillHost:
      return world_->deaths().KillHost(host);
    case Fault::kKillBoth:
      if (host->agent != nullptr) world_->deaths().KillAgent(host->agent);
      return world_->deaths().KillHost(host);
    case Fault::kKillNode:
      return world_->deaths().PowerOff(host->machine);
    case Fault::kIsolateAndReplace:
      return IsolateAndReplace(host);
    case Fault::kCancel:
      return world_->host_shell().Signal(host, SIGINT);
    case Fault::kStartFails:
      ++host->fate.start_fails;
      return;
    case Fault::kNotice:
      host->fate.noticed = host->fate.asked_to_leave = true;
      if (host->agent != nullptr) world_->agent_shell().Notice(host->agent);
      return;
    default:
      world_->host_shell().Signal(host, SIGTERM);
      if (fault != Fault::kLeaveTwice) return MaybeEndOthers(*host);
      env_->scheduler().After(env_->prng().Between(1, kSecond), [this, host] {
        if (host->alive) world_->host_shell().Signal(host, SIGTERM);
      });
  }
}

// A platform that stops a whole job does not reach all nodes at the same moment.
void Faults::MaybeEndOthers(const HostProcess& first) {
  if (!env_->hardships().Chance(kLeaveIsForAllPercent)) return;
  for (const auto& host : cluster_->hosts()) {
    if (host.get() == &first || !host->alive || host->fate.zombie) continue;
    env_->scheduler().After(env_->hardships().Skewed(kMillisecond, kLongestSkew), [this, host = host.get()] {
      if (host->alive && !host->fate.asked_to_leave) world_->host_shell().Signal(host, SIGTERM);
    });
  }
}

void Faults::StrikeNetwork(Fault fault, HostProcess* host) {
  if (host == nullptr) return;
  env_->Note("fault", absl::StrCat(Name(fault), " ", host->name));
  switch (fault) {
    case Fault::kCutOut:
      return world_->network().Cut(host->machine, true, false, Outage());
    case Fault::kCutIn:
      return world_->network().Cut(host->machine, false, true, Outage());
    case Fault::kCutBoth:
      return world_->network().Cut(host->machine, true, true, Outage());
    case Fault::kReset:
      if (host->agent != nullptr) world_->network().ResetSession(host->agent);
      return;
    case Fault::kResetThenCut:  // as a proxy or a NAT does it: the far end sees a close, this end nothing
      if (host->agent != nullptr) world_->network().CloseAtCoordinatorOnly(host->agent);
      return world_->network().Cut(host->machine, true, true, Outage());
    case Fault::kCutStaggered:
      return CutStaggered(host);
    default:
      return Swizzle();
  }
}

// The old machine is cut off but lives on for a while; a new one replaces it.
void Faults::IsolateAndReplace(HostProcess* host) {
  const Scenario& s = env_->scenario();
  if (s.limits.lease == 0) return;
  // The platform must not let two machines answer to the primary's name for long: an old primary that could make
  // rounds with the hosts of its machine, or a new one that could make them of spares alone, must not run beside
  // the other.
  Machine* machine = host->machine;
  const auto is_there = [machine](const auto& other) { return other->alive && other->machine == machine; };
  const auto together = std::count_if(cluster_->hosts().begin(), cluster_->hosts().end(), is_there);
  if (host->place == 0 && (s.job.min_nodes <= together || s.job.nodes > s.job.max_nodes)) return;
  for (const auto& other : cluster_->hosts()) {
    if (other->fate.zombie && other->alive) return;
  }
  const std::vector<Machine*> island = WithSomeOthers(*host);
  world_->network().MoveTo(machine->id + 1, island);
  env_->scheduler().After(env_->prng().Skewed(s.faults.replace_low, s.faults.replace_high), [this, host] {
    if (stopped_ || cluster_->HostAt(host->place) != host) return;
    world_->platform().Replace(host->place, false);
  });
  env_->scheduler().After(env_->prng().Between(s.limits.lease, 4 * s.limits.lease), [this, island] {
    if (stopped_) return;
    world_->deaths().PowerOff(island.front());
    world_->network().MoveTo(0, island);
  });
}

// The machine of this host and, with the primary, some others: fewer nodes than a round needs.
std::vector<Machine*> Faults::WithSomeOthers(const HostProcess& host) {
  std::vector<Machine*> island = {host.machine};
  Prng& prng = env_->hardships();
  if (host.place != 0 || !prng.Chance(50)) return island;
  const auto nodes = [&] {
    return std::count_if(cluster_->hosts().begin(), cluster_->hosts().end(), [&](const auto& other) {
      return other->alive && std::find(island.begin(), island.end(), other->machine) != island.end();
    });
  };
  for (int place = 1; place < cluster_->place_count(); ++place) {
    const HostProcess* const other = cluster_->HostAt(place);
    if (other == nullptr || other->machine == host.machine || !prng.Chance(40)) continue;
    if (std::find(island.begin(), island.end(), other->machine) != island.end()) continue;
    island.push_back(other->machine);
    if (nodes() < env_->scenario().job.min_nodes) continue;
    island.pop_back();
    break;
  }
  return island;
}

// Directives stall, then statuses; the directives arrive late while the statuses stay away beyond the lease: a
// lease that is counted from receipt outlives what the coordinator believes.
void Faults::CutStaggered(HostProcess* host) {
  Prng& prng = env_->prng();
  const Micros lease = env_->scenario().limits.lease;
  Machine* machine = host->machine;
  if (lease == 0) return;
  world_->network().Cut(machine, false, true, prng.Between(lease / 4, lease * 45 / 100));
  env_->scheduler().After(prng.Between(0, 700 * kMillisecond), [this, machine, lease] {
    if (!stopped_) world_->network().Cut(machine, true, false, env_->prng().Between(2 * lease, 4 * lease));
  });
}

// Cuts one link after another and mends them in a different order.
void Faults::Swizzle() {
  Micros at = 0;
  for (int place = 0; place < cluster_->place_count(); ++place) {
    if (!env_->prng().Chance(60)) continue;
    at += env_->prng().Between(0, kSecond);
    const Micros outage = Outage();
    env_->scheduler().After(at, [this, place, outage] {
      HostProcess* host = cluster_->HostAt(place);
      if (!stopped_ && host != nullptr) world_->network().Cut(host->machine, true, true, outage);
    });
  }
}

// The coordinator dies while it starts a round: some members have their RUN and are cut off before they can report
// it.
void Faults::OnRound(int node_count) {
  const bool grows = node_count > node_count_;
  node_count_ = node_count;
  if (stopped_) return;
  const Scenario& s = env_->scenario();
  Prng& prng = env_->prng();
  if (!prng.Chance(grows ? s.faults.kill_coordinator_at_round_percent
                         : s.faults.kill_coordinator_at_round_percent / 4))
    return;
  env_->scheduler().After(prng.Skewed(1, 4 * kMillisecond), [this] {
    if (!stopped_) KillCoordinator();
  });
  if (!prng.Chance(s.faults.cut_off_at_round_percent)) return;
  env_->scheduler().After(s.network.delay + prng.Skewed(100, 100 * kMillisecond), [this] {
    const int place = static_cast<int>(env_->prng().Between(1, std::max(1, cluster_->place_count() - 1)));
    HostProcess* host = cluster_->place_count() > 1 ? cluster_->HostAt(place) : nullptr;
    if (stopped_ || host == nullptr) return;
    if (env_->prng().Chance(50)) return StrikeNetwork(Fault::kCutBoth, host);
    StrikeNode(Fault::kIsolateAndReplace, host);
  });
}

void Faults::OnDrain(const RoundKey& round) {
  if (stopped_ || !drained_.insert(round).second) return;
  const Scenario& s = env_->scenario();
  Prng& prng = env_->prng();
  if (prng.Chance(s.faults.kill_coordinator_in_drain_percent)) {
    env_->scheduler().After(prng.Skewed(100, 2 * kSecond), [this] {
      if (!stopped_) KillCoordinator();
    });
  }
  if (prng.Chance(s.faults.kill_node_in_drain_percent)) {
    env_->scheduler().After(prng.Skewed(100, kSecond), [this] {
      if (!stopped_) StrikeNode(env_->prng().Chance(50) ? Fault::kKillNode : Fault::kKillHost, AnyHost());
    });
  }
}

void Faults::OnVerdict() {
  if (stopped_ || verdict_struck_) return;
  verdict_struck_ = true;
  Prng& prng = env_->prng();
  if (!prng.Chance(env_->scenario().faults.trouble_at_verdict_percent)) return;
  for (int64_t i = prng.Between(1, 3); i > 0; --i) {
    env_->scheduler().After(prng.Skewed(10, kSecond), [this] {
      static constexpr Fault kKinds[] = {Fault::kKillCoordinator, Fault::kKillNode,    Fault::kKillHost,
                                         Fault::kKillAgent,       Fault::kFreezeAgent, Fault::kCutBoth,
                                         Fault::kCutOut,          Fault::kKillBoth};
      if (!stopped_) Strike(kKinds[env_->prng().Below(8)]);
    });
  }
}

}  // namespace muster::simulation
