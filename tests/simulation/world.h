// A whole cluster in virtual time, for one seed: owns the cluster, the checks, the faults and the parts that act
// on the cluster, and runs it to its end.
//
// The parts play the kernel, the network, the platform and the shells: they execute the cores' effects and deliver
// the answers, and decide nothing. Each part uses only those that are listed before it; events go the other way
// through the records of processes.h.
#pragma once

#include "tests/simulation/faults.h"
#include "tests/simulation/platform.h"
#include "tests/simulation/scripts.h"

namespace muster::simulation {

class World {
 public:
  explicit World(const Scenario& scenario, TakeLine trace = {});  // trace: gets each event, if given
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Runs to the end: true if every invariant held.
  bool Run();
  const Invariants& invariants() const { return checks_.invariants; }
  uint64_t hash() const { return env_.scheduler().hash(); }
  uint64_t events() const { return env_.scheduler().events(); }
  Micros now() const { return env_.now(); }

  // For faults.
  Environment& env() { return env_; }
  Cluster& cluster() { return cluster_; }
  Checks& checks() { return checks_; }
  Execution& execution() { return execution_; }
  Workers& workers() { return workers_; }
  Network& network() { return network_; }
  Deaths& deaths() { return deaths_; }
  SeparateCoordinators& coordinators() { return coordinators_; }
  AgentShell& agent_shell() { return agent_shell_; }
  HostShell& host_shell() { return host_shell_; }
  Sidecars& sidecars() { return sidecars_; }
  Platform& platform() { return platform_; }

 private:
  void Heal();
  void OnDirective(const v1::Directive& directive, bool is_new);

  Environment env_;
  Cluster cluster_;
  Checks checks_;
  Execution execution_;
  Workers workers_;
  Hangs hangs_;
  Sweeps sweeps_;
  Network network_;
  Deaths deaths_;
  CoordinatorShell coordinator_shell_;
  SeparateCoordinators coordinators_;
  AgentShell agent_shell_;
  Sidecars sidecars_;
  HostShell host_shell_;
  Platform platform_;
  Faults faults_;
  Scripts scripts_;
};

}  // namespace muster::simulation
