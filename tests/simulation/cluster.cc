#include "tests/simulation/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::simulation {
namespace {

constexpr Micros kStartOffsetMax = 3600 * kSecond;

}  // namespace

Cluster::Cluster(Environment* env)
    : env_(env), places_(env->scenario().job.nodes + env->scenario().job.observers) {}

Machine* Cluster::NewMachine(int place) {
  auto machine = std::make_unique<Machine>();
  machine->id = static_cast<int>(machines_.size());
  machine->place = place;
  const ClockErrors& clocks = env_->scenario().clocks;
  Prng& prng = env_->prng();
  machine->boot_offset = prng.Between(1, kStartOffsetMax);
  const int64_t drift = prng.Chance(50) ? clocks.drift_ppm : prng.Between(0, clocks.drift_ppm);
  machine->drift_ppm = prng.Chance(50) ? drift : -drift;
  if (clocks.worst) {
    const bool coordinates = env_->scenario().job.coordinator_alone ? place < 0 : place == 0;
    machine->drift_ppm = coordinates ? clocks.drift_ppm : -clocks.drift_ppm;
  }
  if (clocks.wall_skew > 0) machine->wall_skew = prng.Between(-clocks.wall_skew, clocks.wall_skew);
  machine->address = absl::StrCat("10.", machine->id / 250, ".", machine->id % 250, ".1");
  machine->boot_id = absl::StrCat("boot-", machine->id);
  machines_.push_back(std::move(machine));
  return machines_.back().get();
}

HostProcess* Cluster::NewHost(const host::HostOptions& options) {
  hosts_.push_back(std::make_unique<HostProcess>(options));
  return hosts_.back().get();
}

AgentProcess* Cluster::NewAgent(HostProcess* host, uint64_t number) {
  agents_.push_back(std::make_unique<AgentProcess>(host, number, env_->prng().Next()));
  return agents_.back().get();
}

AloneProcess* Cluster::NewAlone() {
  alone_.push_back(std::make_unique<AloneProcess>());
  return alone_.back().get();
}

WorkerProcess* Cluster::NewWorker() {
  workers_.push_back(std::make_unique<WorkerProcess>());
  return workers_.back().get();
}

CoordinatorHome* Cluster::NewHome(Process* owner, HostProcess* primary, rendezvous::CoordinatorOptions options) {
  homes_.push_back(std::make_unique<CoordinatorHome>(owner, primary, std::move(options),
                                                     owner->machine->BootAt(env_->now()), env_->prng().Next()));
  CoordinatorHome* home = homes_.back().get();
  home->id = static_cast<int>(homes_.size());
  home->born = env_->now();
  return home;
}

Session* Cluster::NewSession(AgentProcess* agent, CoordinatorHome* home) {
  sessions_.push_back(std::make_unique<Session>());
  Session* session = sessions_.back().get();
  session->agent = agent;
  session->home = home;
  session->stream = home->next_stream++;
  if (home->owner == agent) session->stream |= rendezvous::kLocalStreamBit;
  home->sessions[session->stream] = session;
  return session;
}

CoordinatorHome* Cluster::HomeOn(const Machine* machine) const {
  for (auto it = homes_.rbegin(); it != homes_.rend(); ++it) {
    if ((*it)->owner->alive && (*it)->listens && (*it)->owner->machine == machine) return it->get();
  }
  return nullptr;
}

const HostProcess* Cluster::PortKeeperOn(const Machine* machine) const {
  for (const auto& host : hosts_) {
    if (host->machine == machine && host->alive && host->keeps_port && !host->finish) return host.get();
  }
  return nullptr;
}

AgentProcess* Cluster::CandidateOn(const Machine* machine) const {
  AgentProcess* const candidate = machine->candidate;
  const bool waits = candidate != nullptr && candidate->alive && !candidate->core.memory().served();
  return waits ? candidate : nullptr;
}

bool Cluster::LeaseRuns(const HostProcess& host) const {
  return host.core.leased() && host.machine->BootAt(env_->now()) < host.core.lease_deadline();
}

bool Cluster::VerdictIsKnown() const {
  for (const auto& host : hosts_) {
    if (host->fate.zombie) continue;
    if (host->finish.has_value() && host->finish->verdict.has_value()) return true;
    if (host->alive && host->memory.has_verdict()) return true;
  }
  return false;
}

Micros Cluster::wall_clock_set_at() const {
  Micros last = -1;
  for (const auto& machine : machines_) last = std::max(last, machine->stepped_at);
  return last;
}

}  // namespace muster::simulation
