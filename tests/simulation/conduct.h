// How the parts of a job behave towards each other, checked against the state of the whole world. The numbers
// continue the list in invariants.h.
//
//  9. Every wait ends within its time limit: the watch for silence, a start, a stop, a mute connection, an
//     agent that outlives its host, a round that a member does not start, a place whose holder is dead, a
//     series of unanswered connections. A failure is dated as its worker has written it down. The limits are
//     the constants of the cores, by the clock with the largest error, plus a slack for ticks and messages; a
//     process that was stopped meanwhile is exempt.
// 10. An answered node keeps its lease or gets a STOP; a member that cannot continue ends its round at once;
//     the primary's node ends last; no round starts after a Ctrl-C was received; no budget counts as spent too
//     early.
// 11. The workers of a node that leaves have the time that its log promises, which is that of its options unless
//     the node had begun to stop them by itself. Only a second request or the end of the lease takes it, and the
//     log says so. The lease of a node that is answered ends only if its coordinator misses another member.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/core/note.h"
#include "muster/v1/rendezvous.pb.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/scenario.h"

namespace muster::simulation {

struct Process;
struct Session;

class Conduct {
 public:
  Conduct(const Scenario& scenario, Environment* env, const Cluster* cluster, Invariants* invariants)
      : scenario_(scenario), env_(env), cluster_(cluster), invariants_(invariants) {}

  // Time.
  void OnFreeze(const Process& process);
  void OnSpawn(HostProcess* host);
  void OnSignal(HostProcess* host);  // its stop sequence may have begun
  void OnSwept(AgentProcess* agent);
  void OnLine(const HostProcess& host, const Note& note);  // of its log
  void AfterAgentTick(const AgentProcess& agent);

  // Leases. sent: the time at which this host's agent sent the status that the newest directive answers.
  void OnAnswer(HostProcess* host, Micros sent);
  void OnLeaseEnded(const HostProcess& host);
  void OnDirectiveSent(const Session& session, const v1::Directive& directive);

  // Connections and failures.
  void OnConnect(AgentProcess* agent);
  void OnHostStatus(const HostProcess& host, const v1::HostStatus& status);
  void OnFailureTold(const HostProcess& host, const v1::AgentStatus& status);

  // The end.
  void OnStatus(const Session& session, const v1::AgentStatus& status);
  void AfterStatus(const Session& session, const v1::AgentStatus& status);
  void OnVerdict(const CoordinatorHome& home, const v1::Verdict& verdict);
  void OnNewRound(const CoordinatorHome& home, const v1::Round& round);
  void OnFinish(const HostProcess& host, const host::Finish& finish);

 private:
  void CheckSomebodyServes(const AgentProcess& agent);
  void OnPromise(const HostProcess& host, const Note& note);
  bool IsAnswered(const HostProcess& host) const;
  void CheckAt(Micros after, std::function<void()> check);
  void CheckSilentHost(HostProcess* host);
  void CheckSilentAgent(AgentProcess* agent);
  void OnRun(const Session& session, const v1::Round& round);
  void OnHeldPlace(const Session& session, const std::string& holder);
  // A node that stands by for the holder of its place, as seen by one coordinator.
  struct Claim {
    std::string holder;
    Micros told_at = -1;
    Micros proof_since = -1;  // it is on the holder's machine, where nothing of the holder lives
  };
  void CheckProof(const Session& session, const HostProcess& holder, Claim* claim);
  void Fail(int number, const std::string& what) { invariants_->Fail(number, what); }

  const Scenario& scenario_;
  Environment* env_;
  const Cluster* cluster_;
  Invariants* invariants_;
  bool verdict_told_ = false;
  int losses_ = 0;                                         // the most that any RUN has listed
  std::set<int> cancelled_;                                // coordinators that have received a Ctrl-C
  std::map<std::string, RoundKey> succeeded_;              // by host: its newest round reported as succeeded
  std::map<int, std::map<std::string, Micros>> attended_;  // by coordinator: when it heard from each host
  std::map<std::string, Micros> missed_one_at_;            // by host: when its coordinator last missed a member
  std::map<std::pair<int, std::string>, Claim> claims_;    // by coordinator and node
  std::set<std::string> lease_ended_;                      // hosts that have stopped their workers for it
  std::map<std::string, BootTime> promised_;               // by host that leaves: no SIGKILL before
  std::set<std::tuple<int, std::string, RoundKey>> told_;  // the first RUN of a round to a node
};

}  // namespace muster::simulation
