// Lets processes run: events reach a process that runs, and wait for one that is stopped. Ticks, and the stops and
// continuations of hosts, agents and separate coordinators.
#pragma once

#include "tests/simulation/checks.h"
#include "tests/simulation/cluster.h"

namespace muster::simulation {

class Execution {
 public:
  Execution(Environment* env, Checks* checks) : env_(env), checks_(checks) {}

  void Deliver(Process* process, Scheduler::Action action);
  void DeliverAfter(Micros delay, Process* process, Scheduler::Action action);
  // A process that was spawned begins to run, and gets what has waited for it.
  void Start(Process* process, Micros first_tick);
  void ScheduleTick(Process* process, Micros delay);
  void Freeze(Process* process, Micros for_how_long);
  void EndFreezes(Process* process);

 private:
  void Continue(Process* process);
  void Drain(Process* process);
  void Tick(Process* process);

  Environment* env_;
  Checks* checks_;
};

}  // namespace muster::simulation
