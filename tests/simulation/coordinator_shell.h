// Stands in for the shell of a coordinator: carries out the effects of its core.
#pragma once

#include <functional>
#include <utility>

#include "tests/simulation/deaths.h"

namespace muster::simulation {

class CoordinatorShell {
 public:
  // Gets each directive that a coordinator sends, after the checks; is_new: the first RUN of a round.
  using Listener = std::function<void(const v1::Directive& directive, bool is_new)>;

  CoordinatorShell(Environment* env, Cluster* cluster, Execution* execution, Network* network, Deaths* deaths,
                   Checks* checks, Listener listener)
      : scenario_(env->scenario()),
        env_(env),
        cluster_(cluster),
        execution_(execution),
        network_(network),
        deaths_(deaths),
        checks_(checks),
        listener_(std::move(listener)) {}

  // primary: nullptr for a separate coordinator.
  CoordinatorHome* Open(Process* owner, HostProcess* primary, const v1::NodeConfig& config);

 private:
  void Drive(CoordinatorHome* home);
  void CarryOut(CoordinatorHome* home, const rendezvous::Effect& effect);
  void Say(const CoordinatorHome& home, const muster::Note& note);
  void NoteRelease(CoordinatorHome* home);
  void SendDirective(CoordinatorHome* home, Session* session, const v1::Directive& directive);

  const Scenario& scenario_;
  Environment* env_;
  Cluster* cluster_;
  Execution* execution_;
  Network* network_;
  Deaths* deaths_;
  Checks* checks_;
  const Listener listener_;
};

}  // namespace muster::simulation
