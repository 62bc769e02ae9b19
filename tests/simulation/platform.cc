// The machines of a world, and the platform that starts hosts on them, replaces lost ones and ends all faults.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/scripts.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr Micros kTickPeriod = 100 * kMillisecond;
constexpr Micros kStartOffsetMax = 3600 * kSecond;
constexpr int kPrimaryPort = 29400;
// First hosts lack a program this many times more rarely than replacements: else few such jobs would have a round.
constexpr int kFirstStartsAreBetter = 5;

}  // namespace

Machine* World::NewMachine(int place) {
  auto machine = std::make_unique<Machine>();
  machine->id = static_cast<int>(machines_.size());
  machine->place = place;
  machine->boot_offset = prng_.Between(1, kStartOffsetMax);
  const int64_t drift =
      prng_.Chance(50) ? scenario_.clocks.drift_ppm : prng_.Between(0, scenario_.clocks.drift_ppm);
  machine->drift_ppm = prng_.Chance(50) ? drift : -drift;
  if (scenario_.clocks.worst) {
    const bool coordinates = scenario_.job.coordinator_alone ? place < 0 : place == 0;
    machine->drift_ppm = coordinates ? scenario_.clocks.drift_ppm : -scenario_.clocks.drift_ppm;
  }
  if (scenario_.clocks.wall_skew > 0)
    machine->wall_skew = prng_.Between(-scenario_.clocks.wall_skew, scenario_.clocks.wall_skew);
  machine->address = absl::StrCat("10.", machine->id / 250, ".", machine->id % 250, ".1");
  machine->boot_id = absl::StrCat("boot-", machine->id);
  machines_.push_back(std::move(machine));
  return machines_.back().get();
}

// At first a host may share its neighbour's machine, except where a node's own machine decides whether it is the
// primary.
bool World::SharesMachine(int place) const {
  const int count = scenario_.job.hosts_per_machine;
  if (count == 1 || place >= scenario_.job.nodes || (scenario_.job.serves_if_local && place < count)) return false;
  return place % count != 0;
}

// Ends the leftovers of a place's hosts, and the machine if no other host is on it.
void World::Vacate(int place) {
  Machine* machine = places_[place].machine;
  const bool shared = std::any_of(hosts_.begin(), hosts_.end(), [&](const auto& host) {
    return host->alive && host->machine == machine && host->place != place;
  });
  if (!shared) return PowerOff(machine);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    HostProcess* host = hosts_[i].get();
    if (host->machine != machine || host->place != place || host->alive) continue;
    if (host->agent != nullptr) KillAgent(host->agent);
    KillMarked(host, kMillisecond);
  }
}

v1::NodeConfig World::MakeConfig(int place, const Machine& machine) {
  const bool observer = place >= scenario_.job.nodes;
  v1::NodeConfig c;
  c.set_run_id("simulated");
  c.set_hostname(absl::StrCat("m", machine.id));
  c.set_version("1");
  c.set_boot_id(machine.boot_id);
  c.set_pid_namespace("pid-1");
  c.set_role(observer ? v1::ROLE_OBSERVER : v1::ROLE_TRAINER);
  if (!observer && scenario_.job.places != Places::kNone) c.set_place(place);
  if (scenario_.job.places == Places::kSpec) {
    for (int i = 0; i < scenario_.job.nodes; ++i) c.add_place_names(absl::StrCat("node-", i));
  }
  c.set_min_nodes(scenario_.job.min_nodes);
  c.set_max_nodes(scenario_.job.max_nodes);
  c.set_slots(scenario_.job.slots);
  c.set_role_name("default");
  c.mutable_primary()->set_host("node-0");
  c.mutable_primary()->set_port(kPrimaryPort);
  const bool serves = place == 0 && !scenario_.job.coordinator_alone;
  c.set_serves(serves ? v1::NodeConfig::SERVES_YES : v1::NodeConfig::SERVES_NO);
  if (scenario_.job.serves_if_local && !observer) c.set_serves(v1::NodeConfig::SERVES_IF_LOCAL);
  c.set_coordinator_alone(scenario_.job.coordinator_alone);
  c.set_single_node(scenario_.limits.lease == 0);
  c.set_max_restarts(scenario_.policy.max_restarts);
  c.set_max_node_losses(scenario_.policy.max_node_losses);
  c.set_node_loss_window_ms(3600 * 1000);
  c.set_node_unit(scenario_.job.node_unit);
  c.set_scale_up(static_cast<v1::NodeConfig::ScaleUp>(scenario_.policy.scale_up));
  c.set_max_membership_changes(scenario_.policy.max_membership_changes);
  c.set_exclude_after(scenario_.policy.exclude_after);
  c.set_exclude_for_ms(scenario_.policy.exclude_for / kMillisecond);
  c.set_restart_window_ms(scenario_.policy.restart_window / kMillisecond);
  c.set_restart_delay_ms(scenario_.policy.restart_delay / kMillisecond);
  c.set_watches_progress(scenario_.workers.progress_within > 0);
  c.set_join_settle_ms(scenario_.policy.join_settle / kMillisecond);
  c.set_lease_ms(scenario_.limits.lease / kMillisecond);
  c.set_reconnect_grace_ms(scenario_.limits.reconnect_grace / kMillisecond);
  c.set_join_timeout_ms(scenario_.limits.join_timeout / kMillisecond);
  c.set_rejoin_timeout_ms(scenario_.limits.rejoin_timeout / kMillisecond);
  c.set_last_call_ms(scenario_.limits.last_call / kMillisecond);
  c.set_coordinator_timeout_ms(scenario_.limits.coordinator_timeout / kMillisecond);
  c.set_shutdown_grace_ms(scenario_.limits.shutdown_grace / kMillisecond);
  return c;
}

bool World::DrawCannotStart(int place) {
  const bool is_first = !places_[place].started;
  const int percent = scenario_.unwelcome.cannot_start_percent / (is_first ? kFirstStartsAreBetter : 1);
  return percent > 0 && !healed_ && place < scenario_.job.nodes && prng_.Chance(percent);
}

absl::Time World::WallNow(const Machine& machine) const {
  return absl::UnixEpoch() + absl::Microseconds(now() + machine.wall_skew);
}

namespace {

// From then on a node may leave, because it starts no round that would end soon.
absl::Time MayLeaveFrom(const host::StopBefore& stop) {
  return stop.deadline - stop.before - std::min(stop.before, host::kMaxUselessRound);
}

}  // namespace

void World::LookAtDeadline(HostProcess* host) {
  if (scenario_.clocks.wall_steps > 0 && !healed_ && hardships_.Below(200) == 0) {
    host->machine->wall_skew = hardships_.Between(-scenario_.clocks.wall_steps, scenario_.clocks.wall_steps);
    host->machine->stepped_at = clock_set_at_ = now();
  }
  const std::optional<host::StopBefore>& stop = host->options.stop_before;
  if (stop.has_value() && WallNow(*host->machine) >= MayLeaveFrom(*stop)) host->asked_to_leave = true;
}

void World::TellWallClock(HostProcess* host) {
  LookAtDeadline(host);
  const absl::Time wall = WallNow(*host->machine);
  OnHost(host, &host::HostCore::OnWallClock, wall);
}

// A host that starts near the deadline gets none, as if its job had been given more time.
std::optional<host::StopBefore> World::StopBefore(const Machine& machine) const {
  const host::StopBefore stop{absl::UnixEpoch() + absl::Microseconds(scenario_.deadline.at),
                              absl::Microseconds(scenario_.deadline.stop_before), "the job's time is nearly over"};
  if (scenario_.deadline.at == 0 || WallNow(machine) + absl::Seconds(1) >= MayLeaveFrom(stop)) return std::nullopt;
  return stop;
}

HostProcess* World::StartHost(int place, Machine* machine) {
  host::HostOptions options;
  options.host_id = absl::StrCat("h", place, ".", next_host_++);
  options.host_pid = machine->next_pid++;
  options.config = MakeConfig(place, *machine);
  if (DrawCannotStart(place)) {
    v1::Failure* failure = options.config.mutable_cannot_start();
    failure->set_exit_code(kExitNotFound);
    failure->set_error_text("the program is not there");
    failure->set_host(options.config.hostname());
  }
  options.termination_grace = absl::Microseconds(scenario_.limits.termination_grace);
  options.stop_before = StopBefore(*machine);
  if (place < scenario_.job.nodes) {
    options.preflight_timeout = absl::Microseconds(scenario_.fitness.preflight_timeout);
    options.gpu_release_timeout = absl::Microseconds(scenario_.fitness.gpu_release_timeout);
    options.driver_pids = scenario_.fitness.driver_pids;
  }
  hosts_.push_back(std::make_unique<HostProcess>(options));
  HostProcess* host = hosts_.back().get();
  host->machine = machine;
  host->pid = options.host_pid;
  host->name = options.host_id;
  host->place = place;
  host->born = now();
  Drive(host);
  places_[place].current = host;
  places_[place].started = true;
  places_[place].machine = machine;
  Note("platform", absl::StrCat("starts ", host->name, " on m", machine->id));
  // Before it starts anything, a host ends the leftovers of a host and agent that died together here.
  for (const auto& old : hosts_) {
    if (!old->alive && old->machine == machine) KillMarked(old.get(), kMillisecond);
  }
  OnHost(host, &host::HostCore::Begin);
  ScheduleTick(host, prng_.Between(1, kTickPeriod));
  return host;
}

CoordinatorHome* World::CurrentHome() const {
  return HomeOn(alone_machine_ != nullptr ? alone_machine_ : places_[0].machine);
}

CoordinatorHome* World::HomeOn(const Machine* machine) const {
  for (auto it = homes_.rbegin(); it != homes_.rend(); ++it) {
    if ((*it)->owner->alive && (*it)->owner->machine == machine) return it->get();
  }
  return nullptr;
}

bool World::LeaseRuns(const HostProcess& host) const {
  return host.core.leased() && BootNow(*host.machine) < host.core.lease_deadline();
}

bool World::VerdictIsKnown() const {
  for (const auto& host : hosts_) {
    if (host->zombie) continue;
    if (host->finish.has_value() && host->finish->verdict.has_value()) return true;
    if (host->alive && host->memory.has_verdict()) return true;
  }
  return false;
}

void World::AfterHostDeath(HostProcess* host) {
  if (host->zombie || places_[host->place].current != host) return;
  invariants_.OnHostDeath(*host);
  Place& place = places_[host->place];
  place.current = nullptr;
  if (ForgetsAZombie(host->place)) EndZombies();
  place.ended = host->finish.has_value() && host->finish->verdict.has_value() && !host->killed;
  if (place.ended) return;
  if (healed_) {
    PlanReplacement(host->place, prng_.Between(100 * kMillisecond, kSecond));
  } else if (prng_.Chance(80)) {
    PlanReplacement(host->place, prng_.Skewed(scenario_.faults.replace_low, scenario_.faults.replace_high));
  }
}

void World::PlanReplacement(int place, Micros delay) {
  if (places_[place].replacement_planned) return;
  places_[place].replacement_planned = true;
  // Exempt: spares that do not know the round reach a new primary before the members that still run it.
  const bool with_spares = scenario_.job.places == Places::kNone && scenario_.job.nodes > scenario_.job.max_nodes;
  if (place == 0 && with_spares)
    delay = std::max(delay, scenario_.limits.lease + scenario_.limits.lease / 100 + 2 * kSecond);
  const bool same_machine = prng_.Chance(60);
  if (place == 0 && !same_machine) delay = std::max(delay, PrimaryMovesAfter());
  scheduler_.After(delay, [this, place, same_machine] {
    places_[place].replacement_planned = false;
    if (places_[place].current == nullptr) Replace(place, same_machine);
  });
}

// Exempt by design: new spares may be as many as the job needs, and a new primary on another machine cannot know
// of the members that run a round and have not yet noticed that the old primary is gone.
Micros World::PrimaryMovesAfter() const {
  const bool has_spares = scenario_.job.nodes > scenario_.job.max_nodes;
  return has_spares ? scenario_.limits.lease + scenario_.limits.lease / 100 + 2 * kSecond : 0;
}

void World::Replace(int place, bool same_machine) {
  Place& at = places_[place];
  if (at.ended) return;
  if (VerdictIsKnown()) {
    // The job is over: only a lost primary is replaced, and only while a node waits for it.
    const bool waited_for = std::any_of(hosts_.begin(), hosts_.end(), [place](const auto& h) {
      return h->alive && !h->zombie && !h->released && h->place != place;
    });
    if (place != 0 || !waited_for || scenario_.job.coordinator_alone) return;
  }
  HostProcess* old = at.current;
  if (old != nullptr) {
    old->zombie = true;
    same_machine = false;
    if (ForgetsAZombie(place)) EndZombies();
  }
  Machine* machine = same_machine && at.machine->up ? at.machine : NewMachine(place);
  if (machine != at.machine && old == nullptr) Vacate(place);
  StartHost(place, machine);
  // No node was waiting for the primary at its turn.
  if (healed_ && places_[0].current == nullptr && !scenario_.job.coordinator_alone) {
    PlanReplacement(0, prng_.Between(100 * kMillisecond, kSecond));
  }
  if (alone_is_done_) {  // and all nodes that knew the verdict are gone: the job runs again
    alone_is_done_ = false;
    StartAlone(alone_machine_);
  }
}

// If all nodes are replaced while an old one lives on, cut off, the job forgets the old one. This is exempt by
// design: the platform ends the old one when the last host that knows any round dies.
bool World::ForgetsAZombie(int place) const {
  for (const auto& zombie : hosts_) {
    if (!zombie->zombie || !zombie->alive) continue;
    bool known = false;
    for (const auto& host : hosts_) {
      const bool counts =
          !host->zombie && host->alive && host->place != place && host->place < scenario_.job.nodes;
      if (!counts) continue;  // an observer knows it too, but no round waits for observers
      known = known || IsSet(host->memory.last().id());
    }
    if (!known) return true;
  }
  return false;
}

void World::EndZombies() {
  for (size_t i = 0; i < alone_.size(); ++i) {
    if (alone_[i]->alive && alone_[i]->machine != alone_machine_) EndAlone(alone_[i].get(), false);
  }
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i]->zombie && hosts_[i]->alive) PowerOff(hosts_[i]->machine);
  }
}

void World::Heal() {
  Note("heal", "no more faults");
  healed_ = true;
  faults_->Stop();
  scripts_->Stop();
  EndZombies();
  LeadNamesHome();
  for (auto& host : hosts_) host->start_fails = 0;
  for (auto& machine : machines_) machine->cut_in = machine->cut_out = 0;
  PathsChanged();
  std::vector<Process*> frozen;
  for (auto& host : hosts_) frozen.push_back(host.get());
  for (auto& agent : agents_) frozen.push_back(agent.get());
  for (auto& alone : alone_) frozen.push_back(alone.get());
  for (Process* process : frozen) {
    if (process->frozen == 0) continue;
    process->frozen = 1;
    Continue(process);
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    WorkerProcess* worker = workers_[i].get();
    if (worker->frozen == 0 && worker->stuck == 0) continue;
    worker->frozen = worker->stuck = 0;
    LetGo(worker);
  }
  for (int place = 0; place < place_count(); ++place) {
    if (places_[place].current == nullptr) PlanReplacement(place, prng_.Between(0, 2 * kSecond));
  }
}

bool World::Settled() const {
  for (const Place& place : places_) {
    if (place.current != nullptr || place.replacement_planned) return false;
  }
  return std::none_of(hosts_.begin(), hosts_.end(), [](const auto& host) { return host->alive; });
}

void World::PowerOff(Machine* machine) {
  if (!machine->up) return;
  Note("platform", absl::StrCat("m", machine->id, " loses power"));
  machine->up = false;
  PathsChanged();
  for (size_t i = 0; i < workers_.size(); ++i) {
    WorkerProcess* worker = workers_[i].get();
    if (!worker->dead && worker->host->machine == machine) {
      worker->kill_pending = true;
      worker->stuck = 0;
      host::Ending ending;
      ending.by_signal = true;
      ending.number = 9;
      Die(worker, ending, false);
    }
  }
  for (size_t i = 0; i < agents_.size(); ++i) {
    if (agents_[i]->alive && agents_[i]->machine == machine) KillAgent(agents_[i].get());
  }
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i]->alive && hosts_[i]->machine == machine) KillHost(hosts_[i].get());
  }
}

}  // namespace muster::simulation
