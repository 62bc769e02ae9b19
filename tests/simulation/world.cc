#include "tests/simulation/world.h"

#include <utility>

namespace muster::simulation {
namespace {

constexpr uint64_t kMaxEvents = 40'000'000;

Micros LivenessBound(const Scenario& s) {
  // All waits that the design allows in sequence, plus time for workers' runs and slow starts.
  return 4 * s.limits.lease + s.limits.join_timeout + s.limits.rejoin_timeout + s.limits.coordinator_timeout +
         4 * s.workers.run_time + 3 * (s.limits.shutdown_grace + s.limits.termination_grace) +
         2 * s.hangs.timeout + 2 * (s.fitness.preflight_timeout + s.fitness.gpu_release_timeout) +
         (s.fitness.preload_time > 0 ? 2 * absl::ToInt64Microseconds(host::kFirstPreloadLimit) : 0) +
         180 * kSecond;
}

}  // namespace

World::World(const Scenario& scenario, TakeLine trace)
    : env_(scenario, std::move(trace)),
      cluster_(&env_),
      checks_(&env_, &cluster_),
      execution_(&env_, &checks_),
      workers_(&env_, &cluster_, &execution_, &checks_),
      hangs_(&env_, &cluster_, &execution_, &workers_, &checks_),
      sweeps_(&env_, &execution_, &workers_, &checks_),
      network_(&env_, &cluster_, &execution_, &checks_),
      deaths_(&env_, &cluster_, &execution_, &network_, &workers_, &sweeps_, &checks_),
      coordinator_shell_(&env_, &cluster_, &execution_, &network_, &deaths_, &checks_,
                         [this](const v1::Directive& directive, bool is_new) { OnDirective(directive, is_new); }),
      coordinators_(&env_, &cluster_, &execution_, &network_, &coordinator_shell_),
      agent_shell_(&env_, &cluster_, &execution_, &network_, &workers_, &sweeps_, &deaths_, &coordinator_shell_,
                   &checks_),
      sidecars_(&env_, &cluster_, &execution_, &deaths_),
      host_shell_(&env_, &cluster_, &execution_, &workers_, &hangs_, &sweeps_, &deaths_, &agent_shell_, &sidecars_,
                  &checks_),
      platform_(&env_, &cluster_, &execution_, &network_, &workers_, &sweeps_, &deaths_, &host_shell_,
                &coordinators_, &checks_),
      faults_(this),
      scripts_(this) {}

bool World::Run() {
  const Scenario& scenario = env_.scenario();
  Scheduler& scheduler = env_.scheduler();
  Invariants& invariants = checks_.invariants;
  if (scenario.job.coordinator_alone) coordinators_.Begin();
  platform_.Begin();
  faults_.Begin();
  scripts_.Begin();
  scheduler.At(scenario.faults.phase, [this] { Heal(); });
  const Micros limit = scenario.faults.phase + scenario.faults.late_start + LivenessBound(scenario);
  while (!scheduler.empty() && !invariants.violated()) {
    scheduler.RunNext();
    if (env_.healed() && platform_.Settled()) break;
    if (now() > limit || events() > kMaxEvents) {
      invariants.OnNotSettled();
      break;
    }
  }
  if (!invariants.violated()) invariants.OnSettled();
  scheduler.Mix(env_.prng().Next());
  return !invariants.violated();
}

void World::Heal() {
  faults_.Stop();
  scripts_.Stop();
  platform_.Heal();
}

void World::OnDirective(const v1::Directive& directive, bool is_new) {
  hangs_.OnDirectiveSent(directive);
  if (is_new) faults_.OnRound(directive.run().node_count());
  if (is_new) scripts_.OnRound(directive.run().node_count());
  if (directive.has_stop()) faults_.OnDrain(KeyOf(directive.stop().round()));
  if (directive.has_verdict()) faults_.OnVerdict();
}

}  // namespace muster::simulation
