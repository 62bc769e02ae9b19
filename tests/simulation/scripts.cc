#include "tests/simulation/scripts.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr uint64_t kOwnStream = 0x5C219;
constexpr Micros kForever = 24 * 3600 * kSecond;
constexpr Micros kLook = 2 * kMillisecond;
constexpr int64_t kWorstDriftPpm = 5000;

}  // namespace

Scripts::Scripts(World* world)
    : world_(world), env_(&world->env()), cluster_(&world->cluster()), prng_(env_->scenario().seed ^ kOwnStream) {}

void Scripts::After(Micros delay, void (Scripts::*what)()) {
  env_->scheduler().After(delay, [this, what] {
    if (!stopped_) (this->*what)();
  });
}

void Scripts::Begin() {
  const Scenario& s = env_->scenario();
  const Micros first = prng_.Between(2, 10) * kSecond;
  switch (s.script.kind) {
    case Script::kNone:
      return;
    case Script::kFreezeWholeNode:
      return After(first, &Scripts::FreezeWholeNode);
    case Script::kSendAwayAndBack:
      return After(first, &Scripts::SendAwayAndBack);
    case Script::kMoveCoordinator:
      return After(first, &Scripts::MoveCoordinator);
    case Script::kFarewellTwice:
      // Without the third node the first round waits for a lease and its margin.
      return After(first + s.limits.lease + 2 * kSecond, &Scripts::EndPrimary);
    case Script::kRunUnheard:
      return After(first, &Scripts::FailAMember);
    case Script::kSplitNames:
      return After(first, &Scripts::SplitNames);
    case Script::kLateNewcomer:
      return After(first, &Scripts::BringNewcomer);
    case Script::kWakeAfterExit:
      return After(first, &Scripts::SleepThroughExits);
    case Script::kReturnAtOnce:
      return After(first, &Scripts::ReturnAtOnce);
    case Script::kCutOffTogether:
      return After(first, &Scripts::CutOffTogether);
  }
}

HostProcess* Scripts::AnyMember() {
  const int first = env_->scenario().job.coordinator_alone ? 0 : 1;
  if (cluster_->place_count() <= first) return nullptr;
  return cluster_->HostAt(static_cast<int>(prng_.Between(first, cluster_->place_count() - 1)));
}

// The whole node freezes: only the kernel's timer ends its workers.
void Scripts::FreezeWholeNode() {
  After(prng_.Between(15, 25) * kSecond, &Scripts::FreezeWholeNode);
  HostProcess* host = AnyMember();
  if (host == nullptr || host->agent == nullptr || !host->runs() || !host->agent->runs()) return;
  env_->Note("fault", absl::StrCat("script: freezes all of ", host->name));
  const Micros outage = 3 * env_->scenario().limits.lease;
  world_->execution().Freeze(host, outage);
  world_->execution().Freeze(host->agent, outage);
}

// A node is cut off, its place gets another host, and the old one returns beside it.
void Scripts::SendAwayAndBack() {
  After(prng_.Exponential(6 * kSecond) + kSecond, &Scripts::SendAwayAndBack);
  const Micros lease = env_->scenario().limits.lease;
  HostProcess* host = AnyMember();
  if (host == nullptr || world_->platform().ForgetsAZombie(host->place)) return;
  const auto& hosts = cluster_->hosts();
  if (std::any_of(hosts.begin(), hosts.end(), [](const auto& h) { return h->fate.zombie && h->alive; })) return;
  env_->Note("fault", absl::StrCat("script: sends ", host->name, " away"));
  const Micros away = prng_.Between(lease / 4, 3 * lease);
  world_->network().Cut(host->machine, true, true, away);
  env_->scheduler().After(prng_.Between(100 * kMillisecond, away), [this, host] {
    if (!stopped_ && cluster_->HostAt(host->place) == host) world_->platform().Replace(host->place, false);
  });
}

// The coordinator's name leads to another machine while no node reaches the old one; then it leads back to the old
// one, which missed everything since.
void Scripts::MoveCoordinator() {
  AloneProcess* alone = world_->coordinators().current();
  if (alone == nullptr) return After(kSecond, &Scripts::MoveCoordinator);
  const Micros lease = env_->scenario().limits.lease;
  Machine* first = alone->machine;
  world_->network().Cut(first, true, true, kForever);
  Machine* second = world_->coordinators().Move();
  // Not for so long that the isolated old one gives up the job.
  env_->scheduler().After(prng_.Between(lease / 2, 2 * lease + lease / 2), [this, first, second] {
    if (!stopped_) MoveBack(first, second);
  });
}

void Scripts::MoveBack(Machine* first, Machine* second) {
  world_->network().Cut(second, true, true, kForever);
  world_->network().Mend(first);
  world_->coordinators().MoveBack(first);
  After(prng_.Between(5, 15) * kSecond, &Scripts::MoveCoordinator);
  // At that moment one of the round's nodes is away and another one fails.
  HostProcess* away = AnyMember();
  if (away == nullptr) return;
  const Micros lease = env_->scenario().limits.lease;
  world_->network().Cut(away->machine, true, true, prng_.Between(lease / 3, lease));
  env_->scheduler().After(prng_.Between(100 * kMillisecond, lease / 2), [this, away] {
    HostProcess* failing = AnyMember();
    if (stopped_ || failing == nullptr || failing == away || failing->workers.empty()) return;
    WorkerProcess* worker = failing->workers.front();
    if (worker->executing && !worker->dead) world_->workers().Fail(worker, world_->workers().DrawFailure());
  });
}

// The primary's main process dies. Its coordinator sends the farewell to the other node, whose confirmation is
// lost, so that the coordinator stays for a moment. A third node comes and learns of the round, but does not get
// the farewell.
void Scripts::EndPrimary() {
  HostProcess* primary = cluster_->HostAt(0);
  HostProcess* other = cluster_->HostAt(1);
  if (primary == nullptr || primary->agent == nullptr || other == nullptr) return;
  farewell_ = Farewell::kAwaitsSuccessor;
  old_coordinator_ = primary->agent;
  sent_away_ = other->machine;
  world_->network().Cut(sent_away_, true, false, kForever);
  env_->Note("fault", "script: the primary's main process dies");
  world_->deaths().KillHost(primary);
  env_->scheduler().After(prng_.Between(20, 400) * kMillisecond, [this] {
    const int place = env_->scenario().script.late_place;
    if (!stopped_ && cluster_->HostAt(place) == nullptr)
      world_->platform().StartHost(place, cluster_->MachineOf(place));
  });
  After(kLook, &Scripts::CutOffWhoHasHeard);
}

void Scripts::CutOffWhoHasHeard() {
  if (old_coordinator_->alive) return After(kLook, &Scripts::CutOffWhoHasHeard);
  world_->network().Cut(sent_away_, true, true, kForever);
}

// The successor's round is one of its own node and the third.
void Scripts::OnRound(int) {
  if (!stopped_ && env_->scenario().script.kind == Script::kRunUnheard) return CutOffFromRun();
  if (stopped_ || farewell_ != Farewell::kAwaitsSuccessor) return;
  farewell_ = Farewell::kDone;
  After(prng_.Between(300 * kMillisecond, 2 * kSecond), &Scripts::BringBackTheOld);
}

// The successor's whole machine is lost, the third node is cut off, and the node with the farewell returns.
void Scripts::BringBackTheOld() {
  HostProcess* primary = cluster_->HostAt(0);
  HostProcess* third = cluster_->HostAt(env_->scenario().script.late_place);
  if (primary == nullptr || third == nullptr) return;
  const Micros lease = env_->scenario().limits.lease;
  world_->network().Cut(third->machine, true, true, prng_.Between(lease, 2 * lease));
  world_->network().Mend(sent_away_);
  world_->deaths().PowerOff(primary->machine);
}

// A member does not get the RUN that is just being sent, nor anything later, but its statuses arrive: its lease is
// so long that the limit for starting a round ends first.
void Scripts::CutOffFromRun() {
  HostProcess* member = prng_.Chance(60) ? AnyMember() : nullptr;
  if (member == nullptr) return;
  env_->Note("fault", absl::StrCat("script: ", member->name, " hears of no round"));
  world_->network().Cut(member->machine, false, true, prng_.Between(76, 79) * kSecond);
}

// The coordinator's name leads some nodes to a second one, which has just started; the others stay with the first.
// The two do not last long enough to go on separately: half a lease later the second is gone, and all names lead
// to the first again.
void Scripts::SplitNames() {
  AloneProcess* alone = world_->coordinators().current();
  if (alone == nullptr) return After(kSecond, &Scripts::SplitNames);
  Machine* second = world_->coordinators().StartSecond();
  const int count = static_cast<int>(prng_.Between(1, cluster_->place_count() - 1));
  for (int i = 0; i < count; ++i) {
    HostProcess* host = AnyMember();
    if (host == nullptr) continue;
    env_->Note("fault", absl::StrCat("script: the name leads ", host->name, " to m", second->id));
    host->machine->name_leads_to = second;
    if (host->agent != nullptr) world_->network().ResetSession(host->agent);
  }
  const Micros lease = env_->scenario().limits.lease;
  env_->scheduler().After(prng_.Between(lease / 10, lease * 2 / 5), [this, second] {
    if (!stopped_) JoinNames(second);
  });
}

void Scripts::JoinNames(Machine* second) {
  world_->coordinators().LeadNamesHome();
  world_->coordinators().EndSecond(second);
  After(prng_.Between(3, 12) * kSecond, &Scripts::SplitNames);
}

// A node joins a group that runs without it. Without a free port it never gets ready.
void Scripts::BringNewcomer() {
  const int place = env_->scenario().script.late_place;
  if (cluster_->HostAt(place) == nullptr) world_->platform().StartHost(place, cluster_->MachineOf(place));
  After(prng_.Between(6, 10) * kSecond, &Scripts::FailAMember);
}

void Scripts::FailAMember() {
  After(prng_.Between(6, 12) * kSecond, &Scripts::FailAMember);
  HostProcess* host = AnyMember();
  if (host == nullptr || host->workers.empty()) return;
  WorkerProcess* worker = host->workers.front();
  if (worker->executing && !worker->dead) world_->workers().Fail(worker, world_->workers().DrawFailure());
}

// Host and agent of a node are stopped while all its workers succeed, and continue when its lease is nearly over:
// they see the exits and the end of the lease at the same moment.
void Scripts::SleepThroughExits() {
  After(prng_.Between(5, 15) * kSecond, &Scripts::SleepThroughExits);
  HostProcess* host = AnyMember();
  if (host == nullptr || host->agent == nullptr || !host->runs() || !host->agent->runs()) return;
  env_->Note("fault", absl::StrCat("script: ", host->name, " sleeps while its workers end"));
  const Micros lease = env_->scenario().limits.lease;
  const Micros outage = prng_.Between(lease * 7 / 10, lease * 98 / 100);
  world_->execution().Freeze(host, outage);
  world_->execution().Freeze(host->agent, outage);
  const auto end_well = [this](const HostProcess& of) {
    for (WorkerProcess* worker : of.workers) {
      if (worker->executing && !worker->dead && prng_.Chance(90)) world_->workers().Fail(worker, {});
    }
  };
  end_well(*host);
  if (!prng_.Chance(40)) return;
  // The workers of all other nodes succeed too, and the node wakes with an order to leave.
  for (const auto& other : cluster_->hosts()) {
    if (other->alive && other.get() != host) end_well(*other);
  }
  env_->scheduler().After(outage / 2, [this, host] {
    if (!stopped_ && host->alive) world_->host_shell().Signal(host, SIGTERM);
  });
}

// The primary's main process dies and is started again at once, while its agent still holds the port.
void Scripts::ReturnAtOnce() {
  After(prng_.Between(8, 20) * kSecond, &Scripts::ReturnAtOnce);
  HostProcess* host = cluster_->HostAt(0);
  if (host == nullptr || host->agent == nullptr || !host->runs() || !host->agent->runs()) return;
  env_->Note("fault", absl::StrCat("script: ", host->name, " dies and is back at once"));
  world_->execution().Freeze(host->agent, prng_.Skewed(kMillisecond, 3 * kSecond));
  world_->deaths().KillHost(host);
  env_->scheduler().After(prng_.Between(0, 20 * kMillisecond), [this] {
    if (!stopped_ && cluster_->HostAt(0) == nullptr) world_->platform().Replace(0, true);
  });
}

// The primary and another member, which may be leaving, are cut off together: they go on until the primary
// notices. A new primary begins with the others meanwhile.
void Scripts::CutOffTogether() {
  After(prng_.Between(40, 60) * kSecond, &Scripts::CutOffTogether);
  HostProcess* const primary = cluster_->HostAt(0);
  HostProcess* const other = AnyMember();
  if (primary == nullptr || other == nullptr || primary->machine == other->machine) return;
  const Micros lease = env_->scenario().limits.lease;
  const std::vector<Machine*> island = {primary->machine, other->machine};
  if (prng_.Chance(30)) world_->host_shell().Signal(other, SIGTERM);
  env_->scheduler().After(prng_.Between(0, kSecond), [this, island] {
    if (!stopped_) world_->network().MoveTo(1, island);
  });
  env_->scheduler().After(prng_.Between(kSecond, 3 * kSecond), [this, primary] {
    if (!stopped_ && cluster_->HostAt(0) == primary) world_->platform().Replace(0, false);
  });
  env_->scheduler().After(kSecond + prng_.Between(2 * lease, 5 * lease), [this, island] {
    if (stopped_) return;
    world_->deaths().PowerOff(island.front());
    world_->network().MoveTo(0, island);
  });
}

// ---- what a seed draws

namespace {

void Quiet(Scenario& s) {
  s.faults.weight.fill(0);
  s.workers.peers_fail_too = false;
  s.workers.fails_percent = s.network.drop_percent = s.network.repeat_percent = s.network.reorder_percent = 0;
  s.fitness.preflight_timeout = s.fitness.gpu_release_timeout = s.fitness.preload_time = s.deadline.at =
      s.unwelcome.strangers_every = s.clocks.wall_skew = 0;
  s.unwelcome.cannot_start_percent = 0;
  s.faults.kill_coordinator_at_round_percent = s.faults.cut_off_at_round_percent =
      s.faults.kill_coordinator_in_drain_percent = 0;
  s.faults.kill_node_in_drain_percent = s.faults.trouble_at_verdict_percent = 0;
  s.faults.only_agents_die = false;
  s.job.node_unit = 1;
  s.job.observers = 0;
  s.policy.max_restarts = 100;
  s.policy.max_node_losses = 1000;
  s.policy.max_membership_changes = 0;
  s.policy.exclude_after = 0;
  s.policy.restart_delay = 0;
  s.workers.progress_within = 0;
}

void DrawSmallJob(Prng& prng, Scenario& s) {
  Quiet(s);
  s.job.nodes = s.job.max_nodes = static_cast<int>(prng.Between(2, 4));
  s.job.min_nodes = std::max(1, s.job.nodes - 1);
  s.job.slots = 1;
  s.job.places = prng.Chance(50) ? Places::kSpec : Places::kByRank;
  s.limits.lease = prng.Between(4, 10) * kSecond;
  s.workers.run_time = prng.Between(15, 40) * kSecond;
  s.faults.phase = prng.Between(40, 80) * kSecond;
  s.limits.shutdown_grace = prng.Skewed(100 * kMillisecond, 2 * kSecond);
  s.network.delay = prng.Skewed(100, 2 * kMillisecond);
  s.workers.exec_delay = prng.Skewed(500, 10 * kMillisecond);
  s.faults.late_start = 100 * kMillisecond;
  s.policy.join_settle = 0;
  s.limits.last_call = prng.Skewed(kMillisecond, kSecond);
  s.policy.scale_up = 0;
}

}  // namespace

// More hosts than the threshold for deferred decisions and longer heartbeat intervals. Rare and short: such a seed
// costs as much as hundreds of others.
void DrawManyHosts(Prng prng, Scenario& s) {
  if (prng.Below(5000) != 0 || s.limits.lease == 0) return;
  DrawSmallJob(prng, s);
  s.script.kind = Script::kNone;
  s.script.late_place = s.script.portless_place = -1;
  s.mix = "several hundred hosts";
  s.job.coordinator_alone = prng.Chance(30);
  s.job.nodes = s.job.max_nodes = static_cast<int>(prng.Between(300, 600));
  s.job.min_nodes = s.job.max_nodes - static_cast<int>(prng.Between(0, 20));
  s.workers.run_time = prng.Between(4, 8) * kSecond;
  s.faults.phase = 10 * kSecond;
  s.faults.gap = 3 * kSecond;
  for (const Fault fault : {Fault::kWorkerFails, Fault::kKillHost, Fault::kKillAgent, Fault::kReset,
                            Fault::kKillCoordinator, Fault::kCutBoth, Fault::kKillNode}) {
    s.faults.weight[static_cast<int>(fault)] = 1;
  }
  s.faults.outage_low = s.limits.lease / 8;
  s.faults.outage_high = 2 * s.limits.lease;
}

void DrawScript(Prng prng, Scenario& s) {
  if (!prng.Chance(10) || s.limits.lease == 0 || s.job.nodes > 16) return;
  DrawSmallJob(prng, s);
  s.detours.another_job_percent = 0;  // else wrong addresses at the start may be the only event
  switch (prng.Below(10)) {
    case 0:
      s.script.kind = Script::kFreezeWholeNode;
      s.mix = "all of a node is frozen, by the worst of clocks";
      s.job.coordinator_alone = prng.Chance(50);
      s.limits.lease = 10 * kSecond;
      s.clocks.drift_ppm = kWorstDriftPpm;
      s.clocks.worst = true;
      s.limits.shutdown_grace = 100 * kMillisecond;
      s.workers.term_slow_percent = s.workers.term_ignored_percent = s.workers.descendants_percent = 0;
      s.network.delay = 200;
      s.workers.exec_delay = kMillisecond;
      break;
    case 1:
      s.script.kind = Script::kSendAwayAndBack;
      s.mix = "old hosts come back beside those that stand for them";
      s.job.coordinator_alone = prng.Chance(50);
      break;
    case 2:
      s.script.kind = Script::kMoveCoordinator;
      s.mix = "the coordinator moves, and moves back";
      s.job.coordinator_alone = true;
      break;
    case 3:
      s.script.kind = Script::kRunUnheard;
      s.mix = "a member hears of no round";
      s.job.coordinator_alone = prng.Chance(50);
      s.limits.lease = prng.Between(170, 240) * kSecond;
      s.limits.coordinator_timeout = s.limits.rejoin_timeout = 2 * s.limits.lease;
      s.workers.run_time = prng.Between(60, 120) * kSecond;
      s.faults.phase = prng.Between(150, 300) * kSecond;
      break;
    case 4:
      s.script.kind = Script::kSplitNames;
      s.mix = "a name leads some elsewhere";
      s.job.coordinator_alone = true;
      break;
    case 5:
      s.script.kind = Script::kLateNewcomer;
      s.mix = "a newcomer comes late";
      s.job.coordinator_alone = prng.Chance(50);
      s.job.nodes = s.job.max_nodes = static_cast<int>(prng.Between(3, 4));
      s.job.min_nodes = s.job.max_nodes - 1;
      s.script.late_place = s.job.nodes - 1;
      s.limits.rejoin_timeout = 20 * kSecond;
      if (prng.Chance(50)) {  // and never gets ready
        s.script.portless_place = s.script.late_place;
      } else {  // and is taken in after the settle time: there is room
        s.job.places = Places::kByRank;
        ++s.job.max_nodes;
        s.policy.join_settle = prng.Skewed(500 * kMillisecond, 5 * kSecond);
      }
      break;
    case 6:
      s.script.kind = Script::kWakeAfterExit;
      s.mix = "a host sleeps while its workers end";
      s.job.coordinator_alone = prng.Chance(50);
      s.job.slots = static_cast<int>(prng.Between(1, 2));
      break;
    case 7:
      s.script.kind = Script::kReturnAtOnce;
      s.mix = "the primary is back at once";
      s.job.coordinator_alone = false;
      s.job.places = prng.Chance(50) ? Places::kByRank : Places::kNone;
      s.job.serves_if_local = true;
      break;
    case 8:
      s.script.kind = Script::kCutOffTogether;
      s.mix = "the primary is cut off with another member";
      s.job.coordinator_alone = false;
      s.job.nodes = s.job.max_nodes = static_cast<int>(prng.Between(4, 5));
      s.job.min_nodes = 3;
      s.limits.shutdown_grace = prng.Between(kSecond, 15 * kSecond);
      s.limits.termination_grace = prng.Between(kSecond, 60 * kSecond);
      s.limits.rejoin_timeout = 10 * 60 * kSecond;  // those who are cut off must not give the job up
      s.workers.run_time = prng.Between(80, 150) * kSecond;
      s.workers.term_slow_percent = 80;
      s.faults.phase = prng.Between(60, 120) * kSecond;
      break;
    default:
      s.script.kind = Script::kFarewellTwice;
      s.mix = "the primary ends, and so does its successor";
      s.job.coordinator_alone = false;
      s.job.nodes = s.job.max_nodes = 3;
      s.job.min_nodes = s.script.late_place = 2;
      s.limits.lease = prng.Between(8, 10) * kSecond;
      s.workers.run_time = prng.Between(40, 60) * kSecond;
      s.limits.last_call = kMillisecond;
      s.faults.replace_low = 1100 * kMillisecond;  // the old one lasts for a moment
      s.faults.replace_high = 2 * kSecond;
      break;
  }
}

}  // namespace muster::simulation
