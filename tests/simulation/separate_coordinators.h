// The coordinators of jobs that have them on machines of their own, and the platform that restarts them and leads
// the coordinator's name to one of them.
#pragma once

#include "tests/simulation/coordinator_shell.h"

namespace muster::simulation {

class SeparateCoordinators {
 public:
  SeparateCoordinators(Environment* env, Cluster* cluster, Execution* execution, Network* network,
                       CoordinatorShell* shell)
      : scenario_(env->scenario()),
        env_(env),
        cluster_(cluster),
        execution_(execution),
        network_(network),
        shell_(shell) {}

  void Begin();                   // the first one, on a new machine
  AloneProcess* current() const;  // nullptr: there is none, or it is dead
  void End(AloneProcess* alone, bool comes_again);
  void AskToEnd(AloneProcess* alone);  // by a signal; the platform starts it again once it has ended

  // Moves the coordinator's name to a new machine, on which one starts; the old one lives on.
  Machine* Move();
  // Leads the name back. If the one there has ended meanwhile, another one is started.
  void MoveBack(Machine* machine);
  Machine* StartSecond();  // beside the first; the name may lead some nodes to it
  void EndSecond(const Machine* machine);
  void EndAllButNamed();
  void LeadNamesHome();
  // A host has been started. If the coordinator had ended with the job, no node knows the verdict any more: the
  // job runs again.
  void RunAgain();

 private:
  void Start(Machine* machine);
  void MoveTo(Machine* machine);
  void Tick(AloneProcess* alone);

  const Scenario& scenario_;
  Environment* env_;
  Cluster* cluster_;
  Execution* execution_;
  Network* network_;
  CoordinatorShell* shell_;
  bool done_ = false;  // the current one has ended with the job
};

}  // namespace muster::simulation
