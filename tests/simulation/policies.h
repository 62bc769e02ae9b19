// What the flags promise, checked against the truth of the whole world, as invariants.h says what must hold of any
// job:
//
//  7. Who attends and is ready keeps its rank before a spare; nodes are gathered for the settle time, and get in
//  when
//     there is room; pauses and budgets are neither cut short nor overdrawn; a node is set aside for its own
//     failures only, for so long, and if the others suffice.
//  8. The cause that is named is the failure that came first.
//
// What a coordinator cannot know (it was away, the network was cut) is left out: only what it has heard itself
// counts.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/v1/rendezvous.pb.h"
#include "tests/simulation/scenario.h"

namespace muster::simulation {

struct CoordinatorHome;
struct HostProcess;
struct RoundKey;
struct Session;
struct WorkerProcess;
class Invariants;
class World;

class Policies {
 public:
  Policies(const Scenario& scenario, World* world, Invariants* invariants);
  ~Policies();

  // A status has arrived; before and after the coordinator has decided on it.
  void OnStatus(const Session& session, const v1::AgentStatus& status);
  void AfterStatus(const CoordinatorHome& home);
  void OnDirectiveSent(const Session& session, const v1::Directive& directive);
  // Of a worker, not of what it left behind.
  void OnFailure(const WorkerProcess& worker, bool by_signal);
  void OnProgress(const HostProcess& host, const RoundKey& round);
  // Anything but a worker's own failure: who was told what, and when, is not a matter of the policies any more.
  void OnDisturbance();

 private:
  struct WorkerFailure {
    Micros at = 0;
    std::string host_id;
    std::string hostname;
    int rank = 0;
    bool by_signal = false;
  };
  struct RoundRecord;
  struct HomeRecord;
  struct HostRecord;

  void OnRun(const CoordinatorHome& home, const HostProcess& to, const v1::Round& round);
  void OnComplete(const CoordinatorHome& home, const RoundRecord& round);
  void OnStop(const CoordinatorHome& home, const v1::Stop& stop);
  void OnVerdict(const CoordinatorHome& home, const v1::Verdict& verdict);
  void CheckGrowth(const CoordinatorHome& home);
  void CheckGathering(const CoordinatorHome& home);
  void CheckKeptRanks(const CoordinatorHome& home, const RoundRecord& before, const RoundRecord& round);
  void CheckPause(const RoundRecord& before, const RoundRecord& round);
  void CheckExcluded(const CoordinatorHome& home, const RoundRecord& round);
  void CheckCharged(const RoundRecord& before, const RoundRecord& round);
  void CheckCulprit(const CoordinatorHome& home, const RoundRecord& before, const RoundRecord& round);
  void CheckBudget(const v1::Verdict& verdict);
  void CheckNoProgress(const v1::Verdict& verdict);
  void CheckTooFew(const CoordinatorHome& home, const v1::Verdict& verdict);
  void CheckCause(const CoordinatorHome& home, const v1::Verdict& verdict);
  bool Clean(const RoundRecord& round) const;  // nothing but workers' own failures happened in it
  bool ClockWasSetIn(const RoundRecord& round) const;
  Micros FirstHeard(const CoordinatorHome& home, const RoundRecord& round) const;
  bool IsCandidate(const CoordinatorHome& home, const HostProcess& host) const;
  std::vector<const HostProcess*> Newcomers(const CoordinatorHome& home, const RoundRecord& round) const;
  int RoundSize(int ready) const;
  void Fail(int number, const std::string& what);

  const Scenario& scenario_;
  World* world_;
  Invariants* invariants_;
  std::map<RoundKey, RoundRecord> rounds_;
  std::map<int, HomeRecord> homes_;
  std::map<std::string, std::set<RoundKey>> failed_rounds_;  // by the host whose workers failed in them
  std::set<std::string> verdicts_;                           // their reasons
  Micros disturbed_at_ = -1;
};

}  // namespace muster::simulation
