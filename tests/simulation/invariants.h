// What must always hold, checked at each event against the state of the whole world:
//
//  1. In a round the ranks are 0..world-1, each held once; all members get the same size and master endpoint.
//  2. No worker executes while one of another round does; a host starts a round at most once.
//  3. Round ids never repeat; numbers and counts only grow, the counts within their budgets.
//  4. All nodes store and exit with the same verdict, and it is 0 only if every worker of one round exited 0 by
//     itself. No round starts once a coordinator knows that every node of the round before succeeded, or while
//     one of them may still report that within its lease. A coordinator concludes 0 only of the newest round
//     that it knows, never of one that a later round has replaced. A round is not drained for absent nodes
//     while all others are done. No node is taken for lost that may return within its lease.
//  5. Once faults have ended the job reaches a verdict in bounded time; no node exits before it without a
//     reason. Strangers and nodes that cannot start are refused alone: they end no job that has had a round. A
//     node that has followed its job's coordinator does not end because another job's coordinator refuses it.
//  6. The death of an agent, or of a coordinator that is soon back, ends no worker.
//  7. A training whose wrapper ended after our signal is not killed during the grace.
// 12. A host that has run nothing and was started after the verdict is not given it, if the run id may be the next
//     job's.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/core/host_core.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/coordinator.h"
#include "tests/simulation/scenario.h"

namespace muster::simulation {

inline constexpr uint64_t kStrangersEpoch = 1'000'000;  // beyond any epoch of the job

struct AgentProcess;
struct CoordinatorHome;
struct HostProcess;
struct WorkerProcess;
class Cluster;
class Environment;

// A round's id, ordered as the protocol orders it.
struct RoundKey {
  uint64_t number = 0;
  uint64_t epoch_number = 0;
  uint64_t epoch_random = 0;
  auto operator<=>(const RoundKey&) const = default;
};
RoundKey KeyOf(const v1::RoundId& id);
std::string ToString(const RoundKey& key);
// A failed worker's report of itself.
std::string WordsOf(const RoundKey& round, int rank);

class Invariants {
 public:
  Invariants(const Scenario& scenario, Environment* env, const Cluster* cluster)
      : scenario_(scenario), env_(env), cluster_(cluster) {}

  // arrives: false if the stream is closed at the other end.
  void OnDirectiveSent(const CoordinatorHome& home, const HostProcess& to, const v1::Directive& directive,
                       bool arrives = true);
  void OnStatusHeard(const CoordinatorHome& home, const v1::AgentStatus& status);  // before the coordinator acts
  // The coordinator takes a member of its newest round for lost.
  void OnNodeLost(const CoordinatorHome& home, int node_rank);
  // The coordinator's reaction to a stranger: a refusal with its reason, and nothing else.
  void OnStranger(const CoordinatorHome& home, rendezvous::State before, rendezvous::StreamId stream,
                  const rendezvous::Effects& effects);
  void OnSpawn(const HostProcess& host, const v1::Round& round);
  void OnExec(const WorkerProcess& worker);
  void OnDeath(const WorkerProcess& worker, const host::Ending& ending, bool by_itself);
  void OnExempt(const WorkerProcess& worker);  // it executes on, but counts as ended
  // A rank of the round is to end because the round hangs. It counts as failed, also if nothing can end the rank.
  void OnSentence(const RoundKey& round);
  void OnFailureWithoutExit(const WorkerProcess& worker, int exit_code);
  void OnSignal(const HostProcess& host, int signal);
  void OnSparedKilled(const WorkerProcess& training);
  void OnVerdictStored(const HostProcess& host, const v1::Verdict& verdict);
  void OnFinish(const HostProcess& host, const host::Finish& finish);
  void OnHostDeath(const HostProcess& host);  // of a host that was not replaced before
  bool Knows(const v1::RoundId& id) const { return rounds_.count(KeyOf(id)) > 0; }
  void OnSettled();     // every host has ended
  void OnNotSettled();  // the bound of the second phase has passed

  // number: in the list above; 0: an error of the simulation itself.
  void Fail(int number, const std::string& what);
  bool violated() const { return !message_.empty(); }
  const std::string& message() const { return message_; }
  // -1: none seen.
  int verdict_code() const { return verdict_seen_ ? verdict_->code : -1; }
  size_t rounds() const { return rounds_.size(); }
  bool verdict_announced() const { return verdict_announced_; }

 private:
  struct RoundRecord {
    int world_size = 0;
    int node_count = 0;
    std::string master;
    int restart_count = 0;
    int failures = 0;
    int losses = 0;
    std::map<int, std::string> host_by_node_rank;
    std::map<int, std::string> host_by_rank;
    std::set<int> ok_ranks;  // exited 0 by themselves
    bool failed = false;     // a worker failed, or did not start
  };
  struct HostRecord {
    std::set<RoundKey> spawned;
    RoundKey greatest_spawned;
    RoundKey greatest_told;
    int restart_count = 0;
    int failures = 0;
  };
  struct CoordinatorRecord {
    uint64_t epoch_number = 0;
    uint64_t epoch_random = 0;
    RoundKey greatest;
    bool announced = false;  // the verdict
    Micros announced_at = 0;
    bool released = false;
    // Results that this coordinator has heard from the nodes of its newest known round.
    void Know(const RoundKey& round);
    RoundKey newest_known;
    std::set<int> succeeded;  // node ranks
    std::set<int> ended_otherwise;
    bool heard_a_verdict = false;  // of another coordinator
    bool lost_a_member = false;    // of that round
    RoundKey drained;
  };

  void CheckRun(const CoordinatorHome& home, const HostProcess& to, const v1::Round& round, bool arrives);
  bool KnowsOfSuccess(const CoordinatorRecord& coordinator) const;
  const HostProcess* SucceededUnheard(const CoordinatorHome& home, const CoordinatorRecord& coordinator) const;
  void CheckDrain(const CoordinatorHome& home, const v1::RoundId& round);
  bool MayReturn(const CoordinatorHome& home, const HostProcess& member) const;
  void CheckNewRound(const CoordinatorHome& home, const RoundKey& key);
  void CheckConcludedSuccess(const CoordinatorHome& home);
  void CheckRanks(const RoundKey& key, RoundRecord& record, const HostProcess& to, const v1::Round& round);
  void CheckCounts(const RoundKey& key, const RoundRecord& record, HostRecord& host, const HostProcess& to);
  void CountEnd(const WorkerProcess& worker);
  void LookWhetherRunAgain(const CoordinatorHome& home);
  void CheckWords(const std::string& where, const v1::Verdict& verdict);
  void CheckVerdictTold(const CoordinatorHome& home, const v1::Verdict& verdict, bool is_new);
  void CheckSameVerdict(const std::string& where, const std::string& by, const v1::Verdict& verdict);
  void CheckRelease(const CoordinatorHome& home);
  void CheckRefusal(const CoordinatorHome& home, const HostProcess& to, const v1::Refused& refused);
  void CheckIsOfThisJob(const CoordinatorHome& home, const HostProcess& to);
  bool MayGoOnWithoutANode() const;
  bool OnlyItsAgentKnows(const HostProcess& host) const;
  bool TwoHaveTheNumberOf(const RoundKey& round) const;
  void BeginAgain();
  void RunAgain(const std::set<std::string>& know);  // who knows the verdict that no longer counts
  bool MayBeRefused(const CoordinatorHome& home, const HostProcess& host) const;
  void CheckCannotStart(const CoordinatorHome& home);
  void CheckSuccess(const std::string& where);
  void CheckExitWithoutVerdict(const HostProcess& host, const host::Finish& finish, const std::string& who);

  const Scenario& scenario_;
  Environment* env_;
  const Cluster* cluster_;
  std::string message_;
  std::map<RoundKey, RoundRecord> rounds_;
  std::map<std::string, HostRecord> hosts_;
  std::map<int, CoordinatorRecord> coordinators_;
  std::map<RoundKey, int> executing_;  // workers by round, all machines
  std::set<int> failure_codes_;
  bool hung_ = false;    // some round was ended for a hang
  bool forgot_ = false;  // a coordinator restarted without any memory of earlier rounds
  bool verdict_announced_ = false;
  Micros announced_at_ = 0;
  const HostProcess* announced_by_ = nullptr;  // also null for a separate coordinator
  bool verdict_seen_ = false;                  // a host has exited with it
  // The first verdict that a host has stored or exited with.
  struct Verdict {
    int code = 0;
    std::string origin;
    std::string by;
  };
  std::optional<Verdict> verdict_;
  bool earlier_verdict_seen_ = false;
  bool died_knowing_ = false;  // a host that knew the verdict was ended or asked to leave before it exited with it
  std::set<std::string> know_an_earlier_verdict_;  // cut off from the coordinator that ran the job again
};

}  // namespace muster::simulation
