// Faults in a fixed order that random faults produce too rarely. A seed has at most one script; its randomness
// comes from its own stream, so that the rest of a seed does not change.
#pragma once

#include "tests/simulation/scenario.h"

namespace muster::simulation {

struct AgentProcess;
struct HostProcess;
struct Machine;
class Cluster;
class Environment;
class World;

class Scripts {
 public:
  explicit Scripts(World* world);

  void Begin();
  void Stop() { stopped_ = true; }
  void OnRound(int node_count);  // a coordinator sends a new round

 private:
  void FreezeWholeNode();
  void SendAwayAndBack();
  void MoveCoordinator();
  void MoveBack(Machine* first, Machine* second);
  void EndPrimary();
  void CutOffWhoHasHeard();
  void BringBackTheOld();
  void CutOffFromRun();
  void SplitNames();
  void JoinNames(Machine* second);
  void BringNewcomer();
  void FailAMember();
  void SleepThroughExits();
  void ReturnAtOnce();
  void CutOffTogether();
  void After(Micros delay, void (Scripts::*what)());
  HostProcess* AnyMember();

  World* world_;
  Environment* env_;
  Cluster* cluster_;
  Prng prng_;
  bool stopped_ = false;
  // State of the script that ends the primary twice.
  enum class Farewell { kNone, kAwaitsSuccessor, kDone } farewell_ = Farewell::kNone;
  AgentProcess* old_coordinator_ = nullptr;
  Machine* sent_away_ = nullptr;
};

// Further settings that a seed draws; see Scenario.
void DrawScript(Prng prng, Scenario& scenario);
void DrawManyHosts(Prng prng, Scenario& scenario);
// hardships.cc
void DrawHardships(uint64_t seed, Scenario& scenario);

}  // namespace muster::simulation
