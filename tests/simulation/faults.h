// Faults of a world and their times: random ones by the scenario's weights, and some aimed at drains and at the
// verdict.
#pragma once

#include <set>
#include <vector>

#include "tests/simulation/invariants.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/strangers.h"

namespace muster::simulation {

struct HostProcess;
struct Machine;
struct WorkerProcess;
class World;

class Faults {
 public:
  explicit Faults(World* world);

  void Begin();
  void Stop();

  // Hooks for aimed faults: the first RUN and the first STOP of a round, the first announcement of the verdict.
  void OnRound(int node_count);
  void OnDrain(const RoundKey& round);
  void OnVerdict();

 private:
  void ScheduleNext();
  void ScheduleStranger();
  void ScheduleSecondSidecar();
  Fault Draw();
  void Strike(Fault fault);
  void KillCoordinator();
  void FreezeAlone();
  void StrikeWorker(Fault fault);
  void StrikeProcess(Fault fault, HostProcess* host);
  void FreezeNeighbours(const HostProcess& struck, Micros outage);
  void StrikeNode(Fault fault, HostProcess* host);
  void MaybeEndOthers(const HostProcess& first);
  void StrikeNetwork(Fault fault, HostProcess* host);
  void IsolateAndReplace(HostProcess* host);
  std::vector<Machine*> WithSomeOthers(const HostProcess& host);
  void CutStaggered(HostProcess* host);
  void Swizzle();

  HostProcess* AnyHost();
  WorkerProcess* AnyWorker();
  bool MayKillAgentOf(const HostProcess& host) const;
  Micros Outage();

  World* world_;
  Environment* env_;
  Cluster* cluster_;
  Strangers strangers_;
  bool stopped_ = false;
  bool verdict_struck_ = false;
  int node_count_ = 0;  // of the newest round
  std::set<RoundKey> drained_;
};

}  // namespace muster::simulation
