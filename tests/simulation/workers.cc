// The workers of a host: start, run, and end by themselves or by a signal.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr Micros kReapDelay = 50;                    // a death to the pidfd's event
constexpr Micros kStartLimitAtLeast = 59 * kSecond;  // the host's limit by any machine's clock
constexpr Micros kSlowestTerm = 12 * kSecond;

host::Ending BySignal(int signal) {
  host::Ending ending;
  ending.by_signal = true;
  ending.number = signal;
  return ending;
}

host::Ending WithCode(int code) {
  host::Ending ending;
  ending.number = code;
  return ending;
}

}  // namespace

void World::SpawnWorkers(HostProcess* host, const v1::Round& round) {
  Note("host", absl::StrCat(host->name, " spawns round ", muster::ToString(round.id()), " rank ",
                            round.first_rank(), " of ", round.world_size()));
  MUSTER_CHECK(!host->preflight_runs, "a round starts beside a preflight");
  invariants_.OnSpawn(*host, round);
  std::vector<v1::Worker> spawned;
  const bool start_fails = host->start_fails > 0;
  if (start_fails) --host->start_fails;
  host->workers.clear();
  host->out_of_time = false;
  std::erase_if(host->descendants, [](const WorkerProcess* d) { return d->dead; });
  for (int i = 0; i < scenario_.job.slots; ++i) {
    workers_.push_back(std::make_unique<WorkerProcess>());
    WorkerProcess* worker = workers_.back().get();
    worker->host = host;
    worker->round = KeyOf(round.id());
    worker->local_rank = i;
    worker->rank = round.first_rank() + i;
    worker->world_size = round.world_size();
    worker->pid = host->machine->next_pid++;
    host->workers.push_back(worker);
    spawned.emplace_back();
    spawned.back().set_local_rank(i);
    spawned.back().set_pid(worker->pid);
    const Micros exec_after = ExecDelay(worker);
    if (start_fails && i == 0) {
      scheduler_.After(exec_after, [this, host, worker] {
        if (worker->dead) return;
        worker->dead = true;
        invariants_.OnStartFailure(*worker, 126);
        policies_.OnFailure(*worker, false);
        DeliverAfter(kReapDelay, host, [this, host, worker] {
          if (std::find(host->workers.begin(), host->workers.end(), worker) == host->workers.end()) return;
          OnHost(host, &host::HostCore::OnSpawnFailed, worker->local_rank, 126, "not executable");
        });
      });
    } else {
      scheduler_.After(exec_after, [this, worker] { Exec(worker); });
    }
  }
  conduct_.OnSpawn(host);
  OnHost(host, &host::HostCore::OnSpawned, spawned);
}

Micros World::ExecDelay(WorkerProcess* worker) {
  if (healed_ || !prng_.Chance(scenario_.workers.slow_start_percent)) {
    return prng_.Between(scenario_.workers.exec_delay / 2, scenario_.workers.exec_delay);
  }
  scheduler_.After(kStartLimitAtLeast, [this, worker] {
    if (worker->dead || worker->executing) return;
    invariants_.OnStartFailure(*worker, kExitFault);
    policies_.OnFailure(*worker, false);
  });
  return prng_.Between(kStartLimitAtLeast / 2, 2 * kStartLimitAtLeast);
}

host::Ending World::DrawFailure() {
  static constexpr int kCodes[] = {1, 2, 7, 42, 255};
  static constexpr int kSignals[] = {SIGKILL, SIGSEGV, SIGABRT, SIGBUS};
  host::Ending ending;
  ending.by_signal = prng_.Chance(40);
  ending.number = ending.by_signal ? kSignals[prng_.Below(4)] : kCodes[prng_.Below(5)];
  if (scenario_.workers.told_failures_percent > 0 && hardships_.Chance(scenario_.workers.told_failures_percent)) {
    ending.oom_killed = ending.by_signal && ending.number == SIGKILL;
  }
  return ending;
}

void World::Exec(WorkerProcess* worker) {
  if (worker->dead) return;
  if (worker->stuck > 0) {
    worker->pending_exec = true;
    return;
  }
  worker->pending_exec = false;
  worker->executing = true;
  Note("worker", absl::StrCat(worker->host->name, ":", worker->local_rank, " executes as rank ", worker->rank,
                              " of round ", ToString(worker->round)));
  invariants_.OnExec(*worker);
  HostProcess* host = worker->host;
  DeliverAfter(kReapDelay, host, [this, host, worker] {
    if (std::find(host->workers.begin(), host->workers.end(), worker) == host->workers.end()) return;
    OnHost(host, &host::HostCore::OnExecuting, worker->local_rank);
  });
  const bool fails = !healed_ && prng_.Chance(scenario_.workers.fails_percent);
  const Micros life = fails ? prng_.Between(0, scenario_.workers.run_time)
                            : prng_.Between(scenario_.workers.run_time * 95 / 100, scenario_.workers.run_time);
  const host::Ending ending = fails ? DrawFailure() : host::Ending{};
  scheduler_.After(life, [this, worker, ending] { FailWorker(worker, ending); });
  if (scenario_.workers.wrappers_percent > 0 && prng_.Chance(scenario_.workers.wrappers_percent)) {
    worker->training = NewChild(worker);
    invariants_.OnExec(*worker->training);
  }
  if (prng_.Chance(scenario_.workers.descendants_percent)) {
    scheduler_.After(prng_.Between(0, scenario_.workers.run_time), [this, worker] { Fork(worker); });
  }
  if (scenario_.workers.progress_within > 0) {
    scheduler_.After(prng_.Between(1, scenario_.workers.progress_within),
                     [this, worker] { TouchProgress(worker); });
  }
}

void World::TouchProgress(WorkerProcess* worker) {
  HostProcess* host = worker->host;
  if (worker->dead || worker->frozen > 0 || worker->stuck > 0 || !host->runs()) return;
  policies_.OnProgress(*host, worker->round);
  DeliverAfter(kReapDelay, host, [this, host, worker] {
    if (std::find(host->workers.begin(), host->workers.end(), worker) == host->workers.end()) return;
    OnHost(host, &host::HostCore::OnProgress);
  });
}

WorkerProcess* World::NewChild(WorkerProcess* worker) {
  workers_.push_back(std::make_unique<WorkerProcess>());
  WorkerProcess* child = workers_.back().get();
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
void World::Fork(WorkerProcess* worker) {
  if (worker->dead || worker->kill_pending || worker->frozen > 0 || worker->stuck > 0) return;
  WorkerProcess* child = NewChild(worker);
  Note("worker", absl::StrCat(worker->host->name, ":", worker->local_rank, " leaves pid ", child->pid, " behind"));
  invariants_.OnExec(*child);
  if (!prng_.Chance(30)) return;
  scheduler_.After(prng_.Between(0, 2 * scenario_.workers.run_time), [this, child] { Die(child, {}, true); });
}

void World::FailWorker(WorkerProcess* worker, const host::Ending& ending) {
  const bool can_write = !worker->dead && worker->frozen == 0 && worker->stuck == 0 && worker->parent == nullptr;
  const bool writes = can_write && !healed_ && !ending.ok() && !ending.by_signal && !worker->signalled &&
                      scenario_.workers.early_words_percent > 0 &&
                      hardships_.Chance(scenario_.workers.early_words_percent);
  if (!writes) return Die(worker, ending, true);
  WriteErrorFile(worker, ending);
}

// The time in an error file is a whole second of the wall clock; the file's own time is exact, but a file server
// may use another clock.
void World::WriteErrorFile(WorkerProcess* worker, const host::Ending& ending) {
  if (worker->word.at >= 0) return;
  const absl::Time wall = WallNow(*worker->host->machine);
  const absl::Time second = absl::FromUnixSeconds(absl::ToUnixSeconds(wall));
  const bool own_clock = hardships_.Chance(70);
  const absl::Time written =
      own_clock ? wall
                : wall + absl::Microseconds(hardships_.Chance(50) ? hardships_.Between(0, 5 * kSecond)
                                                                  : -hardships_.Between(kSecond, 5 * kSecond));
  worker->word = {.at = now(),
                  .second = absl::ToUnixSeconds(wall),
                  .latest = now() + (own_clock ? 0 : absl::ToInt64Microseconds(second + absl::Seconds(1) - wall)),
                  .written = written};
  Note("worker", absl::StrCat(worker->host->name, ":", worker->local_rank, " writes that it fails"));
  scheduler_.After(hardships_.Skewed(10 * kMillisecond, 3 * kSecond),
                   [this, worker, ending] { Die(worker, ending, true); });
}

void World::FreezeWorker(WorkerProcess* worker, Micros for_how_long) {
  if (worker->dead) return;
  ++worker->frozen;
  scheduler_.After(for_how_long, [this, worker] {
    if (worker->frozen > 0 && --worker->frozen == 0) LetGo(worker);
  });
}

void World::HoldInKernel(WorkerProcess* worker, Micros for_how_long) {
  if (worker->dead) return;
  ++worker->stuck;
  scheduler_.After(for_how_long, [this, worker] {
    if (worker->stuck > 0 && --worker->stuck == 0) LetGo(worker);
  });
}

// Events that waited for the end of a hold.
void World::LetGo(WorkerProcess* worker) {
  if (worker->dead || worker->stuck > 0) return;
  if (worker->kill_pending) return Die(worker, BySignal(SIGKILL), false);
  if (worker->frozen > 0) return;
  if (worker->pending_ending) return Die(worker, *worker->pending_ending, true);
  if (worker->pending_exec) Exec(worker);
}

void World::Exempt(WorkerProcess* worker) {
  if (worker->dead || worker->exempt) return;
  worker->exempt = true;
  if (worker->executing) invariants_.OnExempt(*worker);
}

// Leftovers of a host and an agent of which neither can sweep, until a successor finds them: exempt by design.
void World::ExemptOrphans(const HostProcess& host) {
  const AgentProcess* agent = host.agent;
  const bool sweeps = agent != nullptr && agent->runs() && agent->core.configured();
  if (host.alive || sweeps || (agent != nullptr && agent->swept)) return;
  for (WorkerProcess* descendant : host.descendants) Exempt(descendant);
}

// by_itself: not by a SIGKILL, which alone ends a stopped process.
void World::Die(WorkerProcess* worker, const host::Ending& ending, bool by_itself) {
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
  Note("worker",
       absl::StrCat(worker->host->name, ":", worker->local_rank, " of round ", ToString(worker->round),
                    worker->parent != nullptr ? absl::StrCat(" (left behind, pid ", worker->pid, ")") : "",
                    ending.by_signal ? " dies by signal " : " exits ", ending.number));
  const bool says_so = worker->word.at >= 0 && !ending.by_signal && !ending.ok();
  const bool by_its_own_fault = by_itself && (!worker->signalled || says_so);
  invariants_.OnDeath(*worker, ending, by_its_own_fault);
  if (by_its_own_fault && worker->parent == nullptr && !ending.ok())
    policies_.OnFailure(*worker, ending.by_signal);  // at the time in its error file, if it wrote one
  if (worker->parent != nullptr && worker->parent->training == worker) OnTrainingDead(worker->parent);
  if (worker->parent != nullptr) return;
  HostProcess* host = worker->host;
  host::Ending told = ending;
  if (!ending.ok()) told.error_text = WordsOf(worker->round, worker->rank);
  if (worker->word.at >= 0) {
    told.failed_at_s = worker->word.second;
    told.reported_at = worker->word.written;
  }
  worker->succeeded = by_its_own_fault && ending.ok();
  host->unreaped.emplace_back(worker, told);
  DeliverAfter(kReapDelay, host, [this, host] { CollectEnded(host); });
  if (!scenario_.workers.peers_fail_too || ending.ok()) return;
  for (auto it = workers_.rbegin(); it != workers_.rend(); ++it) {
    WorkerProcess* peer = it->get();
    if (peer->dead || peer->parent != nullptr || peer->round != worker->round) continue;
    scheduler_.After(prng_.Exponential(500 * kMillisecond), [this, peer] { Die(peer, WithCode(1), true); });
  }
}

void World::SignalWorkers(HostProcess* host, int signal) {
  Note("host", absl::StrCat(host->name, " signals its workers: ", signal));
  invariants_.OnSignal(*host, signal);
  conduct_.OnSignal(host);
  for (WorkerProcess* worker : host->workers) {
    if (worker->dead) continue;
    worker->signalled = true;
    if (signal == SIGKILL) continue;
    if (!worker->executing) {  // the exec stage has default actions
      scheduler_.After(100, [this, worker] { Die(worker, BySignal(SIGTERM), true); });
      continue;
    }
    WorkerProcess* handles = worker;
    if (worker->training != nullptr && !worker->training->dead) {
      worker->stop_signal = signal;
      scheduler_.After(prng_.Between(100, kMillisecond),
                       [this, worker, signal] { Die(worker, BySignal(signal), true); });
      handles = worker->training;
    }
    const auto dice = static_cast<int>(prng_.Below(100));
    if (dice < scenario_.workers.term_ignored_percent) continue;
    const bool slow = dice < scenario_.workers.term_ignored_percent + scenario_.workers.term_slow_percent;
    const Micros takes =
        slow ? prng_.Skewed(100 * kMillisecond, kSlowestTerm) : prng_.Between(100, 20 * kMillisecond);
    host::Ending ending;
    if (!prng_.Chance(scenario_.workers.term_exits_zero_percent)) {
      ending = prng_.Chance(70) ? BySignal(SIGTERM) : WithCode(1);
    }
    scheduler_.After(takes, [this, handles, ending] { Die(handles, ending, true); });
  }
  if (signal == SIGKILL) KillSessionsOf(host);
}

}  // namespace muster::simulation
