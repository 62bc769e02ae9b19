// Workers start, run, leave children behind and are held up.
#include "tests/simulation/workers.h"

#include <algorithm>
#include <csignal>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"
#include "base/exit_codes.h"
#include "base/wire/ids.h"
#include "tests/simulation/delays.h"
#include "tests/simulation/endings.h"

namespace muster::simulation {
namespace {

constexpr Micros kStartLimitAtLeast = 59 * kSecond;  // the host's limit by any machine's clock

}  // namespace

void Workers::Spawn(HostProcess* host, const v1::Round& round) {
  env_->Note("host", absl::StrCat(host->name, " spawns round ", muster::ToString(round.id()), " rank ",
                                  round.first_rank(), " of ", round.world_size()));
  MUSTER_CHECK(!host->shell.preflight_runs, "a round starts beside a preflight");
  checks_->invariants.OnSpawn(*host, round);
  std::vector<v1::Worker> spawned;
  const bool start_fails = host->fate.start_fails > 0;
  if (start_fails) --host->fate.start_fails;
  host->workers.clear();
  host->shell.out_of_time = false;
  host->shell.signs = 0;
  std::erase_if(host->descendants, [](const WorkerProcess* d) { return d->dead; });
  for (int i = 0; i < scenario_.job.slots; ++i) {
    WorkerProcess* worker = cluster_->NewWorker();
    worker->host = host;
    worker->round = KeyOf(round.id());
    worker->local_rank = i;
    worker->rank = round.first_rank() + i;
    worker->world_size = round.world_size();
    worker->pid = host->machine->next_pid++;
    worker->mute = scenario_.hangs.mute_percent > 0 && env_->hardships().Chance(scenario_.hangs.mute_percent);
    host->workers.push_back(worker);
    spawned.emplace_back();
    spawned.back().set_local_rank(i);
    spawned.back().set_pid(worker->pid);
    const Micros exec_after = ExecDelay(worker);
    if (start_fails && i == 0) {
      env_->scheduler().After(exec_after, [this, host, worker] { FailToStart(host, worker); });
    } else {
      env_->scheduler().After(exec_after, [this, worker] { Exec(worker); });
    }
  }
  checks_->conduct.OnSpawn(host);
  host->Feed(&host::HostCore::OnSpawned, spawned);
}

void Workers::FailToStart(HostProcess* host, WorkerProcess* worker) {
  if (worker->dead) return;
  worker->dead = true;
  checks_->invariants.OnFailureWithoutExit(*worker, 126);
  checks_->policies.OnFailure(*worker, false);
  execution_->DeliverAfter(kReapDelay, host, [host, worker] {
    if (std::find(host->workers.begin(), host->workers.end(), worker) == host->workers.end()) return;
    host->Feed(&host::HostCore::OnSpawnFailed, worker->local_rank, 126, "not executable");
  });
}

Micros Workers::ExecDelay(WorkerProcess* worker) {
  if (env_->healed() || !env_->prng().Chance(scenario_.workers.slow_start_percent)) {
    return env_->prng().Between(scenario_.workers.exec_delay / 2, scenario_.workers.exec_delay);
  }
  env_->scheduler().After(kStartLimitAtLeast, [this, worker] {
    if (worker->dead || worker->executing) return;
    checks_->invariants.OnFailureWithoutExit(*worker, kExitFault);
    checks_->policies.OnFailure(*worker, false);
  });
  return env_->prng().Between(kStartLimitAtLeast / 2, 2 * kStartLimitAtLeast);
}

host::Ending Workers::DrawFailure() {
  static constexpr int kCodes[] = {1, 2, 7, 42, 255};
  static constexpr int kSignals[] = {SIGKILL, SIGSEGV, SIGABRT, SIGBUS};
  host::Ending ending;
  ending.by_signal = env_->prng().Chance(40);
  ending.number = ending.by_signal ? kSignals[env_->prng().Below(4)] : kCodes[env_->prng().Below(5)];
  if (scenario_.workers.told_failures_percent > 0 &&
      env_->hardships().Chance(scenario_.workers.told_failures_percent)) {
    ending.oom_killed = ending.by_signal && ending.number == SIGKILL;
  }
  return ending;
}

void Workers::Exec(WorkerProcess* worker) {
  if (worker->dead) return;
  if (worker->stuck > 0) {
    worker->pending_exec = true;
    return;
  }
  worker->pending_exec = false;
  worker->executing = true;
  env_->Note("worker", absl::StrCat(worker->host->name, ":", worker->local_rank, " executes as rank ",
                                    worker->rank, " of round ", ToString(worker->round)));
  checks_->invariants.OnExec(*worker);
  HostProcess* host = worker->host;
  execution_->DeliverAfter(kReapDelay, host, [host, worker] {
    if (std::find(host->workers.begin(), host->workers.end(), worker) == host->workers.end()) return;
    host->Feed(&host::HostCore::OnExecuting, worker->local_rank);
  });
  PlanLife(worker);
}

void Workers::PlanLife(WorkerProcess* worker) {
  const WorkerHabits& habits = scenario_.workers;
  Prng& prng = env_->prng();
  Scheduler& scheduler = env_->scheduler();
  const bool fails = !env_->healed() && prng.Chance(habits.fails_percent);
  Micros life =
      fails ? prng.Between(0, habits.run_time) : prng.Between(habits.run_time * 95 / 100, habits.run_time);
  const host::Ending ending = fails ? DrawFailure() : host::Ending{};
  // The last ones may end a good while after those that show the signs.
  if (scenario_.hangs.timeout > 0) life += env_->hardships().Between(0, scenario_.hangs.timeout * 3 / 4);
  scheduler.After(life, [this, worker, ending] { Fail(worker, ending); });
  if (habits.wrappers_percent > 0 && prng.Chance(habits.wrappers_percent)) {
    worker->training = NewChild(worker);
    checks_->invariants.OnExec(*worker->training);
  }
  if (prng.Chance(habits.descendants_percent)) {
    scheduler.After(prng.Between(0, habits.run_time), [this, worker] { Fork(worker); });
  }
  if (habits.progress_within > 0) {
    scheduler.After(prng.Between(1, habits.progress_within), [this, worker] { TouchProgress(worker); });
  }
}

void Workers::TouchProgress(WorkerProcess* worker) {
  HostProcess* host = worker->host;
  if (worker->dead || worker->frozen > 0 || worker->stuck > 0 || !host->runs()) return;
  checks_->policies.OnProgress(*host, worker->round);
  execution_->DeliverAfter(kReapDelay, host, [host, worker] {
    if (std::find(host->workers.begin(), host->workers.end(), worker) == host->workers.end()) return;
    host->Feed(&host::HostCore::OnProgress);
  });
}

WorkerProcess* Workers::NewChild(WorkerProcess* worker) {
  WorkerProcess* child = cluster_->NewWorker();
  child->host = worker->host;
  child->round = worker->round;
  child->local_rank = worker->local_rank;
  child->rank = worker->rank;
  child->world_size = worker->world_size;
  child->pid = worker->host->machine->next_pid++;
  child->parent = worker;
  child->executing = true;
  worker->host->descendants.push_back(child);
  return child;
}

// A child that leaves the worker's session and usually outlives the worker.
void Workers::Fork(WorkerProcess* worker) {
  if (worker->dead || worker->kill_pending || worker->frozen > 0 || worker->stuck > 0) return;
  WorkerProcess* child = NewChild(worker);
  env_->Note("worker",
             absl::StrCat(worker->host->name, ":", worker->local_rank, " leaves pid ", child->pid, " behind"));
  checks_->invariants.OnExec(*child);
  if (!env_->prng().Chance(30)) return;
  env_->scheduler().After(env_->prng().Between(0, 2 * scenario_.workers.run_time),
                          [this, child] { Die(child, {}, true); });
}

// ---- holds

void Workers::Freeze(WorkerProcess* worker, Micros for_how_long) {
  if (worker->dead) return;
  ++worker->frozen;
  env_->scheduler().After(for_how_long, [this, worker] {
    if (worker->frozen > 0 && --worker->frozen == 0) LetGo(worker);
  });
}

void Workers::HoldInKernel(WorkerProcess* worker, Micros for_how_long) {
  if (worker->dead) return;
  ++worker->stuck;
  env_->scheduler().After(for_how_long, [this, worker] {
    if (worker->stuck > 0 && --worker->stuck == 0) LetGo(worker);
  });
}

void Workers::EndHolds(WorkerProcess* worker) {
  if (worker->frozen == 0 && worker->stuck == 0) return;
  worker->frozen = worker->stuck = 0;
  LetGo(worker);
}

// Events that waited for the end of a hold.
void Workers::LetGo(WorkerProcess* worker) {
  if (worker->dead || worker->stuck > 0) return;
  if (worker->kill_pending) return Die(worker, BySignal(SIGKILL), false);
  if (worker->frozen > 0) return;
  if (worker->pending_ending) return Die(worker, *worker->pending_ending, true);
  if (worker->pending_exec) Exec(worker);
}

}  // namespace muster::simulation
