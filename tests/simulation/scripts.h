// Faults that come in a certain order: what a swarm of random ones brings about too rarely to be counted on. A
// seed has at most one script; its chance comes from a stream of its own, so that all else of a seed stays as it
// is.
#pragma once

#include "tests/simulation/scenario.h"

namespace muster::simulation {

struct AgentProcess;
struct HostProcess;
struct Machine;
class World;

class Scripts {
 public:
  explicit Scripts(World* world);

  void Begin();
  void Stop() { stopped_ = true; }
  void OnRound(int node_count);  // a coordinator tells a new one

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
  void After(Micros delay, void (Scripts::*what)());
  HostProcess* AnyMember();

  World* world_;
  Prng prng_;
  bool stopped_ = false;
  // Of the script that ends the primary twice.
  enum class Farewell { kNone, kAwaitsSuccessor, kDone } farewell_ = Farewell::kNone;
  AgentProcess* old_coordinator_ = nullptr;
  Machine* sent_away_ = nullptr;
};

// What a seed draws beside all else; see Scenario.
void DrawScript(Prng prng, Scenario& scenario);
void DrawManyHosts(Prng prng, Scenario& scenario);
// hardships.cc
void DrawHardships(uint64_t seed, Scenario& scenario);

}  // namespace muster::simulation
