// The life of each worker: it starts, runs, leaves children behind, is stopped or held by the kernel, ends, and is
// reaped by its host.
#pragma once

#include "tests/simulation/execution.h"

namespace muster::simulation {

class Workers {
 public:
  Workers(Environment* env, Cluster* cluster, Execution* execution, Checks* checks)
      : scenario_(env->scenario()), env_(env), cluster_(cluster), execution_(execution), checks_(checks) {}

  void Spawn(HostProcess* host, const v1::Round& round);
  WorkerProcess* NewChild(WorkerProcess* worker);
  host::Ending DrawFailure();

  // The worker ends by itself. If the scenario says so, it first writes an error file.
  void Fail(WorkerProcess* worker, const host::Ending& ending);
  // by_itself: not by a SIGKILL, which alone ends a stopped process.
  void Die(WorkerProcess* worker, const host::Ending& ending, bool by_itself);
  void Kill(WorkerProcess* worker, Micros within);
  void LosePower(WorkerProcess* worker);  // ends at once, even if the kernel holds it

  void Freeze(WorkerProcess* worker, Micros for_how_long);
  void HoldInKernel(WorkerProcess* worker, Micros for_how_long);  // D state
  void EndHolds(WorkerProcess* worker);

  // Workers that have ended are reported before the host's next decision, as its shell does: it reaps before each
  // order and each tick.
  void CollectEnded(HostProcess* host);
  // Leftovers of a host and an agent of which neither can sweep, until a successor finds them: exempt by design.
  void ExemptOrphans(const HostProcess& host);

 private:
  Micros ExecDelay(WorkerProcess* worker);
  void FailToStart(HostProcess* host, WorkerProcess* worker);
  void Exec(WorkerProcess* worker);
  void PlanLife(WorkerProcess* worker);
  void TouchProgress(WorkerProcess* worker);
  void Fork(WorkerProcess* worker);
  void WriteErrorFile(WorkerProcess* worker, const host::Ending& ending);
  void LetGo(WorkerProcess* worker);
  void Exempt(WorkerProcess* worker);
  void TellHost(WorkerProcess* worker, const host::Ending& ending);
  void FailPeersOf(const WorkerProcess& worker);
  void Reap(HostProcess* host, WorkerProcess* worker, const host::Ending& ending);
  void OnTrainingDead(WorkerProcess* wrapper);

  const Scenario& scenario_;
  Environment* env_;
  Cluster* cluster_;
  Execution* execution_;
  Checks* checks_;
};

}  // namespace muster::simulation
