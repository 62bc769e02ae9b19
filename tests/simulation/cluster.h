// Owns everything that a simulated cluster consists of, from its creation until the world ends, and answers
// questions about the cluster as a whole. Decides and changes nothing.
#pragma once

#include <memory>
#include <vector>

#include "tests/simulation/environment.h"
#include "tests/simulation/processes.h"

namespace muster::simulation {

class Cluster {
 public:
  template <typename T>
  using All = std::vector<std::unique_ptr<T>>;  // in the order of creation; grows while actions run

  explicit Cluster(Environment* env);

  Machine* NewMachine(int place);  // -1: for a separate coordinator
  HostProcess* NewHost(const host::HostOptions& options);
  AgentProcess* NewAgent(HostProcess* host, uint64_t number);
  AloneProcess* NewAlone();
  WorkerProcess* NewWorker();
  CoordinatorHome* NewHome(Process* owner, HostProcess* primary, rendezvous::CoordinatorOptions options);
  Session* NewSession(AgentProcess* agent, CoordinatorHome* home);

  const All<Machine>& machines() const { return machines_; }
  const All<HostProcess>& hosts() const { return hosts_; }
  const All<AgentProcess>& agents() const { return agents_; }
  const All<AloneProcess>& alone() const { return alone_; }
  const All<WorkerProcess>& workers() const { return workers_; }
  const All<CoordinatorHome>& homes() const { return homes_; }

  // A place is a node of the job. The machine is that of its current or last host.
  int place_count() const { return static_cast<int>(places_.size()); }
  HostProcess* HostAt(int place) const { return places_[place].current; }  // nullptr: none alive
  Machine* MachineOf(int place) const { return places_[place].machine; }
  void SetMachine(int place, Machine* machine) { places_[place].machine = machine; }
  void SetHost(int place, HostProcess* host) { places_[place].current = host; }

  // The machine to which the coordinator's name leads: a separate coordinator's, if there is one.
  Machine* NamedMachine() const { return separate_ != nullptr ? separate_ : places_[0].machine; }
  void LeadNameTo(Machine* separate) { separate_ = separate; }
  CoordinatorHome* HomeOn(const Machine* machine) const;  // nullptr: none listens
  // The host that keeps the coordinator's port there, whether or not it has an agent; nullptr: none.
  const HostProcess* PortKeeperOn(const Machine* machine) const;
  // The agent that listens there and serves once it is reached; nullptr: none.
  AgentProcess* CandidateOn(const Machine* machine) const;
  CoordinatorHome* CurrentHome() const { return HomeOn(NamedMachine()); }

  bool VerdictIsKnown() const;
  bool LeaseRuns(const HostProcess& host) const;  // by its own clock
  Micros wall_clock_set_at() const;               // of any machine, the last time; -1: never

 private:
  struct Place {
    HostProcess* current = nullptr;
    Machine* machine = nullptr;
  };

  Environment* env_;
  std::vector<Place> places_;
  Machine* separate_ = nullptr;
  All<Machine> machines_;
  All<HostProcess> hosts_;
  All<AgentProcess> agents_;
  All<AloneProcess> alone_;  // one life each
  All<WorkerProcess> workers_;
  All<CoordinatorHome> homes_;
  All<Session> sessions_;
};

}  // namespace muster::simulation
