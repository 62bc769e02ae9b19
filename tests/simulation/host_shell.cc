// The world as the host's shell: it starts agents, spawns, signals and reaps workers, sweeps, keeps the kernel's
// timer. And the workers themselves.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/exit_codes.h"
#include "proto/base/ids.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr Micros kLinkDelay = 100;              // host to agent and back
constexpr Micros kReapDelay = 50;               // a death to the pidfd's event
constexpr Micros kKillDelayMax = kMillisecond;  // SIGKILL to the end
constexpr Micros kSweepMax = 20 * kMillisecond;
constexpr Micros kSweepReport = kSecond;             // how often an unfinished sweep says what is left
constexpr Micros kStartLimitAtLeast = 59 * kSecond;  // the host's limit by any machine's clock
constexpr Micros kAgentStartMax = 30 * kMillisecond;
constexpr Micros kFlushMax = 5 * kMillisecond;
constexpr Micros kSlowestTerm = 12 * kSecond;
constexpr char kOutOfTime[] = "did not end in time";  // how the host says that the grace is over

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

void World::OnHost(HostProcess* host, const std::function<void(BootTime, host::Effects*)>& event) {
  if (!host->alive || host->finish.has_value()) return;
  host::Effects effects;
  event(BootNow(*host->machine), &effects);
  Execute(host, effects);
  if (host->busy) return;
  host->busy = true;
  while (!host->next.empty() && host->alive) {
    Scheduler::Action action = std::move(host->next.front());
    host->next.pop_front();
    action();
  }
  host->busy = false;
}

void World::Execute(HostProcess* host, const host::Effects& effects) {
  for (const host::Effect& effect : effects) {
    if (const auto* e = std::get_if<host::StartAgent>(&effect)) {
      StartAgentProcess(host, e->number);
    } else if (std::holds_alternative<host::KillAgent>(effect)) {
      Note("host", absl::StrCat(host->name, " kills its agent"));
      AgentProcess* agent = host->agent;
      host->link_open = false;
      scheduler_.After(prng_.Between(50, kKillDelayMax), [this, agent] { KillAgent(agent); });
    } else if (const auto* e = std::get_if<host::SendStatus>(&effect)) {
      const RoundKey round = KeyOf(e->status.started());
      if (e->status.outcome() == v1::OUTCOME_LEASE_ENDED && host->lease_ended_in != round) {
        host->lease_ended_in = round;
        conduct_.OnLeaseEnded(*host);
      }
      SendToAgent(host, e->status);
    } else if (const auto* e = std::get_if<host::SpawnWorkers>(&effect)) {
      SpawnWorkers(host, e->round);
    } else if (const auto* e = std::get_if<host::SignalWorkers>(&effect)) {
      SignalWorkers(host, e->signal);
    } else if (const auto* e = std::get_if<host::StopWorkers>(&effect)) {
      SignalWorkers(host, e->signal);
    } else if (std::holds_alternative<host::Sweep>(effect)) {
      SweepHost(host);
    } else if (const auto* e = std::get_if<host::SetKernelTimer>(&effect)) {
      SetKernelTimer(host, e->at);
    } else if (std::holds_alternative<host::RenewOffer>(effect)) {
      const bool none = !healed_ && scenario_.no_port_percent > 0 && hardships_.Chance(scenario_.no_port_percent);
      const auto port = none ? 0 : static_cast<uint32_t>(next_port_++);
      DeliverAfter(prng_.Between(100, 2 * kMillisecond), host, [this, host, port] {
        OnHost(host, [&](BootTime now, host::Effects* out) { host->core.OnOffer(now, port, out); });
      });
    } else if (std::holds_alternative<host::StartPreflight>(effect)) {
      StartPreflight(host);
    } else if (std::holds_alternative<host::AskGpus>(effect)) {
      AskGpus(host);
    } else if (const auto* e = std::get_if<host::Finish>(&effect)) {
      Note("host", absl::StrCat(host->name, " finishes: ", e->exit_code, " (", e->origin, ") ", e->reason));
      host->finish = *e;
      LookAtDeadline(host);
      invariants_.OnFinish(*host, *e);
      conduct_.OnFinish(*host, *e);
      DeliverAfter(prng_.Between(100, kFlushMax), host, [this, host] { KillHost(host); });
    } else if (const auto* e = std::get_if<muster::Note>(&effect)) {
      Note("host", absl::StrCat(host->name, ": ", e->text));
      host->out_of_time |= e->text.find(kOutOfTime) != std::string::npos;
    }
  }
}

void World::StartAgentProcess(HostProcess* host, uint64_t number) {
  if (host->agent != nullptr && host->link_open && host->agent->alive) {
    AgentProcess* old = host->agent;
    DeliverAfter(kLinkDelay, old, [this, old] {
      old->link_open = false;
      OnAgent(old, [old](BootTime now, agent::Effects*) { old->core.OnHostLinkClosed(now); });
    });
  }
  const bool fails = number > 1 && !healed_ && scenario_.agent_fails_percent > 0 &&
                     hardships_.Chance(scenario_.agent_fails_percent);
  if (fails) {
    host->link_open = false;
    DeliverAfter(kLinkDelay, host, [this, host, number] {
      OnHost(host, [&](BootTime now, host::Effects* out) {
        host->core.OnAgentFailed(now, number, "no process is to be had", out);
      });
    });
    return;
  }
  agents_.push_back(std::make_unique<AgentProcess>(host, number, prng_.Next()));
  AgentProcess* agent = agents_.back().get();
  agent->machine = host->machine;
  agent->pid = host->machine->next_pid++;
  agent->name = absl::StrCat(host->name, "/a", number);
  agent->started = false;
  agent->core.planted_bug = scenario_.planted_bug;
  host->agent = agent;
  host->link_open = true;
  host->agent_starts.push_back(now());
  Micros first_word = prng_.Between(2 * kMillisecond, kAgentStartMax);
  // What it finds out by the primary's name its host keeps.
  const bool looks_up = scenario_.name_lookup > 0 && !healed_ && !host->memory.has_served();
  if (looks_up) first_word += prng_.Between(scenario_.name_lookup * 3 / 4, scenario_.name_lookup);
  const bool slow = scenario_.slow_agents > 0 && !healed_;
  if (slow) first_word = hardships_.Between(first_word, first_word + scenario_.slow_agents);
  scheduler_.After(first_word, [this, agent] {
    if (!agent->alive) return;
    agent->started = true;
    agent->runs_since = now();
    ScheduleTick(agent, prng_.Between(1, 100 * kMillisecond));
    Drain(agent);
    if (agent->host->noticed) Notice(agent);
  });
}

void World::SendToAgent(HostProcess* host, const v1::HostStatus& status) {
  AgentProcess* agent = host->agent;
  if (agent == nullptr || !host->link_open) return;
  const bool finds_out = status.has_config() && scenario_.serves_if_local && !status.memory().has_served();
  DeliverAfter(kLinkDelay, agent, [this, agent, host, finds_out, status = status]() mutable {
    if (!agent->link_open) return;
    if (finds_out) status.mutable_memory()->set_served(host->place == 0);  // whether the primary's address is ours
    OnAgent(agent, [&](BootTime now, agent::Effects* out) { agent->core.OnHostStatus(now, status, out); });
  });
}

void World::KillHost(HostProcess* host) {
  if (!host->alive) return;
  Note("death", absl::StrCat("host ", host->name));
  host->alive = false;
  host->inbox.clear();
  if (!host->finish.has_value()) host->killed = true;
  KillWorkersOf(host, kKillDelayMax);  // their parent-death signal
  ExemptOrphans(*host);
  AgentProcess* agent = host->agent;
  if (agent != nullptr) {
    DeliverAfter(kLinkDelay, agent, [this, agent] {
      agent->link_open = false;
      OnAgent(agent, [agent](BootTime now, agent::Effects*) { agent->core.OnHostLinkClosed(now); });
    });
    DeliverAfter(prng_.Between(50, 3 * kLinkDelay), agent, [this, agent] {
      OnAgent(agent, [agent](BootTime now, agent::Effects* out) { agent->core.OnHostClosed(now, out); });
    });
  }
  AfterHostDeath(host);
}

void World::SetKernelTimer(HostProcess* host, std::optional<BootTime> at) {
  const uint64_t generation = ++host->timer_generation;
  if (!at.has_value() || *at == absl::InfiniteFuture()) return;
  const Micros when = *at == absl::InfinitePast() ? now() : WorldTime(*host->machine, *at);
  scheduler_.At(when, [this, host, generation] {
    if (!host->alive || host->timer_generation != generation) return;
    Note("kernel", absl::StrCat("the timer kills ", host->name));
    KillHost(host);
  });
}

void World::SignalHost(HostProcess* host, int signal) {
  if (signal == SIGINT) {
    host->asked_to_cancel = true;
  } else {
    host->asked_to_leave = true;
  }
  Note("signal", absl::StrCat(host->name, " gets ", signal));
  Deliver(host, [this, host, signal] {
    OnHost(host, [&](BootTime now, host::Effects* out) { host->core.OnSignal(now, signal, out); });
  });
}

// ---- workers

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
  for (int i = 0; i < scenario_.slots; ++i) {
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
          OnHost(host, [&](BootTime now, host::Effects* out) {
            host->core.OnSpawnFailed(now, worker->local_rank, 126, "not executable", out);
          });
        });
      });
    } else {
      scheduler_.After(exec_after, [this, worker] { Exec(worker); });
    }
  }
  conduct_.OnSpawn(host);
  host->next.emplace_back([this, host, spawned = std::move(spawned)] {
    OnHost(host, [&](BootTime now, host::Effects* out) { host->core.OnSpawned(now, spawned, out); });
  });
}

Micros World::ExecDelay(WorkerProcess* worker) {
  if (healed_ || !prng_.Chance(scenario_.slow_start_percent)) {
    return prng_.Between(scenario_.exec_delay / 2, scenario_.exec_delay);
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
  if (scenario_.told_failures_percent > 0 && hardships_.Chance(scenario_.told_failures_percent)) {
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
    OnHost(host, [&](BootTime now, host::Effects* out) { host->core.OnExecuting(now, worker->local_rank, out); });
  });
  const bool fails = !healed_ && prng_.Chance(scenario_.fails_percent);
  const Micros life = fails ? prng_.Between(0, scenario_.run_time)
                            : prng_.Between(scenario_.run_time * 95 / 100, scenario_.run_time);
  const host::Ending ending = fails ? DrawFailure() : host::Ending{};
  scheduler_.After(life, [this, worker, ending] { Die(worker, ending, true); });
  if (scenario_.wrappers_percent > 0 && prng_.Chance(scenario_.wrappers_percent)) {
    worker->training = NewChild(worker);
    invariants_.OnExec(*worker->training);
  }
  if (prng_.Chance(scenario_.descendants_percent)) {
    scheduler_.After(prng_.Between(0, scenario_.run_time), [this, worker] { Fork(worker); });
  }
  if (scenario_.progress_within > 0) {
    scheduler_.After(prng_.Between(1, scenario_.progress_within), [this, worker] { TouchProgress(worker); });
  }
}

void World::TouchProgress(WorkerProcess* worker) {
  HostProcess* host = worker->host;
  if (worker->dead || worker->frozen > 0 || worker->stuck > 0 || !host->runs()) return;
  policies_.OnProgress(*host, worker->round);
  DeliverAfter(kReapDelay, host, [this, host, worker] {
    if (std::find(host->workers.begin(), host->workers.end(), worker) == host->workers.end()) return;
    OnHost(host, [&](BootTime, host::Effects* out) { host->core.OnProgress(out); });
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

// A child that leaves the worker's session, and most often outlives it.
void World::Fork(WorkerProcess* worker) {
  if (worker->dead || worker->kill_pending || worker->frozen > 0 || worker->stuck > 0) return;
  WorkerProcess* child = NewChild(worker);
  Note("worker", absl::StrCat(worker->host->name, ":", worker->local_rank, " leaves pid ", child->pid, " behind"));
  invariants_.OnExec(*child);
  if (!prng_.Chance(30)) return;
  scheduler_.After(prng_.Between(0, 2 * scenario_.run_time), [this, child] { Die(child, {}, true); });
}

void World::FailWorker(WorkerProcess* worker, const host::Ending& ending) { Die(worker, ending, true); }

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

// What waited for the end of a hold.
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

// What host and agent leave behind when neither can sweep any more, until a successor finds it: exempt by design.
void World::ExemptOrphans(const HostProcess& host) {
  const AgentProcess* agent = host.agent;
  const bool sweeps = agent != nullptr && agent->runs() && agent->core.configured();
  if (host.alive || sweeps || (agent != nullptr && agent->swept)) return;
  for (WorkerProcess* descendant : host.descendants) Exempt(descendant);
}

// by_itself: not by a SIGKILL. A stopped process ends by nothing else.
void World::Die(WorkerProcess* worker, const host::Ending& ending, bool by_itself) {
  if (worker->dead) return;
  if (by_itself && (worker->frozen > 0 || worker->stuck > 0)) {
    if (!worker->pending_ending) worker->pending_ending = ending;
    return;
  }
  if (worker->stuck > 0) {  // SIGKILL is pending: it counts as ended, by design, and so must what hangs on it
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
  const bool by_its_own_fault = by_itself && !worker->signalled;
  invariants_.OnDeath(*worker, ending, by_its_own_fault);
  if (by_its_own_fault && worker->parent == nullptr && !ending.ok())
    policies_.OnFailure(*worker, ending.by_signal);
  if (worker->parent != nullptr && worker->parent->training == worker) OnTrainingDead(worker->parent);
  if (worker->parent != nullptr) return;
  HostProcess* host = worker->host;
  host::Ending told = ending;
  if (!ending.ok()) told.error_text = WordsOf(worker->round, worker->rank);
  DeliverAfter(kReapDelay, host, [this, host, worker, told] { Reap(host, worker, told); });
  if (!scenario_.peers_fail_too || ending.ok()) return;
  for (auto it = workers_.rbegin(); it != workers_.rend(); ++it) {
    WorkerProcess* peer = it->get();
    if (peer->dead || peer->parent != nullptr || peer->round != worker->round) continue;
    scheduler_.After(prng_.Exponential(500 * kMillisecond), [this, peer] { Die(peer, WithCode(1), true); });
  }
}

// With the group of a worker that has ended all of it is killed, unless the core gives it time.
void World::Reap(HostProcess* host, WorkerProcess* worker, const host::Ending& ending) {
  if (std::find(host->workers.begin(), host->workers.end(), worker) == host->workers.end()) return;
  host::Ending told = ending;
  WorkerProcess* training = worker->training;
  if (training != nullptr && !training->dead && !training->kill_pending) {
    told.rest_lives = host->core.SparesRest(ending);
    worker->training_spared = told.rest_lives;
    const bool by_our_signal = ending.by_signal && worker->stop_signal == ending.number;
    if (!told.rest_lives && by_our_signal && !host->out_of_time) invariants_.OnSparedKilled(*training);
    if (!told.rest_lives) Kill(training, kKillDelayMax);
  }
  OnHost(host, [&](BootTime now, host::Effects* out) { host->core.OnExit(now, worker->local_rank, told, out); });
}

void World::OnTrainingDead(WorkerProcess* wrapper) {
  HostProcess* host = wrapper->host;
  DeliverAfter(kReapDelay, host, [this, host, wrapper] {
    if (!std::exchange(wrapper->training_spared, false)) return;
    OnHost(host, [&](BootTime now, host::Effects* out) { host->core.OnRestEnded(now, wrapper->local_rank, out); });
  });
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
    if (dice < scenario_.term_ignored_percent) continue;
    const bool slow = dice < scenario_.term_ignored_percent + scenario_.term_slow_percent;
    const Micros takes =
        slow ? prng_.Skewed(100 * kMillisecond, kSlowestTerm) : prng_.Between(100, 20 * kMillisecond);
    host::Ending ending;
    if (!prng_.Chance(scenario_.term_exits_zero_percent)) {
      ending = prng_.Chance(70) ? BySignal(SIGTERM) : WithCode(1);
    }
    scheduler_.After(takes, [this, handles, ending] { Die(handles, ending, true); });
  }
  if (signal == SIGKILL) KillSessionsOf(host);
}

void World::Kill(WorkerProcess* worker, Micros within) {
  if (worker->dead || worker->kill_pending) return;
  worker->kill_pending = true;
  scheduler_.After(prng_.Between(50, within), [this, worker] { Die(worker, BySignal(SIGKILL), false); });
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

// Everything that bears the host's marker.
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

// A descendant is seen when it has lost its parent and become the host's child.
void World::SweepPass(HostProcess* host) {
  KillSessionsOf(host);
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
      OnHost(host, [&](BootTime now, host::Effects* out) { host->core.OnSwept(now, text, out); });
    }
    if (left > 0) SweepPass(host);
  });
}

// ---- between rounds

void World::StartPreflight(HostProcess* host) {
  MUSTER_CHECK(!host->preflight_runs, "two preflights of one host");
  host->preflight_runs = true;
  const uint64_t number = ++host->preflights;
  const bool hangs = !healed_ && prng_.Chance(scenario_.preflight_hangs_percent);
  const bool fails = !healed_ && prng_.Chance(scenario_.preflight_fails_percent);
  Note("host", absl::StrCat(host->name, " starts a preflight that ",
                            hangs   ? "hangs"
                            : fails ? "fails"
                                    : "passes"));
  if (hangs) return;
  const host::Ending ending = fails ? DrawFailure() : host::Ending{};
  // Once there are no faults any more none is too slow either.
  const Micros longest =
      healed_ ? std::min(scenario_.preflight_time, scenario_.preflight_timeout / 2) : scenario_.preflight_time;
  DeliverAfter(prng_.Between(kReapDelay, std::max(kReapDelay, longest)), host, [this, host, ending, number] {
    if (!host->preflight_runs || number != host->preflights) return;
    host->preflight_runs = false;
    OnHost(host, [&](BootTime now, host::Effects* out) { host->core.OnPreflightEnded(now, ending, out); });
  });
}

void World::AskGpus(HostProcess* host) {
  host::GpuUsers users;
  const bool held = !healed_ && prng_.Chance(scenario_.gpus_held_percent);
  if (held) (scenario_.driver_pids ? users.old_workers : users.others).insert(prng_.Between(1, 3));
  if (prng_.Chance(2)) users.trouble = "no such tool";
  DeliverAfter(prng_.Between(kMillisecond, 100 * kMillisecond), host, [this, host, users] {
    OnHost(host, [&](BootTime now, host::Effects* out) { host->core.OnGpuUsers(now, users, out); });
  });
}

// A process that the kernel holds counts as ended once SIGKILL is pending.
bool World::AnythingAlive(const HostProcess& host) const {
  const auto alive = [](const WorkerProcess* w) { return !w->dead && !(w->stuck > 0 && w->kill_pending); };
  return host.alive || std::any_of(host.workers.begin(), host.workers.end(), alive) ||
         std::any_of(host.descendants.begin(), host.descendants.end(), alive);
}

}  // namespace muster::simulation
