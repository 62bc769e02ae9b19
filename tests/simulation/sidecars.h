// The sidecars of nodes whose hosts start no agents (NodeConfig.split), each with the real core. Stands in for
// their shells, and for the platform that starts them again.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "agent/process/core/sidecar_core.h"
#include "base/core/driver.h"
#include "tests/simulation/deaths.h"

namespace muster::simulation {

class Sidecars {
 public:
  Sidecars(Environment* env, Cluster* cluster, Execution* execution, Deaths* deaths)
      : scenario_(env->scenario()), env_(env), cluster_(cluster), execution_(execution), deaths_(deaths) {}

  void Serve(HostProcess* host);  // a new one
  // The host has taken the connection of its sidecar; the agent is not started yet.
  void OnWelcome(AgentProcess* agent, Micros start_time);
  void OnLinkClosed(AgentProcess* agent);    // by the host
  void AddAnother(const HostProcess& host);  // a second sidecar comes to the same host

 private:
  struct Pod {
    const Machine* machine = nullptr;
    int place = 0;
    auto operator<=>(const Pod&) const = default;
  };
  struct Sidecar {
    explicit Sidecar(Pod p) : pod(p), core("the socket", absl::Minutes(10)) {}
    Pod pod;
    agent::SidecarCore core;
    std::optional<CoreDriver<agent::SidecarCore, agent::SidecarEffect>> driver;
    bool alive = true;
    bool superseded = false;
    uint64_t calls = 0;
    HostProcess* called = nullptr;     // has not answered yet
    AgentProcess* welcomed = nullptr;  // its connection is taken, and it is not started
    Micros start_time = 0;             // of that agent
    AgentProcess* agent = nullptr;
  };

  void Start(Pod pod);
  void Tick(Sidecar* sidecar);
  void CarryOut(Sidecar* sidecar, const agent::SidecarEffect& effect);
  void Call(Sidecar* sidecar);
  void NotReached(Sidecar* sidecar);
  void StartAgent(Sidecar* sidecar);
  void End(Sidecar* sidecar);
  void OnAgentEnded(AgentProcess* agent);
  HostProcess* HostIn(const Pod& pod) const;
  Sidecar* Current(const Pod& pod) const;
  Micros Away();

  template <typename Event, typename... Payload>
  void Feed(Sidecar* sidecar, Event event, const Payload&... payload) {
    if (sidecar->alive) sidecar->driver->Feed(event, payload...);
  }

  const Scenario& scenario_;
  Environment* env_;
  Cluster* cluster_;
  Execution* execution_;
  Deaths* deaths_;
  std::vector<std::unique_ptr<Sidecar>> sidecars_;  // all that ever were; the last one of a pod counts
};

}  // namespace muster::simulation
