// The world in the role of the host's shell: starts agents, spawns, signals and reaps workers, sweeps, and keeps
// the kernel's timer.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr Micros kLinkDelay = 100;              // host to agent and back
constexpr Micros kReapDelay = 50;               // a death to the pidfd's event
constexpr Micros kKillDelayMax = kMillisecond;  // SIGKILL to the end
constexpr Micros kAgentStartMax = 30 * kMillisecond;
constexpr int kOutputHangsPercent = 5;
constexpr Micros kFlushMax = 5 * kMillisecond;

}  // namespace

void World::Drive(HostProcess* host) {
  host->driver.emplace(
      &host->core, host::HostDriver::Shell{
                       .clock = [this, host] { return BootNow(*host->machine); },
                       .carry_out = [this, host](const host::Effect& effect) { CarryOut(host, effect); },
                       .log =
                           [this, host](const muster::Note& note) {
                             Note("host", absl::StrCat(host->name, ": ", note.text));
                             host->out_of_time |= note.subject.event == std::string_view(events::kWorkersKilled);
                           }});
}

void World::CarryOut(HostProcess* host, const host::Effect& effect) {
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
    conduct_.OnHostStatus(*host, e->status);
    SendToAgent(host, e->status);
  } else if (const auto* e = std::get_if<host::SpawnWorkers>(&effect)) {
    SpawnWorkers(host, e->round);
  } else if (const auto* e = std::get_if<host::SignalWorkers>(&effect)) {
    SignalWorkers(host, e->signal);
  } else if (const auto* e = std::get_if<host::StopWorkers>(&effect)) {
    SignalWorkers(host, e->signal);
  } else if (std::holds_alternative<host::Sweep>(effect)) {
    SweepHost(host);
  } else if (std::holds_alternative<host::GatherRoundOutput>(effect)) {
    DeliverAfter(LastOutputDelay(), host, [this, host] { OnHost(host, &host::HostCore::OnRoundOutput, "bye"); });
  } else if (std::holds_alternative<host::GatherPreflightOutput>(effect)) {
    DeliverAfter(LastOutputDelay(), host,
                 [this, host] { OnHost(host, &host::HostCore::OnPreflightOutput, "bye"); });
  } else if (const auto* e = std::get_if<host::SetKernelTimer>(&effect)) {
    SetKernelTimer(host, e->at);
  } else if (std::holds_alternative<host::RenewOffer>(effect)) {
    const bool chance = scenario_.no_port_percent > 0 && hardships_.Chance(scenario_.no_port_percent);
    const bool none = !healed_ && (chance || host->place == scenario_.portless_place);
    const auto port = none ? 0 : static_cast<uint32_t>(next_port_++);
    DeliverAfter(prng_.Between(100, 2 * kMillisecond), host,
                 [this, host, port] { OnHost(host, &host::HostCore::OnOffer, port); });
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
  }
}

// Until the last output of dead processes is read: longer if the console's reader or a file system hangs.
Micros World::LastOutputDelay() {
  const bool hangs = hardships_.Chance(kOutputHangsPercent);
  return hangs ? absl::ToInt64Microseconds(host::kLastOutputLimit)
               : hardships_.Between(kReapDelay, 2 * kMillisecond);
}

void World::StartAgentProcess(HostProcess* host, uint64_t number) {
  if (host->agent != nullptr && host->link_open && host->agent->alive) {
    AgentProcess* old = host->agent;
    DeliverAfter(kLinkDelay, old, [this, old] {
      old->link_open = false;
      OnAgent(old, &agent::AgentCore::OnHostLinkClosed);
    });
  }
  const bool fails =
      !healed_ && scenario_.agent_fails_percent > 0 && hardships_.Chance(scenario_.agent_fails_percent);
  if (fails) {
    host->link_open = false;
    host->agent_starts.push_back(now());
    ++host->agents_struck;
    DeliverAfter(kLinkDelay, host, [this, host, number] {
      OnHost(host, &host::HostCore::OnAgentFailed, number, "no process is to be had");
    });
    return;
  }
  agents_.push_back(std::make_unique<AgentProcess>(host, number, prng_.Next()));
  AgentProcess* agent = agents_.back().get();
  agent->machine = host->machine;
  agent->pid = host->machine->next_pid++;
  agent->name = absl::StrCat(host->name, "/a", number);
  agent->started = false;
  Drive(agent);
  host->agent = agent;
  host->link_open = true;
  host->agent_starts.push_back(now());
  Micros first_word = prng_.Between(2 * kMillisecond, kAgentStartMax);
  const bool stalls = scenario_.name_lookup > 0 && !healed_ && !scenario_.serves_if_local;
  if (stalls) first_word += prng_.Between(scenario_.name_lookup * 3 / 4, scenario_.name_lookup);
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
  DeliverAfter(kLinkDelay, agent, [this, agent, status = status] {
    if (!agent->link_open) return;
    OnAgent(agent, &agent::AgentCore::OnHostStatus, status);
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
      OnAgent(agent, &agent::AgentCore::OnHostLinkClosed);
    });
    DeliverAfter(prng_.Between(50, 3 * kLinkDelay), agent,
                 [this, agent] { OnAgent(agent, &agent::AgentCore::OnHostClosed); });
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
  Deliver(host, [this, host, signal] { OnHost(host, &host::HostCore::OnSignal, signal); });
}

// ---- ends of workers

// Workers that have ended are reported before the host's next decision, as its shell does: it reaps before each
// order and each tick.
void World::CollectEnded(HostProcess* host) {
  while (host->alive && !host->unreaped.empty()) {
    const auto [worker, ending] = host->unreaped.front();
    host->unreaped.pop_front();
    Reap(host, worker, ending);
  }
}

// The process group of an ended worker is killed, unless the core gives it time.
void World::Reap(HostProcess* host, WorkerProcess* worker, const host::Ending& ending) {
  if (std::find(host->workers.begin(), host->workers.end(), worker) == host->workers.end()) return;
  host::Ending told = ending;
  told.wall = WallNow(*host->machine);
  WorkerProcess* training = worker->training;
  if (training != nullptr && !training->dead && !training->kill_pending) {
    told.rest_lives = host->core.SparesRest(ending);
    worker->training_spared = told.rest_lives;
    const bool by_our_signal = ending.by_signal && worker->stop_signal == ending.number;
    if (!told.rest_lives && by_our_signal && !host->out_of_time) invariants_.OnSparedKilled(*training);
    if (!told.rest_lives) Kill(training, kKillDelayMax);
  }
  OnHost(host, &host::HostCore::OnExit, worker->local_rank, told);
}

void World::OnTrainingDead(WorkerProcess* wrapper) {
  HostProcess* host = wrapper->host;
  DeliverAfter(kReapDelay, host, [this, host, wrapper] {
    if (!std::exchange(wrapper->training_spared, false)) return;
    OnHost(host, &host::HostCore::OnRestEnded, wrapper->local_rank);
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
  // Without faults no preflight is too slow.
  const Micros longest =
      healed_ ? std::min(scenario_.preflight_time, scenario_.preflight_timeout / 2) : scenario_.preflight_time;
  DeliverAfter(prng_.Between(kReapDelay, std::max(kReapDelay, longest)), host, [this, host, ending, number] {
    if (!host->preflight_runs || number != host->preflights) return;
    host->preflight_runs = false;
    OnHost(host, &host::HostCore::OnPreflightEnded, ending);
  });
}

void World::AskGpus(HostProcess* host) {
  host::GpuUsers users;
  const bool held = !healed_ && prng_.Chance(scenario_.gpus_held_percent);
  if (held) (scenario_.driver_pids ? users.old_workers : users.others).insert(prng_.Between(1, 3));
  if (prng_.Chance(2)) users.trouble = "no such tool";
  DeliverAfter(prng_.Between(kMillisecond, 100 * kMillisecond), host,
               [this, host, users] { OnHost(host, &host::HostCore::OnGpuUsers, users); });
}

}  // namespace muster::simulation
