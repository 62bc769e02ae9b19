#include "tests/simulation/platform.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/wire/ids.h"
#include "tests/simulation/delays.h"
#include "tests/simulation/node_config.h"

namespace muster::simulation {
namespace {

// First hosts lack a program this many times more rarely than replacements: else few such jobs would have a round.
constexpr int kFirstStartsAreBetter = 5;

}  // namespace

void Platform::Begin() {
  for (int place = 0; place < cluster_->place_count(); ++place) {
    cluster_->SetMachine(place,
                         SharesMachine(place) ? cluster_->MachineOf(place - 1) : cluster_->NewMachine(place));
    if (place == scenario_.script.late_place) continue;
    env_->scheduler().After(env_->prng().Between(0, scenario_.faults.late_start), [this, place] {
      if (places_[place].started) return;
      Machine* machine = cluster_->MachineOf(place);  // the loss of a neighbour's host may have ended it
      StartHost(place, machine->up ? machine : cluster_->NewMachine(place));
    });
  }
}

// At first a host may share its neighbour's machine, except where a node's own machine decides whether it is the
// primary.
bool Platform::SharesMachine(int place) const {
  const int count = scenario_.job.hosts_per_machine;
  if (count == 1 || place >= scenario_.job.nodes || (scenario_.job.serves_if_local && place < count)) return false;
  return place % count != 0;
}

HostProcess* Platform::StartHost(int place, Machine* machine) {
  const host::HostOptions options = MakeOptions(place, machine);
  HostProcess* host = cluster_->NewHost(options);
  host->machine = machine;
  host->pid = options.host_pid;
  host->name = options.host_id;
  host->place = place;
  host->born = env_->now();
  host->on_death = [this, host] { AfterHostDeath(host); };
  host_shell_->Drive(host);
  cluster_->SetHost(place, host);
  cluster_->SetMachine(place, machine);
  places_[place].started = true;
  env_->Note("platform", absl::StrCat("starts ", host->name, " on m", machine->id));
  // Before it starts anything, a host ends the leftovers of a host and agent that died together here.
  for (const auto& old : cluster_->hosts()) {
    if (!old->alive && old->machine == machine) sweeps_->KillMarked(old.get(), kMillisecond);
  }
  host->Feed(&host::HostCore::Begin);
  execution_->ScheduleTick(host, env_->prng().Between(1, kFirstTickMax));
  return host;
}

host::HostOptions Platform::MakeOptions(int place, Machine* machine) {
  host::HostOptions options;
  options.host_id = absl::StrCat("h", place, ".", next_host_++);
  options.host_pid = machine->next_pid++;
  options.config = MakeConfig(scenario_, place, *machine);
  options.config.mutable_whereabouts()->set_process(options.host_id);
  if (DrawCannotStart(place)) {
    v1::Failure* failure = options.config.mutable_cannot_start();
    failure->set_exit_code(kExitNotFound);
    failure->set_error_text("the program is not there");
    failure->set_host(options.config.hostname());
  }
  options.termination_grace = absl::Microseconds(scenario_.limits.termination_grace);
  options.stop_before = MakeStopBefore(scenario_, *machine, env_->now());
  if (place < scenario_.job.nodes) {
    options.preflight_timeout = absl::Microseconds(scenario_.fitness.preflight_timeout);
    if (scenario_.fitness.has_setup) options.setup_timeout = options.preflight_timeout;
    options.gpu_release_timeout = absl::Microseconds(scenario_.fitness.gpu_release_timeout);
    options.driver_pids = scenario_.fitness.driver_pids;
    if (scenario_.fitness.preload_time > 0) {
      options.preload.learns = scenario_.fitness.preload_learns;
      if (!options.preload.learns) options.preload.modules = {"torch", "lightning"};
    }
  }
  return options;
}

bool Platform::DrawCannotStart(int place) {
  const bool is_first = !places_[place].started;
  const int percent = scenario_.unwelcome.cannot_start_percent / (is_first ? kFirstStartsAreBetter : 1);
  return percent > 0 && !env_->healed() && place < scenario_.job.nodes && env_->prng().Chance(percent);
}

void Platform::AfterHostDeath(HostProcess* host) {
  if (host->fate.zombie || cluster_->HostAt(host->place) != host) return;
  checks_->invariants.OnHostDeath(*host);
  cluster_->SetHost(host->place, nullptr);
  if (ForgetsAZombie(host->place)) EndZombies();
  Place& place = places_[host->place];
  place.ended = host->finish.has_value() && host->finish->verdict.has_value() && !host->fate.killed;
  // Once the job is over, a node that has waited for the others in vain is not started again.
  place.ended |= env_->healed() && checks_->invariants.verdict_announced() && host->finish.has_value() &&
                 host->finish->exit_code == kExitUnavailable;
  if (place.ended) return;
  if (env_->healed()) {
    PlanReplacement(host->place, env_->prng().Between(100 * kMillisecond, kSecond));
  } else if (env_->prng().Chance(80)) {
    PlanReplacement(host->place, env_->prng().Skewed(scenario_.faults.replace_low, scenario_.faults.replace_high));
  }
}

void Platform::PlanReplacement(int place, Micros delay) {
  if (places_[place].replacement_planned) return;
  places_[place].replacement_planned = true;
  // Exempt: spares that do not know the round reach a new primary before the members that still run it.
  const bool with_spares = scenario_.job.places == Places::kNone && scenario_.job.nodes > scenario_.job.max_nodes;
  if (place == 0 && with_spares)
    delay = std::max(delay, scenario_.limits.lease + scenario_.limits.lease / 100 + 2 * kSecond);
  const bool same_machine = env_->prng().Chance(60);
  if (place == 0 && !same_machine) delay = std::max(delay, PrimaryMovesAfter());
  env_->scheduler().After(delay, [this, place, same_machine] {
    places_[place].replacement_planned = false;
    if (cluster_->HostAt(place) == nullptr) Replace(place, same_machine);
  });
}

// Exempt by design: new spares may be as many as the job needs, and a new primary on another machine cannot know
// of the members that run a round and have not yet noticed that the old primary is gone.
Micros Platform::PrimaryMovesAfter() const {
  const bool has_spares = scenario_.job.nodes > scenario_.job.max_nodes;
  return has_spares ? scenario_.limits.lease + scenario_.limits.lease / 100 + 2 * kSecond : 0;
}

void Platform::Replace(int place, bool same_machine) {
  if (places_[place].ended) return;
  // The job is over: only a lost primary is replaced, and only while a node waits for it.
  // Where the next job may have the same run id, one that starts now belongs to that.
  const bool in_vain = place != 0 || !IsWaitedFor(place) || scenario_.job.coordinator_alone;
  if (cluster_->VerdictIsKnown() && (in_vain || scenario_.job.run_id_may_repeat)) return;
  HostProcess* old = cluster_->HostAt(place);
  if (old != nullptr) {
    old->fate.zombie = true;
    same_machine = false;
    if (ForgetsAZombie(place)) EndZombies();
  }
  Machine* before = cluster_->MachineOf(place);
  Machine* machine = same_machine && before->up ? before : cluster_->NewMachine(place);
  if (machine != before && old == nullptr) Vacate(place);
  StartHost(place, machine);
  // No node was waiting for the primary at its turn.
  if (env_->healed() && cluster_->HostAt(0) == nullptr && !scenario_.job.coordinator_alone) {
    PlanReplacement(0, env_->prng().Between(100 * kMillisecond, kSecond));
  }
  coordinators_->RunAgain();
}

// Ends the leftovers of a place's hosts, and the machine if no other host is on it.
void Platform::Vacate(int place) {
  const Machine* machine = cluster_->MachineOf(place);
  const auto& hosts = cluster_->hosts();
  const bool shared = std::any_of(hosts.begin(), hosts.end(), [&](const auto& host) {
    return host->alive && host->machine == machine && host->place != place;
  });
  if (!shared) return deaths_->PowerOff(cluster_->MachineOf(place));
  for (size_t i = 0; i < hosts.size(); ++i) {
    HostProcess* host = hosts[i].get();
    if (host->machine != machine || host->place != place || host->alive) continue;
    if (host->agent != nullptr) deaths_->KillAgent(host->agent);
    sweeps_->KillMarked(host, kMillisecond);
  }
}

bool Platform::IsWaitedFor(int place) const {
  const auto& hosts = cluster_->hosts();
  return std::any_of(hosts.begin(), hosts.end(), [place](const auto& h) {
    return h->alive && !h->fate.zombie && !h->fate.released && h->place != place;
  });
}

bool Platform::ForgetsAZombie(int place) const {
  for (const auto& zombie : cluster_->hosts()) {
    if (!zombie->fate.zombie || !zombie->alive) continue;
    bool known = false;
    for (const auto& host : cluster_->hosts()) {
      const bool counts =
          !host->fate.zombie && host->alive && host->place != place && host->place < scenario_.job.nodes;
      if (!counts) continue;  // an observer knows it too, but no round waits for observers
      known = known || IsSet(host->memory.last().id());
    }
    if (!known) return true;
  }
  return false;
}

void Platform::EndZombies() {
  coordinators_->EndAllButNamed();
  for (size_t i = 0; i < cluster_->hosts().size(); ++i) {
    HostProcess* host = cluster_->hosts()[i].get();
    if (host->fate.zombie && host->alive) deaths_->PowerOff(host->machine);
  }
}

void Platform::Heal() {
  env_->Note("heal", "no more faults");
  env_->Heal();
  EndZombies();
  coordinators_->LeadNamesHome();
  for (const auto& host : cluster_->hosts()) host->fate.start_fails = 0;
  network_->MendAll();
  EndHolds();
  for (int place = 0; place < cluster_->place_count(); ++place) {
    if (cluster_->HostAt(place) == nullptr) PlanReplacement(place, env_->prng().Between(0, 2 * kSecond));
  }
}

// Everything that is stopped or held goes on.
void Platform::EndHolds() {
  std::vector<Process*> processes;
  for (const auto& host : cluster_->hosts()) processes.push_back(host.get());
  for (const auto& agent : cluster_->agents()) processes.push_back(agent.get());
  for (const auto& alone : cluster_->alone()) processes.push_back(alone.get());
  for (Process* process : processes) execution_->EndFreezes(process);
  for (size_t i = 0; i < cluster_->workers().size(); ++i) workers_->EndHolds(cluster_->workers()[i].get());
}

bool Platform::Settled() const {
  for (int place = 0; place < cluster_->place_count(); ++place) {
    if (cluster_->HostAt(place) != nullptr || places_[place].replacement_planned) return false;
  }
  const auto& hosts = cluster_->hosts();
  return std::none_of(hosts.begin(), hosts.end(), [](const auto& host) { return host->alive; });
}

}  // namespace muster::simulation
