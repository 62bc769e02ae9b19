#include "tests/simulation/deaths.h"

#include "absl/strings/str_cat.h"
#include "tests/simulation/delays.h"

namespace muster::simulation {
namespace {

constexpr int kPortTakenPercent = 10;  // percentage of the deaths of an agent that contains the coordinator
constexpr Micros kLongestTeardown = 10 * kSecond;  // of a container
constexpr Micros kPortTakenMax = 8 * kSecond;

// How long another program holds the port after the death of the agent that had it. Drawn from a separate stream
// of random numbers, so that the other streams do not change.
Micros HowLongPortIsTaken(uint64_t seed, Micros now) {
  Prng prng(seed ^ static_cast<uint64_t>(now));
  return prng.Chance(kPortTakenPercent) ? prng.Between(0, kPortTakenMax) : 0;
}

}  // namespace

void Deaths::KillHost(HostProcess* host) {
  if (!host->alive) return;
  env_->Note("death", absl::StrCat("host ", host->name));
  host->alive = false;
  host->inbox.clear();
  if (!host->finish.has_value()) host->fate.killed = true;
  sweeps_->KillWorkersOf(host, kKillDelayMax);  // their parent-death signal
  workers_->ExemptOrphans(*host);
  if (host->agent != nullptr) TellAgentOfEnd(host);
  if (host->split() && host->end_is_proved) {
    // With process 1 the kernel kills all others at once; large ones take a while to be torn down.
    sweeps_->KillMarked(host, kKillDelayMax);
    env_->scheduler().After(env_->hardships().Skewed(50, kLongestTeardown), [this, host] { EndContainer(host); });
  }
  host->on_death();
}

void Deaths::TellAgentOfEnd(HostProcess* host) {
  AgentProcess* agent = host->agent;
  execution_->DeliverAfter(kLinkDelay, agent, [agent] {
    agent->link_open = false;
    agent->Feed(&agent::AgentCore::OnHostLinkClosed);
  });
  if (host->split()) return host->on_link_end(agent);
  execution_->DeliverAfter(env_->prng().Between(50, 3 * kLinkDelay), agent,
                           [agent] { agent->Feed(&agent::AgentCore::OnHostClosed); });
}

// The kernel shows the end of process 1 once all others have ended.
void Deaths::EndContainer(HostProcess* host) {
  if (host->AnythingAlive()) {
    sweeps_->KillMarked(host, kKillDelayMax);
    env_->scheduler().After(2 * kKillDelayMax, [this, host] { EndContainer(host); });
    return;
  }
  AgentProcess* agent = host->agent;
  host->on_container_end();
  if (agent == nullptr) return;
  execution_->Deliver(agent, [this, agent] {
    agent->swept = true;  // by the kernel
    checks_->conduct.OnSwept(agent);
    agent->Feed(&agent::AgentCore::OnHostClosed);
  });
}

void Deaths::KillAgent(AgentProcess* agent) {
  if (!agent->alive) return;
  env_->Note("death", absl::StrCat("agent ", agent->name, agent->home != nullptr ? " with the coordinator" : ""));
  agent->alive = false;
  agent->inbox.clear();
  ++agent->attempt;
  agent->session = nullptr;
  network_->CloseAllOf(*agent);
  if (agent->home != nullptr) {
    network_->CloseAllOf(*agent->home);
    if (!env_->healed() && scenario_.faults.total_weight() > 0 && !scenario_.faults.only_agents_die) {
      agent->machine->port_taken_until = env_->now() + HowLongPortIsTaken(scenario_.seed, env_->now());
    }
  }
  HostProcess* host = agent->host;
  workers_->ExemptOrphans(*host);
  execution_->DeliverAfter(env_->prng().Between(kLinkDelay, 2 * kLinkDelay), host, [agent, host] {
    if (host->agent != agent || !host->link_open) return;
    host->link_open = false;
    host->Feed(&host::HostCore::OnAgentClosed, agent->number);
  });
  if (host->on_agent_end) host->on_agent_end(agent);
}

void Deaths::PowerOff(Machine* machine) {
  if (!machine->up) return;
  env_->Note("platform", absl::StrCat("m", machine->id, " loses power"));
  machine->up = false;
  network_->PathsChanged();
  for (size_t i = 0; i < cluster_->workers().size(); ++i) {
    WorkerProcess* worker = cluster_->workers()[i].get();
    if (worker->host->machine == machine) workers_->LosePower(worker);
  }
  for (size_t i = 0; i < cluster_->agents().size(); ++i) {
    AgentProcess* agent = cluster_->agents()[i].get();
    if (agent->alive && agent->machine == machine) KillAgent(agent);
  }
  for (size_t i = 0; i < cluster_->hosts().size(); ++i) {
    HostProcess* host = cluster_->hosts()[i].get();
    if (host->alive && host->machine == machine) KillHost(host);
  }
}

}  // namespace muster::simulation
