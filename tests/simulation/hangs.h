// Rounds that hang: one of their workers goes no further, and the others wait for it. Their hosts look for signs
// of life and take snapshots here, and end the worker that the coordinator names.
//
// 11. Nobody is accused of a hang unless his round was silent for as long as --hang-timeout says. A hang that
//     nothing disturbs is ended in time, and by the worker that is its reason. (The numbers continue the list in
//     invariants.h.)
#pragma once

#include <map>
#include <vector>

#include "tests/simulation/workers.h"

namespace muster::simulation {

class Hangs {
 public:
  Hangs(Environment* env, Cluster* cluster, Execution* execution, Workers* workers, Checks* checks)
      : scenario_(env->scenario()),
        env_(env),
        cluster_(cluster),
        execution_(execution),
        workers_(workers),
        checks_(checks) {}

  void Look(HostProcess* host);  // on each tick
  void TakeSnapshot(HostProcess* host, int first_rank);
  void EndWorker(HostProcess* host, int local_rank);

  void OnDirectiveSent(const v1::Directive& directive);

 private:
  struct RoundRecord {
    Micros active_at = 0;     // when any of its workers last showed a sign, or ended
    Micros longest = 0;       // time between two of those
    Micros silent_until = 0;  // a long phase in which no worker shows a sign
    int64_t live = 0;         // workers
    bool planned = false;     // what will happen to it
    WorkerProcess* reason = nullptr;
    Micros hangs_since = 0;
    bool ended = false;  // a worker was ended for it
  };

  static bool Goes(const WorkerProcess& worker);
  std::vector<WorkerProcess*> MembersOf(const RoundKey& round) const;
  bool IsWarm(const RoundKey& round) const;
  void NoteActive(int64_t live, RoundRecord* round);
  void Plan(const RoundKey& round, RoundRecord* record);
  void BeginHang(const RoundKey& round);
  void CheckEnded(const RoundKey& round);
  bool IsUndisturbed(const RoundKey& round) const;  // since it hangs

  const Scenario& scenario_;
  Environment* env_;
  Cluster* cluster_;
  Execution* execution_;
  Workers* workers_;
  Checks* checks_;
  std::map<RoundKey, RoundRecord> rounds_;
};

}  // namespace muster::simulation
