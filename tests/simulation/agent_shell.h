// Stands in for the shell of an agent: carries out the effects of its core, and opens the coordinator in the
// primary's agent.
#pragma once

#include <optional>
#include <string>

#include "tests/simulation/coordinator_shell.h"

namespace muster::simulation {

class AgentShell {
 public:
  AgentShell(Environment* env, Cluster* cluster, Execution* execution, Network* network, Workers* workers,
             Sweeps* sweeps, Deaths* deaths, CoordinatorShell* coordinator_shell, Checks* checks)
      : scenario_(env->scenario()),
        env_(env),
        cluster_(cluster),
        execution_(execution),
        network_(network),
        workers_(workers),
        sweeps_(sweeps),
        deaths_(deaths),
        coordinator_shell_(coordinator_shell),
        checks_(checks) {}

  void Drive(AgentProcess* agent);   // of a new agent
  void Notice(AgentProcess* agent);  // its machine announces its end

 private:
  void Tick(AgentProcess* agent);
  void CarryOut(AgentProcess* agent, const agent::Effect& effect);
  void SendToHost(AgentProcess* agent, const v1::HostDirective& to_host);
  void ExitAgent(AgentProcess* agent, const std::string& why);

  void EndHost(AgentProcess* agent, bool kill_first);
  void WaitUntilSwept(AgentProcess* agent);
  void ProbePredecessor(AgentProcess* agent, const std::string& process);

  void MaybeOpenHome(AgentProcess* agent);
  void OpenHome(AgentProcess* agent);
  std::optional<PortHolder> HolderOfPort(const AgentProcess& agent) const;

  const Scenario& scenario_;
  Environment* env_;
  Cluster* cluster_;
  Execution* execution_;
  Network* network_;
  Workers* workers_;
  Sweeps* sweeps_;
  Deaths* deaths_;
  CoordinatorShell* coordinator_shell_;
  Checks* checks_;
};

}  // namespace muster::simulation
