// The promises of the options, checked against the state of the whole world. The numbers continue the list in
// invariants.h.
//
//  7. An attached and ready node keeps its rank before a spare; new nodes are gathered for the settle time, and
//     are taken in when there is room; pauses and budgets are neither cut short nor overdrawn; a node is
//     excluded only for its own failures, for the set time, and only if the others suffice.
//  8. The reported cause is the failure that came first.
//
// Events that a coordinator cannot know (it was away, the network was cut) do not count: only statuses that it
// has received itself do.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/v1/rendezvous.pb.h"
#include "tests/simulation/scenario.h"

namespace muster::rendezvous {
struct Host;
}

namespace muster::simulation {

struct CoordinatorHome;
struct HostProcess;
struct RoundKey;
struct Session;
struct WorkerProcess;
class Cluster;
class Environment;
class Invariants;

class Policies {
 public:
  Policies(const Scenario& scenario, const Environment* env, const Cluster* cluster, Invariants* invariants);
  ~Policies();

  // A status has arrived: before and after the coordinator's decision.
  void OnStatus(const Session& session, const v1::AgentStatus& status);
  void AfterStatus(const CoordinatorHome& home);
  void OnDirectiveSent(const Session& session, const v1::Directive& directive);
  // The failure of a worker, not of its leftovers.
  void OnFailure(const WorkerProcess& worker, bool by_signal);
  void OnProgress(const HostProcess& host, const RoundKey& round);

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
  bool Clean(const RoundRecord& round) const;  // only workers' own failures happened in it
  bool ClockWasSetIn(const RoundRecord& round) const;
  Micros FirstHeard(const CoordinatorHome& home, const RoundRecord& round) const;
  bool IsCandidate(const CoordinatorHome& home, const HostProcess& host) const;
  std::vector<const HostProcess*> Newcomers(const CoordinatorHome& home, const RoundRecord& round) const;
  bool IsHeldBack(const CoordinatorHome& home, const HostProcess& host) const;
  bool AwaitsItsRank(const CoordinatorHome& home, const HostProcess& host) const;
  void CheckHeldBack(const CoordinatorHome& home, const rendezvous::Host& known);
  int RoundSize(int ready) const;
  void Fail(int number, const std::string& what);

  const Scenario& scenario_;
  const Environment* env_;
  const Cluster* cluster_;
  Invariants* invariants_;
  std::map<RoundKey, RoundRecord> rounds_;
  std::map<int, HomeRecord> homes_;
  std::map<std::string, std::set<RoundKey>> failed_rounds_;  // by the host whose workers failed in them
  std::set<std::string> verdicts_;                           // their reasons
};

}  // namespace muster::simulation
