// The deaths of hosts, agents and whole machines, and what the kernel does about each: it ends a host's workers,
// closes connections, tells the other end of the link between host and agent, and ends a dead host's container.
#pragma once

#include "tests/simulation/network.h"
#include "tests/simulation/sweeps.h"

namespace muster::simulation {

class Deaths {
 public:
  Deaths(Environment* env, Cluster* cluster, Execution* execution, Network* network, Workers* workers,
         Sweeps* sweeps, Checks* checks)
      : scenario_(env->scenario()),
        env_(env),
        cluster_(cluster),
        execution_(execution),
        network_(network),
        workers_(workers),
        sweeps_(sweeps),
        checks_(checks) {}

  void KillAgent(AgentProcess* agent);
  void KillHost(HostProcess* host);
  void PowerOff(Machine* machine);  // silently: no packet reports it

 private:
  void TellAgentOfEnd(HostProcess* host);
  void EndContainer(HostProcess* host);

  const Scenario& scenario_;
  Environment* env_;
  Cluster* cluster_;
  Execution* execution_;
  Network* network_;
  Workers* workers_;
  Sweeps* sweeps_;
  Checks* checks_;
};

}  // namespace muster::simulation
