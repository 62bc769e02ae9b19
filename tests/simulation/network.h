// The network between agents and the coordinator: connections delay, stall while a path is cut, close with or
// without notice to the other end, and in some worlds lose, repeat and reorder whole documents.
#pragma once

#include <vector>

#include "tests/simulation/detours.h"

namespace muster::simulation {

class Network {
 public:
  Network(Environment* env, Cluster* cluster, Execution* execution, Checks* checks)
      : scenario_(env->scenario()),
        env_(env),
        cluster_(cluster),
        execution_(execution),
        checks_(checks),
        detours_(env, execution) {}

  void Connect(AgentProcess* agent);
  void SendUp(Session* session, const v1::AgentStatus& status);
  void SendDown(Session* session, const v1::Directive& directive);
  void CloseAgentEnd(Session* session);        // by the agent or its death
  void CloseCoordinatorEnd(Session* session);  // by the coordinator or its death
  void CloseAllOf(const AgentProcess& agent);
  void CloseAllOf(const CoordinatorHome& home);

  void ResetSession(AgentProcess* agent);
  void CloseAtCoordinatorOnly(AgentProcess* agent);  // a proxy or NAT in between closed the connection
  void Cut(Machine* machine, bool out, bool in, Micros for_how_long);
  void Mend(Machine* machine);  // ends all cuts
  void MendAll();
  void MoveTo(int island, const std::vector<Machine*>& machines);  // 0: the mainland
  void PathsChanged();                                             // a machine was cut off, mended, or lost power

 private:
  bool Blocked(const Machine& from, const Machine& to) const;
  bool PortIsHeldFor(AgentProcess* agent, Machine* target);
  void Reach(AgentProcess* agent, uint64_t attempt, Machine* target, Micros delay);
  void Accept(AgentProcess* agent, uint64_t attempt, CoordinatorHome* home);
  void ArriveAtCoordinator(Session* session, const v1::AgentStatus& status);
  void ArriveAtAgent(Session* session, const v1::Directive& directive);
  void Transmit(Session* session, bool up, Scheduler::Action action, bool document);
  void CloseArrivesAtCoordinator(Session* session);
  void CloseArrivesAtAgent(Session* session, const char* why);
  void TransportTimer(Session* session, Micros blocked_since);

  const Scenario& scenario_;
  Environment* env_;
  Cluster* cluster_;
  Execution* execution_;
  Checks* checks_;
  Detours detours_;
  std::vector<Session*> open_sessions_;
};

}  // namespace muster::simulation
