#include "tests/simulation/sweeps.h"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/simulation/delays.h"
#include "tests/simulation/endings.h"

namespace muster::simulation {
namespace {

constexpr int kOneHasATrap = 3;  // of so many wrappers: it exits by itself, as a shell with an EXIT trap does
constexpr Micros kSlowestTerm = 12 * kSecond;
constexpr Micros kSweepMax = 20 * kMillisecond;
constexpr Micros kSweepReport = kSecond;  // interval at which an unfinished sweep reports what is left

}  // namespace

void Sweeps::Signal(HostProcess* host, int signal) {
  env_->Note("host", absl::StrCat(host->name, " signals its workers: ", signal));
  checks_->invariants.OnSignal(*host, signal);
  checks_->conduct.OnSignal(host);
  for (WorkerProcess* worker : host->workers) {
    if (worker->dead) continue;
    worker->signalled = true;
    if (signal != SIGKILL) SignalWorker(worker, signal);
  }
  if (signal == SIGKILL) KillSessionsOf(host);
}

void Sweeps::SignalWorker(WorkerProcess* worker, int signal) {
  const WorkerHabits& habits = scenario_.workers;
  Prng& prng = env_->prng();
  Scheduler& scheduler = env_->scheduler();
  if (!worker->executing) {  // the exec stage has default actions
    scheduler.After(100, [this, worker] { workers_->Die(worker, BySignal(SIGTERM), true); });
    return;
  }
  WorkerProcess* handles = worker;
  if (worker->training != nullptr && !worker->training->dead) {
    worker->told_to_stop = true;
    const host::Ending ending = worker->pid % kOneHasATrap == 0 ? WithCode(1) : BySignal(signal);
    scheduler.After(prng.Between(100, kMillisecond),
                    [this, worker, ending] { workers_->Die(worker, ending, true); });
    handles = worker->training;
  }
  const auto dice = static_cast<int>(prng.Below(100));
  if (dice < habits.term_ignored_percent) return;
  const bool slow = dice < habits.term_ignored_percent + habits.term_slow_percent;
  const Micros takes = slow ? prng.Skewed(100 * kMillisecond, kSlowestTerm) : prng.Between(100, 20 * kMillisecond);
  host::Ending ending;
  if (!prng.Chance(habits.term_exits_zero_percent)) ending = prng.Chance(70) ? BySignal(SIGTERM) : WithCode(1);
  scheduler.After(takes, [this, handles, ending] { workers_->Die(handles, ending, true); });
}

void Sweeps::KillWorkersOf(HostProcess* host, Micros within) {
  for (WorkerProcess* worker : host->workers) workers_->Kill(worker, within);
}

void Sweeps::KillSessionsOf(HostProcess* host) {
  KillWorkersOf(host, kKillDelayMax);
  for (WorkerProcess* worker : host->workers) {
    if (worker->training != nullptr) workers_->Kill(worker->training, kKillDelayMax);
  }
}

void Sweeps::KillMarked(HostProcess* host, Micros within) {
  KillWorkersOf(host, within);
  for (WorkerProcess* descendant : host->descendants) workers_->Kill(descendant, within);
}

void Sweeps::Sweep(HostProcess* host) {
  host->shell.preflight_runs = false;
  for (WorkerProcess* worker : host->workers) {
    worker->signalled = true;
    const bool spared = std::exchange(worker->training_spared, false) && !worker->training->dead;
    if (spared && !host->shell.out_of_time) checks_->invariants.OnSparedKilled(*worker->training);
  }
  if (host->shell.sweeping) return KillSessionsOf(host);
  host->shell.sweeping = true;
  host->shell.next_sweep_report = env_->now() + kSweepReport;
  SweepPass(host);
}

// A descendant becomes visible once it has lost its parent and become the host's child.
void Sweeps::SweepPass(HostProcess* host) {
  KillSessionsOf(host);
  ForkOnceMore(host);
  for (WorkerProcess* descendant : host->descendants) {
    if (descendant->parent->dead) workers_->Kill(descendant, kKillDelayMax);
  }
  execution_->DeliverAfter(env_->prng().Between(2 * kKillDelayMax, kSweepMax), host, [this, host] {
    const auto seen = [](const WorkerProcess* w) { return !w->dead && (w->parent == nullptr || w->parent->dead); };
    const auto left = std::count_if(host->workers.begin(), host->workers.end(), seen) +
                      std::count_if(host->descendants.begin(), host->descendants.end(), seen);
    host->shell.sweeping = left > 0;
    const bool report = left == 0 || env_->now() >= host->shell.next_sweep_report;
    if (report) {
      host->shell.next_sweep_report = env_->now() + kSweepReport;
      const std::string text = left == 0 ? "" : absl::StrCat(left, " processes");
      host->Feed(&host::HostCore::OnSwept, text);
    }
    if (left > 0) SweepPass(host);
  });
}

void Sweeps::ForkOnceMore(HostProcess* host) {
  if (scenario_.workers.late_forks_percent == 0) return;
  const std::vector<WorkerProcess*> found = host->descendants;
  for (WorkerProcess* descendant : found) {
    const bool can = !descendant->dead && !descendant->kill_pending && descendant->frozen == 0 &&
                     descendant->stuck == 0 && descendant->executing;
    if (!can || !env_->hardships().Chance(scenario_.workers.late_forks_percent)) continue;
    WorkerProcess* child = workers_->NewChild(descendant);
    env_->Note("worker", absl::StrCat(host->name, ": pid ", descendant->pid, " starts pid ", child->pid));
    child->exempt = descendant->exempt;
    if (!child->exempt) checks_->invariants.OnExec(*child);
  }
}

}  // namespace muster::simulation
