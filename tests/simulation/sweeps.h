// Ends the processes of a host: by signals to its workers, by sweeps of its own shell, step by step, or by its
// agent once the host is dead.
#pragma once

#include "tests/simulation/workers.h"

namespace muster::simulation {

class Sweeps {
 public:
  Sweeps(Environment* env, Execution* execution, Workers* workers, Checks* checks)
      : scenario_(env->scenario()), env_(env), execution_(execution), workers_(workers), checks_(checks) {}

  void Signal(HostProcess* host, int signal);
  void Sweep(HostProcess* host);
  void KillWorkersOf(HostProcess* host, Micros within);
  void KillMarked(HostProcess* host, Micros within);  // all processes with the host's marker
  // A process that a pass has found may have forked just before it was killed; the next pass finds the child.
  void ForkOnceMore(HostProcess* host);

 private:
  void SignalWorker(WorkerProcess* worker, int signal);
  void KillSessionsOf(HostProcess* host);
  void SweepPass(HostProcess* host);

  const Scenario& scenario_;
  Environment* env_;
  Execution* execution_;
  Workers* workers_;
  Checks* checks_;
};

}  // namespace muster::simulation
