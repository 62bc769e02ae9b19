// The platform that runs the job: it starts hosts on machines, replaces lost ones, and in the end heals all
// faults.
#pragma once

#include <vector>

#include "tests/simulation/host_shell.h"
#include "tests/simulation/separate_coordinators.h"

namespace muster::simulation {

class Platform {
 public:
  Platform(Environment* env, Cluster* cluster, Execution* execution, Network* network, Workers* workers,
           Sweeps* sweeps, Deaths* deaths, HostShell* host_shell, SeparateCoordinators* coordinators,
           Checks* checks)
      : scenario_(env->scenario()),
        env_(env),
        cluster_(cluster),
        execution_(execution),
        network_(network),
        workers_(workers),
        sweeps_(sweeps),
        deaths_(deaths),
        host_shell_(host_shell),
        coordinators_(coordinators),
        checks_(checks),
        places_(cluster->place_count()) {}

  void Begin();  // plans the first start of each place
  HostProcess* StartHost(int place, Machine* machine);
  // The place gets a new host, on the same machine if wanted and possible. The old host, if alive, is a zombie.
  void Replace(int place, bool same_machine);
  // If all nodes are replaced while an old one lives on, cut off, the job forgets the old one. This is exempt by
  // design: the platform ends the old one when the last host that knows any round dies.
  bool ForgetsAZombie(int place) const;
  void Heal();           // ends all faults
  bool Settled() const;  // every host has ended, and none will be started

 private:
  struct Place {
    bool started = false;  // has had a host
    bool ended = false;    // its host ended with the verdict, or found nobody after it
    bool replacement_planned = false;
  };

  bool SharesMachine(int place) const;
  host::HostOptions MakeOptions(int place, Machine* machine);
  bool DrawCannotStart(int place);
  void AfterHostDeath(HostProcess* host);
  void PlanReplacement(int place, Micros delay);
  Micros PrimaryMovesAfter() const;
  bool IsWaitedFor(int place) const;
  void Vacate(int place);
  void EndZombies();
  void EndHolds();

  const Scenario& scenario_;
  Environment* env_;
  Cluster* cluster_;
  Execution* execution_;
  Network* network_;
  Workers* workers_;
  Sweeps* sweeps_;
  Deaths* deaths_;
  HostShell* host_shell_;
  SeparateCoordinators* coordinators_;
  Checks* checks_;
  std::vector<Place> places_;
  int next_host_ = 0;
};

}  // namespace muster::simulation
