// Stands in for the shell of a host: starts agents, has workers spawned, signalled and swept, runs preflights, and
// keeps the kernel's timer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/agent_shell.h"
#include "tests/simulation/hangs.h"
#include "tests/simulation/sidecars.h"

namespace muster::simulation {

class HostShell {
 public:
  HostShell(Environment* env, Cluster* cluster, Execution* execution, Workers* workers, Hangs* hangs,
            Sweeps* sweeps, Deaths* deaths, AgentShell* agent_shell, Sidecars* sidecars, Checks* checks)
      : scenario_(env->scenario()),
        env_(env),
        cluster_(cluster),
        execution_(execution),
        workers_(workers),
        hangs_(hangs),
        sweeps_(sweeps),
        deaths_(deaths),
        agent_shell_(agent_shell),
        sidecars_(sidecars),
        checks_(checks) {}

  void Drive(HostProcess* host);  // of a new host
  void Signal(HostProcess* host, int signal);

 private:
  void Tick(HostProcess* host);
  void CarryOut(HostProcess* host, const host::Effect& effect);
  void StartAgent(HostProcess* host, uint64_t number);
  Micros DrawAgentStart();
  void FailToStartAgent(HostProcess* host, uint64_t number);
  void CloseLinkTo(AgentProcess* agent);
  void SendToAgent(HostProcess* host, const v1::HostStatus& status);
  Micros LastOutputDelay();
  void SetKernelTimer(HostProcess* host, std::optional<BootTime> at);
  void RenewOffer(HostProcess* host);
  void StartCheck(HostProcess* host, host::Check check);
  void AskGpus(HostProcess* host);
  void StartPreloader(HostProcess* host, const std::vector<std::string>& modules);
  void StopPreloader(HostProcess* host);
  void ReadLearned(HostProcess* host);
  void EndPreloaderLater(HostProcess* host);
  void SayWhetherForked(HostProcess* host);
  void Finish(HostProcess* host, const host::Finish& finish);
  void StepWallClock(HostProcess* host);
  void LookAtDeadline(HostProcess* host);

  const Scenario& scenario_;
  Environment* env_;
  Cluster* cluster_;
  Execution* execution_;
  Workers* workers_;
  Hangs* hangs_;
  Sweeps* sweeps_;
  Deaths* deaths_;
  AgentShell* agent_shell_;
  Sidecars* sidecars_;
  Checks* checks_;
  int next_port_ = 20000;
};

}  // namespace muster::simulation
