#include "tests/simulation/faults.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr Micros kLongestHold = 40 * kSecond;  // how long the kernel may hold a process
constexpr Micros kForever = 24 * 3600 * kSecond;
constexpr Micros kAgentDeathWindow = 11 * kSecond;
constexpr size_t kAgentDeathsAllowed = 3;  // within the window; the fifth ends the workers by design

}  // namespace

void Faults::Begin() {
  if (world_->scenario().faults.total_weight() > 0) ScheduleNext();
  if (world_->scenario().unwelcome.strangers_every > 0) ScheduleStranger();
}

void Faults::ScheduleStranger() {
  world_->scheduler().After(world_->prng().Exponential(world_->scenario().unwelcome.strangers_every) + 1, [this] {
    if (stopped_) return;
    world_->Knock();
    ScheduleStranger();
  });
}

void Faults::ScheduleNext() {
  world_->scheduler().After(world_->prng().Exponential(world_->scenario().faults.gap) + 1, [this] {
    if (stopped_) return;
    Strike(Draw());
    ScheduleNext();
  });
}

Fault Faults::Draw() {
  auto dice = static_cast<int>(world_->prng().Below(world_->scenario().faults.total_weight()));
  int kind = 0;
  while ((dice -= world_->scenario().faults.weight[kind]) >= 0) ++kind;
  return static_cast<Fault>(kind);
}

Micros Faults::Outage() {
  return world_->prng().Skewed(world_->scenario().faults.outage_low, world_->scenario().faults.outage_high);
}

HostProcess* Faults::AnyHost() {
  const int least = world_->scenario().faults.spare_the_primary && world_->place_count() > 1 ? 1 : 0;
  return world_->HostAt(static_cast<int>(world_->prng().Between(least, world_->place_count() - 1)));
}

WorkerProcess* Faults::AnyWorker() {
  HostProcess* host = AnyHost();
  if (host == nullptr || host->workers.empty()) return nullptr;
  return host->workers[world_->prng().Below(host->workers.size())];
}

bool Faults::MayKillAgentOf(const HostProcess& host) const {
  size_t recent = 0;
  for (Micros at : host.agent_starts) recent += world_->now() - at < kAgentDeathWindow ? 1 : 0;
  return recent < kAgentDeathsAllowed || (!world_->scenario().faults.only_agents_die && world_->prng().Chance(20));
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
      if (world_->scenario().job.coordinator_alone) return FreezeAlone();
      return StrikeProcess(Fault::kFreezeAgent, world_->HostAt(0));
    case Fault::kKillAgent:
    case Fault::kFreezeAgent:
    case Fault::kFreezeHost:
    case Fault::kFreezeBoth:
      return StrikeProcess(fault, AnyHost());
    case Fault::kKillHost: {
      const int percent = world_->scenario().faults.host_is_primary_percent;
      const bool primary = percent > 0 && world_->prng().Chance(percent);
      return StrikeNode(fault, primary ? world_->HostAt(0) : AnyHost());
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
  if (!world_->scenario().job.coordinator_alone) return StrikeProcess(Fault::kKillAgent, world_->HostAt(0));
  AloneProcess* alone = world_->alone();
  if (alone == nullptr) return;
  world_->Note("fault", absl::StrCat("kill ", alone->name));
  world_->EndAlone(alone, true);
}

void Faults::FreezeAlone() {
  if (AloneProcess* alone = world_->alone()) world_->Freeze(alone, Outage());
}

void Faults::StrikeWorker(Fault fault) {
  WorkerProcess* worker = AnyWorker();
  // The held process may be a worker's leftover, which then outlasts the sweeps.
  const bool descendant = fault == Fault::kStuckWorker && world_->scenario().workers.late_forks_percent > 0;
  if (worker != nullptr && descendant && !worker->host->descendants.empty()) {
    worker = worker->host->descendants.back();
  }
  if (worker == nullptr || worker->dead || (!worker->executing && fault != Fault::kStuckWorker)) return;
  world_->Note("fault", absl::StrCat(Name(fault), " ", worker->host->name, ":", worker->local_rank));
  if (fault == Fault::kWorkerFails) {
    world_->FailWorker(worker, world_->DrawFailure());
  } else if (fault == Fault::kStuckWorker) {
    world_->HoldInKernel(worker, world_->prng().Skewed(kSecond, kLongestHold));
  } else {
    world_->FreezeWorker(worker, Outage());
  }
}

void Faults::StrikeProcess(Fault fault, HostProcess* host) {
  if (host == nullptr || host->agent == nullptr) return;
  if (fault == Fault::kKillAgent && !MayKillAgentOf(*host)) return;
  world_->Note("fault", absl::StrCat(Name(fault), " ", host->name));
  const Micros outage = Outage();
  ++host->agents_struck;
  switch (fault) {
    case Fault::kKillAgent:
      return world_->KillAgent(host->agent);
    case Fault::kFreezeAgent:
      return world_->Freeze(host->agent, outage);
    case Fault::kFreezeHost:
      return world_->Freeze(host, outage);
    default:
      world_->Freeze(host, outage);
      world_->Freeze(host->agent, world_->prng().Chance(50) ? outage : Outage());
      return FreezeNeighbours(*host, outage);
  }
}

// A stalled machine stalls all hosts on it.
void Faults::FreezeNeighbours(const HostProcess& struck, Micros outage) {
  if (world_->scenario().job.hosts_per_machine == 1) return;
  for (const auto& host : world_->hosts()) {
    if (host.get() == &struck || host->machine != struck.machine || !host->alive) continue;
    ++host->agents_struck;
    world_->Freeze(host.get(), outage);
    if (host->agent != nullptr) world_->Freeze(host->agent, outage);
  }
}

void Faults::StrikeNode(Fault fault, HostProcess* host) {
  if (host == nullptr || world_->ForgetsAZombie(host->place)) return;
  world_->Note("fault", absl::StrCat(Name(fault), " ", host->name));
  switch (fault) {
    case Fault::kKillHost:
      return world_->KillHost(host);
    case Fault::kKillBoth:
      if (host->agent != nullptr) world_->KillAgent(host->agent);
      return world_->KillHost(host);
    case Fault::kKillNode:
      return world_->PowerOff(host->machine);
    case Fault::kIsolateAndReplace:
      return IsolateAndReplace(host);
    case Fault::kCancel:
      return world_->SignalHost(host, SIGINT);
    case Fault::kStartFails:
      ++host->start_fails;
      return;
    case Fault::kNotice:
      host->noticed = host->asked_to_leave = true;
      if (host->agent != nullptr) world_->Notice(host->agent);
      return;
    default:
      world_->SignalHost(host, SIGTERM);
      if (fault != Fault::kLeaveTwice) return;
      world_->scheduler().After(world_->prng().Between(1, kSecond), [this, host] {
        if (host->alive) world_->SignalHost(host, SIGTERM);
      });
  }
}

void Faults::StrikeNetwork(Fault fault, HostProcess* host) {
  if (host == nullptr) return;
  world_->Note("fault", absl::StrCat(Name(fault), " ", host->name));
  switch (fault) {
    case Fault::kCutOut:
      return world_->Cut(host->machine, true, false, Outage());
    case Fault::kCutIn:
      return world_->Cut(host->machine, false, true, Outage());
    case Fault::kCutBoth:
      return world_->Cut(host->machine, true, true, Outage());
    case Fault::kReset:
      if (host->agent != nullptr) world_->ResetSession(host->agent);
      return;
    case Fault::kResetThenCut:  // as a proxy or a NAT does it: the far end sees a close, this end nothing
      if (host->agent != nullptr) world_->CloseAtCoordinatorOnly(host->agent);
      return world_->Cut(host->machine, true, true, Outage());
    case Fault::kCutStaggered:
      return CutStaggered(host);
    default:
      return Swizzle();
  }
}

// The old machine is cut off but lives on for a while; a new one replaces it.
void Faults::IsolateAndReplace(HostProcess* host) {
  const Scenario& s = world_->scenario();
  if (s.limits.lease == 0) return;
  // The platform must not let two machines answer to the primary's name for long: an old primary that could make
  // rounds alone, or a new one that could make them of spares alone, must not run beside the other.
  if (host->place == 0 && (s.job.min_nodes < 2 || s.job.nodes > s.job.max_nodes)) return;
  for (const auto& other : world_->hosts()) {
    if (other->zombie && other->alive) return;
  }
  Machine* machine = host->machine;
  world_->Cut(machine, true, true, kForever);
  world_->scheduler().After(world_->prng().Skewed(s.faults.replace_low, s.faults.replace_high), [this, host] {
    if (stopped_ || world_->HostAt(host->place) != host) return;
    world_->Replace(host->place, false);
  });
  world_->scheduler().After(world_->prng().Between(s.limits.lease, 4 * s.limits.lease), [this, machine] {
    if (!stopped_) world_->PowerOff(machine);
  });
}

// Directives stall, then statuses; the directives arrive late while the statuses stay away beyond the lease: a
// lease that is counted from receipt outlives what the coordinator believes.
void Faults::CutStaggered(HostProcess* host) {
  Prng& prng = world_->prng();
  const Micros lease = world_->scenario().limits.lease;
  Machine* machine = host->machine;
  if (lease == 0) return;
  world_->Cut(machine, false, true, prng.Between(lease / 4, lease * 45 / 100));
  world_->scheduler().After(prng.Between(0, 700 * kMillisecond), [this, machine, lease] {
    if (!stopped_) world_->Cut(machine, true, false, world_->prng().Between(2 * lease, 4 * lease));
  });
}

// Cuts one link after another and mends them in a different order.
void Faults::Swizzle() {
  Micros at = 0;
  for (int place = 0; place < world_->place_count(); ++place) {
    if (!world_->prng().Chance(60)) continue;
    at += world_->prng().Between(0, kSecond);
    const Micros outage = Outage();
    world_->scheduler().After(at, [this, place, outage] {
      HostProcess* host = world_->HostAt(place);
      if (!stopped_ && host != nullptr) world_->Cut(host->machine, true, true, outage);
    });
  }
}

// The coordinator dies while it starts a round: some members have their RUN and are cut off before they can report
// it.
void Faults::OnRound(int node_count) {
  const bool grows = node_count > node_count_;
  node_count_ = node_count;
  if (stopped_) return;
  const Scenario& s = world_->scenario();
  Prng& prng = world_->prng();
  if (!prng.Chance(grows ? s.faults.kill_coordinator_at_round_percent
                         : s.faults.kill_coordinator_at_round_percent / 4))
    return;
  world_->scheduler().After(prng.Skewed(1, 4 * kMillisecond), [this] {
    if (!stopped_) KillCoordinator();
  });
  if (!prng.Chance(s.faults.cut_off_at_round_percent)) return;
  world_->scheduler().After(s.network.delay + prng.Skewed(100, 100 * kMillisecond), [this] {
    const int place = static_cast<int>(world_->prng().Between(1, std::max(1, world_->place_count() - 1)));
    HostProcess* host = world_->place_count() > 1 ? world_->HostAt(place) : nullptr;
    if (stopped_ || host == nullptr) return;
    if (world_->prng().Chance(50)) return StrikeNetwork(Fault::kCutBoth, host);
    StrikeNode(Fault::kIsolateAndReplace, host);
  });
}

void Faults::OnDrain(const RoundKey& round) {
  if (stopped_ || !drained_.insert(round).second) return;
  const Scenario& s = world_->scenario();
  Prng& prng = world_->prng();
  if (prng.Chance(s.faults.kill_coordinator_in_drain_percent)) {
    world_->scheduler().After(prng.Skewed(100, 2 * kSecond), [this] {
      if (!stopped_) KillCoordinator();
    });
  }
  if (prng.Chance(s.faults.kill_node_in_drain_percent)) {
    world_->scheduler().After(prng.Skewed(100, kSecond), [this] {
      if (!stopped_) StrikeNode(world_->prng().Chance(50) ? Fault::kKillNode : Fault::kKillHost, AnyHost());
    });
  }
}

void Faults::OnVerdict() {
  if (stopped_ || verdict_struck_) return;
  verdict_struck_ = true;
  Prng& prng = world_->prng();
  if (!prng.Chance(world_->scenario().faults.trouble_at_verdict_percent)) return;
  for (int64_t i = prng.Between(1, 3); i > 0; --i) {
    world_->scheduler().After(prng.Skewed(10, kSecond), [this] {
      static constexpr Fault kKinds[] = {Fault::kKillCoordinator, Fault::kKillNode,    Fault::kKillHost,
                                         Fault::kKillAgent,       Fault::kFreezeAgent, Fault::kCutBoth,
                                         Fault::kCutOut,          Fault::kKillBoth};
      if (!stopped_) Strike(kKinds[world_->prng().Below(8)]);
    });
  }
}

}  // namespace muster::simulation
