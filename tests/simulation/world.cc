#include "tests/simulation/world.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/scripts.h"

namespace muster::simulation {
namespace {

constexpr Micros kTickPeriod = 100 * kMillisecond;
constexpr uint64_t kMaxEvents = 40'000'000;

Micros LivenessBound(const Scenario& s) {
  // All waits that the design allows in sequence, plus time for workers' runs and slow starts.
  return 4 * s.limits.lease + s.limits.join_timeout + s.limits.rejoin_timeout + s.limits.coordinator_timeout +
         4 * s.workers.run_time + 3 * (s.limits.shutdown_grace + s.limits.termination_grace) +
         2 * (s.fitness.preflight_timeout + s.fitness.gpu_release_timeout) + 180 * kSecond;
}

}  // namespace

World::World(const Scenario& scenario, TakeLine trace)
    : scenario_(scenario),
      prng_(scenario.seed ^ 0x5EED),
      trace_(std::move(trace)),
      invariants_(scenario_, this),
      policies_(scenario_, this, &invariants_),
      conduct_(scenario_, this, &invariants_),
      faults_(std::make_unique<Faults>(this)),
      scripts_(std::make_unique<Scripts>(this)),
      hardships_(scenario.seed ^ 0x4A2D5) {}

World::~World() = default;

void World::Note(const char* category, const std::string& text) {
  trace_.Line(now(), category, text);
  static constexpr const char* kDisturbing[] = {"fault", "freeze", "network", "platform", "death"};
  const bool disturbs = std::any_of(std::begin(kDisturbing), std::end(kDisturbing),
                                    [&](const char* what) { return std::string_view(what) == category; });
  if (disturbs && !absl::StartsWith(text, Name(Fault::kWorkerFails))) policies_.OnDisturbance();
}

bool World::Run() {
  places_.resize(place_count());
  if (scenario_.job.coordinator_alone) {
    alone_machine_ = NewMachine(-1);
    scheduler_.After(prng_.Between(0, scenario_.faults.late_start), [this] { StartAlone(alone_machine_); });
  }
  for (int place = 0; place < place_count(); ++place) {
    places_[place].machine = SharesMachine(place) ? places_[place - 1].machine : NewMachine(place);
    if (place == scenario_.script.late_place) continue;
    scheduler_.After(prng_.Between(0, scenario_.faults.late_start), [this, place] {
      if (places_[place].started) return;
      Machine* machine = places_[place].machine;  // the loss of a neighbour's host may have ended it
      StartHost(place, machine->up ? machine : NewMachine(place));
    });
  }
  faults_->Begin();
  scripts_->Begin();
  scheduler_.At(scenario_.faults.phase, [this] { Heal(); });
  const Micros limit = scenario_.faults.phase + scenario_.faults.late_start + LivenessBound(scenario_);
  while (!scheduler_.empty() && !invariants_.violated()) {
    scheduler_.RunNext();
    if (healed_ && Settled()) break;
    if (now() > limit || events() > kMaxEvents) {
      invariants_.OnNotSettled();
      break;
    }
  }
  if (!invariants_.violated()) invariants_.OnSettled();
  scheduler_.Mix(prng_.Next());
  return !invariants_.violated();
}

// ---- clocks

BootTime World::BootNow(const Machine& machine) const {
  const Micros t = now();
  return FromBootNanos((machine.boot_offset + t + t * machine.drift_ppm / 1'000'000) * 1000);
}

Micros World::WorldTime(const Machine& machine, BootTime at) const {
  const Micros boot = (ToBootNanos(at) + 999) / 1000 - machine.boot_offset;
  const int64_t rate = 1'000'000 + machine.drift_ppm;  // this clock's microseconds per true second
  return (boot * 1'000'000 + rate - 1) / rate;
}

// ---- processes

void World::Deliver(Process* process, Scheduler::Action action) {
  if (!process->alive) return;
  if (!process->runs() || !process->inbox.empty()) {
    process->inbox.push_back(std::move(action));
    return;
  }
  action();
}

void World::DeliverAfter(Micros delay, Process* process, Scheduler::Action action) {
  scheduler_.After(delay,
                   [this, process, action = std::move(action)]() mutable { Deliver(process, std::move(action)); });
}

void World::Drain(Process* process) {
  while (process->runs() && !process->inbox.empty()) {
    Scheduler::Action action = std::move(process->inbox.front());
    process->inbox.pop_front();
    action();
  }
}

void World::Freeze(Process* process, Micros for_how_long) {
  if (!process->alive) return;
  if (++process->frozen == 1) process->frozen_since = now();
  conduct_.OnFreeze(*process);
  Note("freeze", absl::StrCat(process->name, " for ", for_how_long / kMillisecond, " ms"));
  if (const auto* agent = dynamic_cast<AgentProcess*>(process)) ExemptOrphans(*agent->host);
  scheduler_.After(for_how_long, [this, process] { Continue(process); });
}

void World::Continue(Process* process) {
  if (process->frozen == 0 || --process->frozen > 0 || !process->alive) return;
  process->runs_since = now();
  Note("continue", process->name);
  // An expired timer and waiting messages are both ready: the loop may take either first.
  const bool tick_first = prng_.Chance(50);
  if (tick_first && process->tick_missed) Tick(process);
  Drain(process);
  if (process->tick_missed) Tick(process);
}

void World::ScheduleTick(Process* process, Micros delay) {
  scheduler_.After(delay, [this, process] {
    if (!process->alive) return;
    process->tick_missed = true;
    if (process->runs()) Tick(process);
  });
}

void World::Tick(Process* process) {
  process->tick_missed = false;
  if (!process->alive) return;
  ScheduleTick(process, kTickPeriod);
  if (auto* host = dynamic_cast<HostProcess*>(process)) {
    CollectEnded(host);
    TellWallClock(host);
    OnHost(host, &host::HostCore::OnTick);
  } else if (auto* agent = dynamic_cast<AgentProcess*>(process)) {
    if (agent->home != nullptr) OnHome(agent->home, &rendezvous::Coordinator::OnTick);  // first, as in the process
    const bool others = agent->home != nullptr && ServesOthers(*agent->home);
    OnAgent(agent, &agent::AgentCore::OnServesOthers, others);
    OnAgent(agent, &agent::AgentCore::OnTick);
    conduct_.AfterAgentTick(*agent);
  } else if (auto* alone = dynamic_cast<AloneProcess*>(process)) {
    OnHome(alone->home, &rendezvous::Coordinator::OnTick);
    if (!alone->home->core.finished()) return;
    EndAlone(alone, !VerdictIsKnown());  // no node that knew it is left: the platform runs the job again
  }
}

}  // namespace muster::simulation
