// Workers end: by themselves, by a signal or with their machine. Their host reaps them.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/delays.h"
#include "tests/simulation/endings.h"
#include "tests/simulation/workers.h"

namespace muster::simulation {

void Workers::Fail(WorkerProcess* worker, const host::Ending& ending) {
  if (worker->hangs) return;
  const bool can_write = !worker->dead && worker->frozen == 0 && worker->stuck == 0 && worker->parent == nullptr;
  const bool writes = can_write && !env_->healed() && !ending.ok() && !ending.by_signal && !worker->signalled &&
                      scenario_.workers.early_words_percent > 0 &&
                      env_->hardships().Chance(scenario_.workers.early_words_percent);
  if (!writes) return Die(worker, ending, true);
  WriteErrorFile(worker, ending);
}

// The time in an error file is a whole second of the wall clock; the file's own time is exact, but a file server
// may use another clock.
void Workers::WriteErrorFile(WorkerProcess* worker, const host::Ending& ending) {
  if (worker->word.at >= 0) return;
  const absl::Time wall = worker->host->machine->WallAt(env_->now());
  const absl::Time second = absl::FromUnixSeconds(absl::ToUnixSeconds(wall));
  Prng& prng = env_->hardships();
  const bool own_clock = prng.Chance(70);
  const absl::Time written =
      own_clock ? wall
                : wall + absl::Microseconds(prng.Chance(50) ? prng.Between(0, 5 * kSecond)
                                                            : -prng.Between(kSecond, 5 * kSecond));
  worker->word = {
      .at = env_->now(),
      .second = absl::ToUnixSeconds(wall),
      .latest = env_->now() + (own_clock ? 0 : absl::ToInt64Microseconds(second + absl::Seconds(1) - wall)),
      .written = written};
  env_->Note("worker", absl::StrCat(worker->host->name, ":", worker->local_rank, " writes that it fails"));
  env_->scheduler().After(prng.Skewed(10 * kMillisecond, 3 * kSecond),
                          [this, worker, ending] { Die(worker, ending, true); });
}

void Workers::Kill(WorkerProcess* worker, Micros within) {
  if (worker->dead || worker->kill_pending) return;
  worker->kill_pending = true;
  env_->scheduler().After(env_->prng().Between(50, within),
                          [this, worker] { Die(worker, BySignal(SIGKILL), false); });
}

void Workers::LosePower(WorkerProcess* worker) {
  if (worker->dead) return;
  worker->kill_pending = true;
  worker->stuck = 0;
  Die(worker, BySignal(SIGKILL), false);
}

void Workers::Die(WorkerProcess* worker, const host::Ending& ending, bool by_itself) {
  if (worker->dead) return;
  if (by_itself && (worker->frozen > 0 || worker->stuck > 0)) {
    if (!worker->pending_ending) worker->pending_ending = ending;
    return;
  }
  if (worker->stuck > 0) {  // with SIGKILL pending it counts as ended by design, with its dependents
    Exempt(worker);
    for (WorkerProcess* descendant : worker->host->descendants) {
      if (descendant->parent == worker) Exempt(descendant);
    }
    return;
  }
  worker->dead = true;
  env_->Note("worker",
             absl::StrCat(worker->host->name, ":", worker->local_rank, " of round ", ToString(worker->round),
                          worker->parent != nullptr ? absl::StrCat(" (left behind, pid ", worker->pid, ")") : "",
                          ending.by_signal ? " dies by signal " : " exits ", ending.number));
  const bool says_so = worker->word.at >= 0 && !ending.by_signal && !ending.ok();
  const bool by_its_own_fault = by_itself && (!worker->signalled || says_so);
  checks_->invariants.OnDeath(*worker, ending, by_its_own_fault);
  if (by_its_own_fault && worker->parent == nullptr && !ending.ok())
    checks_->policies.OnFailure(*worker, ending.by_signal);  // at the time in its error file, if it wrote one
  // What it wrote before it was ended counts: it had failed, and could not exit in time.
  if (worker->parent == nullptr && worker->signalled && worker->word.at >= 0 && ending.by_signal) {
    checks_->invariants.OnFailureWithoutExit(*worker, 1);
    checks_->policies.OnFailure(*worker, false);
  }
  if (worker->parent != nullptr && worker->parent->training == worker) OnTrainingDead(worker->parent);
  if (worker->parent != nullptr) return;
  worker->succeeded = by_its_own_fault && ending.ok();
  TellHost(worker, ending);
  if (scenario_.workers.peers_fail_too && !ending.ok()) FailPeersOf(*worker);
}

void Workers::TellHost(WorkerProcess* worker, const host::Ending& ending) {
  HostProcess* host = worker->host;
  host::Ending told = ending;
  if (!ending.ok()) told.error_text = WordsOf(worker->round, worker->rank);
  if (worker->word.at >= 0) {
    told.failed_at_s = worker->word.second;
    told.reported_at = worker->word.written;
  }
  host->shell.unreaped.emplace_back(worker, told);
  execution_->DeliverAfter(kReapDelay, host, [this, host] { CollectEnded(host); });
}

void Workers::FailPeersOf(const WorkerProcess& worker) {
  const auto& all = cluster_->workers();
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    WorkerProcess* peer = it->get();
    if (peer->dead || peer->parent != nullptr || peer->round != worker.round) continue;
    env_->scheduler().After(env_->prng().Exponential(500 * kMillisecond),
                            [this, peer] { Die(peer, WithCode(1), true); });
  }
}

void Workers::Exempt(WorkerProcess* worker) {
  if (worker->dead || worker->exempt) return;
  worker->exempt = true;
  if (worker->executing) checks_->invariants.OnExempt(*worker);
}

void Workers::ExemptOrphans(const HostProcess& host) {
  const AgentProcess* agent = host.agent;
  const bool sweeps = agent != nullptr && agent->runs() && agent->core.configured();
  if (host.alive || (agent != nullptr && agent->swept)) return;
  // In a container of its own the kernel ends them with process 1; if that lives on, nobody does.
  if (host.split() ? host.end_is_proved : sweeps) return;
  for (WorkerProcess* descendant : host.descendants) Exempt(descendant);
}

// ---- the host reaps

void Workers::CollectEnded(HostProcess* host) {
  while (host->alive && !host->shell.unreaped.empty()) {
    const auto [worker, ending] = host->shell.unreaped.front();
    host->shell.unreaped.pop_front();
    Reap(host, worker, ending);
  }
}

// The process group of an ended worker is killed, unless the core gives it time.
void Workers::Reap(HostProcess* host, WorkerProcess* worker, const host::Ending& ending) {
  if (std::find(host->workers.begin(), host->workers.end(), worker) == host->workers.end()) return;
  host::Ending told = ending;
  told.wall = host->machine->WallAt(env_->now());
  WorkerProcess* training = worker->training;
  if (training != nullptr && !training->dead && !training->kill_pending) {
    told.rest_lives = host->core.SparesRest();
    worker->training_spared = told.rest_lives;
    if (!told.rest_lives && worker->told_to_stop && !host->shell.out_of_time)
      checks_->invariants.OnSparedKilled(*training);
    if (!told.rest_lives) Kill(training, kKillDelayMax);
  }
  host->Feed(&host::HostCore::OnExit, worker->local_rank, told);
}

void Workers::OnTrainingDead(WorkerProcess* wrapper) {
  HostProcess* host = wrapper->host;
  execution_->DeliverAfter(kReapDelay, host, [host, wrapper] {
    if (!std::exchange(wrapper->training_spared, false)) return;
    host->Feed(&host::HostCore::OnRestEnded, wrapper->local_rank);
  });
}

}  // namespace muster::simulation
