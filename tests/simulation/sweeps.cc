// Kills a host's processes: by its own shell, step by step, or by its agent once the host is dead.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr Micros kKillDelayMax = kMillisecond;  // SIGKILL to the end
constexpr Micros kSweepMax = 20 * kMillisecond;
constexpr Micros kSweepReport = kSecond;  // interval at which an unfinished sweep reports what is left

host::Ending Killed() {
  host::Ending ending;
  ending.by_signal = true;
  ending.number = SIGKILL;
  return ending;
}

}  // namespace

void World::Kill(WorkerProcess* worker, Micros within) {
  if (worker->dead || worker->kill_pending) return;
  worker->kill_pending = true;
  scheduler_.After(prng_.Between(50, within), [this, worker] { Die(worker, Killed(), false); });
}

void World::KillWorkersOf(HostProcess* host, Micros within) {
  for (WorkerProcess* worker : host->workers) Kill(worker, within);
}

void World::KillSessionsOf(HostProcess* host) {
  KillWorkersOf(host, kKillDelayMax);
  for (WorkerProcess* worker : host->workers) {
    if (worker->training != nullptr) Kill(worker->training, kKillDelayMax);
  }
}

// All processes with the host's marker.
void World::KillMarked(HostProcess* host, Micros within) {
  KillWorkersOf(host, within);
  for (WorkerProcess* descendant : host->descendants) Kill(descendant, within);
}

void World::SweepHost(HostProcess* host) {
  host->preflight_runs = false;
  for (WorkerProcess* worker : host->workers) {
    worker->signalled = true;
    const bool spared = std::exchange(worker->training_spared, false) && !worker->training->dead;
    if (spared && !host->out_of_time) invariants_.OnSparedKilled(*worker->training);
  }
  if (host->sweeping) return KillSessionsOf(host);
  host->sweeping = true;
  host->next_sweep_report = now() + kSweepReport;
  SweepPass(host);
}

// A process that a pass has found may have forked just before it was killed; the next pass finds the child.
void World::ForkOnceMore(HostProcess* host) {
  if (scenario_.workers.late_forks_percent == 0) return;
  const std::vector<WorkerProcess*> found = host->descendants;
  for (WorkerProcess* descendant : found) {
    const bool can = !descendant->dead && !descendant->kill_pending && descendant->frozen == 0 &&
                     descendant->stuck == 0 && descendant->executing;
    if (!can || !hardships_.Chance(scenario_.workers.late_forks_percent)) continue;
    WorkerProcess* child = NewChild(descendant);
    Note("worker", absl::StrCat(host->name, ": pid ", descendant->pid, " starts pid ", child->pid));
    invariants_.OnExec(*child);
  }
}

// A descendant becomes visible once it has lost its parent and become the host's child.
void World::SweepPass(HostProcess* host) {
  KillSessionsOf(host);
  ForkOnceMore(host);
  for (WorkerProcess* descendant : host->descendants) {
    if (descendant->parent->dead) Kill(descendant, kKillDelayMax);
  }
  DeliverAfter(prng_.Between(2 * kKillDelayMax, kSweepMax), host, [this, host] {
    const auto seen = [](const WorkerProcess* w) { return !w->dead && (w->parent == nullptr || w->parent->dead); };
    const auto left = std::count_if(host->workers.begin(), host->workers.end(), seen) +
                      std::count_if(host->descendants.begin(), host->descendants.end(), seen);
    host->sweeping = left > 0;
    const bool report = left == 0 || now() >= host->next_sweep_report;
    if (report) {
      host->next_sweep_report = now() + kSweepReport;
      const std::string text = left == 0 ? "" : absl::StrCat(left, " processes");
      OnHost(host, &host::HostCore::OnSwept, text);
    }
    if (left > 0) SweepPass(host);
  });
}

// A process that the kernel holds counts as ended once SIGKILL is pending.
bool World::AnythingAlive(const HostProcess& host) const {
  const auto alive = [](const WorkerProcess* w) { return !w->dead && !(w->stuck > 0 && w->kill_pending); };
  return host.alive || std::any_of(host.workers.begin(), host.workers.end(), alive) ||
         std::any_of(host.descendants.begin(), host.descendants.end(), alive);
}

}  // namespace muster::simulation
