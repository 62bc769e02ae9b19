// A whole cluster in virtual time: machines with their own clocks, the processes on them (hosts, agents, the
// coordinator inside the primary's agent, workers), the links between them, and the platform that replaces lost
// hosts.
//
// The world plays the shells: it executes the cores' effects and delivers the answers, and decides nothing. All
// objects live until the world ends, so plain pointers are safe in scheduled actions.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/agent_core.h"
#include "agent/host/core/host_core.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/port_retry.h"
#include "tests/simulation/conduct.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/policies.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

namespace muster::simulation {

struct Machine {
  int id = 0;
  int place = 0;           // index of the place that it was created for
  Micros boot_offset = 0;  // its boot clock when the world began
  int64_t drift_ppm = 0;
  Micros wall_skew = 0;
  std::string address;
  std::string boot_id;
  bool up = true;
  int cut_out = 0;  // >0: nothing from here reaches the network
  int cut_in = 0;
  Machine* name_leads_to = nullptr;  // target of the coordinator's name; nullptr: the right one
  enum class Streams { kRefused, kReset, kHang } streams = Streams::kRefused;  // the fate of its streams,
  Micros refused_until = 0;                                                    // until then
  Micros stale_until = 0;  // until then its name server returns an outdated address
  Micros stepped_at = -1;  // last step of its wall clock
  int64_t next_pid = 100;
  Micros port_taken_until = 0;  // another program has the coordinator's port until then
};

struct Process {
  virtual ~Process() = default;
  Machine* machine = nullptr;
  int64_t pid = 0;
  std::string name;
  bool alive = true;
  bool started = true;  // false: spawned, not yet running
  int frozen = 0;       // holds; >0: stopped
  Micros frozen_since = 0;
  Micros runs_since = 0;  // running without a stop since then
  bool tick_missed = false;
  std::deque<Scheduler::Action> inbox;  // deferred events of a stopped process

  bool runs() const { return alive && started && frozen == 0; }
};

struct HostProcess;
struct AgentProcess;
struct CoordinatorHome;

struct WorkerProcess {
  HostProcess* host = nullptr;
  RoundKey round;
  int local_rank = 0;
  int rank = 0;
  int world_size = 0;
  int64_t pid = 0;
  bool executing = false;
  bool dead = false;
  Micros spawned_at = 0;
  bool succeeded = false;  // exited 0 by itself
  // An error file that the worker wrote before its end.
  struct Word {
    Micros at = -1;      // -1: none
    int64_t second = 0;  // of the wall clock
    Micros latest = 0;   // latest time that the host can derive from it
    absl::Time written;
  } word;
  bool signalled = false;  // our stop sequence has begun
  bool kill_pending = false;
  bool exempt = false;  // from invariant 2: SIGKILL is pending, so it counts as ended
  int frozen = 0;
  int stuck = 0;                               // holds by the kernel (D state); >0: not even SIGKILL ends it
  std::optional<host::Ending> pending_ending;  // of a frozen or stuck process
  bool pending_exec = false;
  // Parent of a descendant. A descendant has its own session and no parent-death signal, so it ends by itself or
  // by a sweep.
  WorkerProcess* parent = nullptr;
  // Training that a wrapper runs as a child in its session. SIGTERM ends the wrapper at once.
  WorkerProcess* training = nullptr;
  int stop_signal = 0;           // the stop signal that it got while it lived
  bool training_spared = false;  // the wrapper has ended and the host waits for the training
};

// One connection between an agent and a coordinator. Each way is a FIFO that stalls while its path is cut.
struct Session {
  AgentProcess* agent = nullptr;
  CoordinatorHome* home = nullptr;
  rendezvous::StreamId stream = 0;
  bool agent_open = true;
  bool coordinator_open = true;
  struct Way {
    Micros last_arrival = 0;
    std::deque<Scheduler::Action> stalled;
  } up, down;
  Micros blocked_since = -1;
  Micros first_heard = -1;
  Micros last_heard = -1;  // when the coordinator last processed a status from here
};

// A coordinator and the process that it lives in.
struct CoordinatorHome {
  CoordinatorHome(Process* process, HostProcess* primary, rendezvous::CoordinatorOptions options, BootTime now,
                  uint64_t entropy)
      : owner(process), host(primary), core(std::move(options), now, entropy) {}
  Process* owner;
  HostProcess* host;  // the owner's host; nullptr: a standalone coordinator
  int id = 0;
  Micros born = 0;
  rendezvous::Coordinator core;
  std::optional<rendezvous::CoordinatorDriver> driver;  // of the core, as in the process
  std::map<rendezvous::StreamId, Session*> sessions;
  rendezvous::StreamId next_stream = 1;
  Micros releasing_since = -1;  // latecomers get the verdict; only the primary waits for them
};

struct AgentProcess : Process {
  AgentProcess(HostProcess* h, uint64_t n, uint64_t entropy) : host(h), number(n), core(entropy) {}
  HostProcess* host;
  uint64_t number;
  agent::AgentCore core;
  std::optional<agent::AgentDriver> driver;
  bool link_open = true;    // to the host
  bool has_spoken = false;  // its first directive has reached the host
  bool home_planned = false;
  rendezvous::PortRetry port_retry;
  CoordinatorHome* home = nullptr;
  Session* session = nullptr;  // the current session
  uint64_t attempt = 0;        // number of the current Connect
  bool swept = false;          // has ended what its dead host left
  Micros connected_at = 0;
  std::deque<Micros> attempts;                      // recent attempts to connect since then
  Micros answered_at = 0;                           // arrival of the newest directive
  Micros answered_for = 0;                          // sending time of the status that it answers
  std::deque<std::pair<uint64_t, Micros>> sent_up;  // unanswered statuses, by seq
};

// `muster coordinator`.
struct AloneProcess : Process {
  CoordinatorHome* home = nullptr;
};

struct HostProcess : Process {
  explicit HostProcess(host::HostOptions options) : core(options), options(std::move(options)) {}
  host::HostCore core;
  std::optional<host::HostDriver> driver;
  host::HostOptions options;
  int place = 0;
  AgentProcess* agent = nullptr;  // the newest
  bool link_open = false;
  std::vector<WorkerProcess*> workers;      // of the newest round
  std::vector<WorkerProcess*> descendants;  // of any round
  bool sweeping = false;
  Micros next_sweep_report = 0;
  bool out_of_time = false;  // it has reported the end of the current stop's grace
  uint64_t timer_generation = 0;
  bool preflight_runs = false;
  uint64_t preflights = 0;  // started
  v1::Memory memory;        // as last stored by its agent
  std::optional<host::Finish> finish;
  int start_fails = 0;  // number of next spawns that fail
  std::deque<std::pair<WorkerProcess*, host::Ending>> unreaped;
  bool killed = false;  // by a fault, the timer or its agent
  bool asked_to_leave = false;
  bool noticed = false;  // its machine announces its end
  bool asked_to_cancel = false;
  bool released = false;  // by a coordinator
  bool refused = false;   // by a coordinator, too
  bool zombie = false;    // replaced while it lives, cut off
  Micros born = 0;
  Micros last_directive = -1;  // when a directive last reached one of its agents
  Micros answered_at = -1;     // when the newest directive of a coordinator reached it,
  Micros answered_since = -1;  // since when they have come without a gap,
  Micros answered_for = -1;    // and when the status that it answers was sent
  RoundKey lease_ended_in;     // the newest round that ended so
  int heard_by = 0;  // the coordinator that processed its newest status, if that acknowledged the verdict
  Micros last_status_at = -1;  // when a coordinator processed it
  std::deque<Micros> agent_starts;
  int agents_struck = 0;           // agents that faults killed or kept from starting
  bool refused_elsewhere = false;  // by another job's coordinator, before it followed its own
  bool gave_up_port = false;       // another process held it too long; the platform restarts the host

  const std::string& id() const { return options.host_id; }
};

class World {
 public:
  explicit World(const Scenario& scenario, TakeLine trace = {});  // trace: gets each event, if given
  ~World();

  // Runs to the end: true if every invariant held.
  bool Run();
  const Invariants& invariants() const { return invariants_; }
  uint64_t hash() const { return scheduler_.hash(); }
  uint64_t events() const { return scheduler_.events(); }
  Micros now() const { return scheduler_.now(); }

  // For faults and invariants.
  const Scenario& scenario() const { return scenario_; }
  Scheduler& scheduler() { return scheduler_; }
  Prng& prng() { return prng_; }
  Trace& trace() { return trace_; }
  bool healed() const { return healed_; }
  int place_count() const { return scenario_.job.nodes + scenario_.job.observers; }
  HostProcess* HostAt(int place) const { return places_[place].current; }  // nullptr: none alive
  CoordinatorHome* CurrentHome() const;  // of the holder of the primary's name; nullptr: none
  const std::vector<std::unique_ptr<HostProcess>>& hosts() const { return hosts_; }
  AloneProcess* alone() const;  // nullptr: there is none, or it is dead
  void EndAlone(AloneProcess* alone, bool comes_again);
  bool VerdictIsKnown() const;
  bool LeaseRuns(const HostProcess& host) const;  // by its own clock
  bool Attached(const CoordinatorHome& home, const HostProcess& host) const;
  bool AnythingAlive(const HostProcess& host) const;
  Micros clock_set_at() const { return clock_set_at_; }  // a machine's wall clock, the last time; -1: none

  void KillAgent(AgentProcess* agent);
  void KillHost(HostProcess* host);
  void PowerOff(Machine* machine);  // silently: no packet reports it
  void Freeze(Process* process, Micros for_how_long);
  void FreezeWorker(WorkerProcess* worker, Micros for_how_long);
  void HoldInKernel(WorkerProcess* worker, Micros for_how_long);  // D state
  void FailWorker(WorkerProcess* worker, const host::Ending& ending);
  host::Ending DrawFailure();
  void Cut(Machine* machine, bool out, bool in, Micros for_how_long);
  void Mend(Machine* machine);  // ends all cuts
  // Moves the coordinator's name to a new machine, on which one starts; the old one lives on.
  Machine* MoveCoordinator();
  Machine* StartSecondCoordinator();  // beside the first; the name may lead some nodes to it
  void EndSecondCoordinator(const Machine* machine);
  void LeadNamesHome();
  void MoveCoordinatorTo(Machine* machine);
  void ResetSession(AgentProcess* agent);
  void CloseAtCoordinatorOnly(AgentProcess* agent);  // a proxy or NAT in between closed the connection
  void SignalHost(HostProcess* host, int signal);
  void Notice(AgentProcess* agent);  // its machine announces its end
  // A stranger contacts the coordinator.
  void Knock();
  // The place gets a new host, on the same machine if wanted and possible. The old host, if alive, is a zombie.
  void Replace(int place, bool same_machine);
  void Note(const char* category, const std::string& text);

 private:
  friend class Faults;
  friend class Scripts;
  struct Place {
    HostProcess* current = nullptr;
    Machine* machine = nullptr;
    bool started = false;  // has had a host
    bool ended = false;    // its host ended with the verdict
    bool replacement_planned = false;
  };

  // Time and processes (world.cc).
  BootTime BootNow(const Machine& machine) const;
  Micros WorldTime(const Machine& machine, BootTime t) const;
  void Deliver(Process* process, Scheduler::Action action);
  void DeliverAfter(Micros delay, Process* process, Scheduler::Action action);
  void Continue(Process* process);
  void Drain(Process* process);
  void ScheduleTick(Process* process, Micros delay);
  void Tick(Process* process);
  Machine* NewMachine(int place);
  bool SharesMachine(int place) const;
  void Vacate(int place);
  absl::Time WallNow(const Machine& machine) const;
  void LookAtDeadline(HostProcess* host);
  void TellWallClock(HostProcess* host);
  std::optional<host::StopBefore> StopBefore(const Machine& machine) const;
  HostProcess* StartHost(int place, Machine* machine);
  v1::NodeConfig MakeConfig(int place, const Machine& machine);
  bool DrawCannotStart(int place);
  void AfterHostDeath(HostProcess* host);
  bool ForgetsAZombie(int place) const;
  void PlanReplacement(int place, Micros delay);
  Micros PrimaryMovesAfter() const;
  void EndZombies();
  void Heal();
  bool Settled() const;

  // The host's shell and the workers (host_shell.cc).
  template <typename Event, typename... Payload>
  void OnHost(HostProcess* host, Event event, const Payload&... payload) {
    if (host->alive && !host->finish.has_value()) host->driver->Feed(event, payload...);
  }
  void Drive(HostProcess* host);
  void CarryOut(HostProcess* host, const host::Effect& effect);
  Micros LastOutputDelay();
  void StartAgentProcess(HostProcess* host, uint64_t number);
  void SendToAgent(HostProcess* host, const v1::HostStatus& status);
  void SpawnWorkers(HostProcess* host, const v1::Round& round);
  Micros ExecDelay(WorkerProcess* worker);
  void Exec(WorkerProcess* worker);
  void WriteErrorFile(WorkerProcess* worker, const host::Ending& ending);
  WorkerProcess* NewChild(WorkerProcess* worker);
  void Fork(WorkerProcess* worker);
  void CollectEnded(HostProcess* host);
  void Reap(HostProcess* host, WorkerProcess* worker, const host::Ending& ending);
  void OnTrainingDead(WorkerProcess* wrapper);
  void TouchProgress(WorkerProcess* worker);
  void SignalWorkers(HostProcess* host, int signal);
  void Kill(WorkerProcess* worker, Micros within);
  void KillWorkersOf(HostProcess* host, Micros within);
  void KillSessionsOf(HostProcess* host);
  void KillMarked(HostProcess* host, Micros within);
  void SweepHost(HostProcess* host);
  void SweepPass(HostProcess* host);
  void ForkOnceMore(HostProcess* host);
  void StartPreflight(HostProcess* host);
  void AskGpus(HostProcess* host);
  void LetGo(WorkerProcess* worker);
  void Exempt(WorkerProcess* worker);
  void ExemptOrphans(const HostProcess& host);
  void Die(WorkerProcess* worker, const host::Ending& ending, bool by_itself);
  void SetKernelTimer(HostProcess* host, std::optional<BootTime> at);

  // The agent's shell and the coordinator's (agent_shell.cc).
  template <typename Event, typename... Payload>
  void OnAgent(AgentProcess* agent, Event event, const Payload&... payload) {
    if (!agent->alive) return;
    agent->driver->Feed(event, payload...);
    if (agent->alive) MaybeOpenHome(agent);
  }
  void Drive(AgentProcess* agent);
  void CarryOut(AgentProcess* agent, const agent::Effect& effect);
  template <typename Event, typename... Payload>
  void OnHome(CoordinatorHome* home, Event event, const Payload&... payload) {
    if (!home->owner->alive) return;
    home->driver->Feed(event, payload...);
    NoteRelease(home);
  }
  void Drive(CoordinatorHome* home);
  void CarryOut(CoordinatorHome* home, const rendezvous::Effect& effect);
  void NoteRelease(CoordinatorHome* home);
  void SendDirective(CoordinatorHome* home, Session* session, const v1::Directive& directive);
  Micros LookupTime();
  void EndHost(AgentProcess* agent, bool kill_first);
  void WaitUntilSwept(AgentProcess* agent);
  void ProbePredecessor(AgentProcess* agent, const v1::Predecessor& predecessor);
  void StartAlone(Machine* machine);
  bool ServesOthers(const CoordinatorHome& home) const;
  CoordinatorHome* NewHome(Process* owner, HostProcess* primary, const v1::NodeConfig& config);
  void MaybeOpenHome(AgentProcess* agent);
  void OpenHome(AgentProcess* agent);
  std::optional<rendezvous::PortHolder> HolderOfPort(const AgentProcess& agent) const;
  void ExitAgent(AgentProcess* agent, const std::string& why);
  v1::AgentStatus DrawStranger(const CoordinatorHome& home);

  // The network (network.cc).
  void ConnectAgent(AgentProcess* agent);
  void FailAttempt(AgentProcess* agent, uint64_t attempt, const char* why);
  CoordinatorHome* HomeOn(const Machine* machine) const;
  void Accept(AgentProcess* agent, uint64_t attempt, CoordinatorHome* home);
  // Connections that do not lead to this job's coordinator (detours.cc).
  bool IsLedAstray(AgentProcess* agent, uint64_t attempt, Micros delay);
  void ReachAnotherJob(AgentProcess* agent, uint64_t attempt);
  void RefuseStream(AgentProcess* agent, uint64_t attempt);
  void EndStream(AgentProcess* agent, uint64_t attempt, int code, bool was_open);
  void SendUp(Session* session, const v1::AgentStatus& status);
  void SendDown(Session* session, const v1::Directive& directive);
  void Transmit(Session* session, bool up, Scheduler::Action action, bool document);
  bool Blocked(const Machine& from, const Machine& to) const;
  void CloseAgentEnd(Session* session);        // by the agent or its death
  void CloseCoordinatorEnd(Session* session);  // by the coordinator or its death
  void ArriveAtCoordinator(Session* session, const v1::AgentStatus& status);
  void CloseArrivesAtCoordinator(Session* session);
  void CloseArrivesAtAgent(Session* session, const char* why);
  void PathsChanged();
  void TransportTimer(Session* session, Micros blocked_since);

  const Scenario scenario_;
  Scheduler scheduler_;
  Prng prng_;
  Trace trace_;
  Invariants invariants_;
  Policies policies_;
  Conduct conduct_;
  bool healed_ = false;
  int next_host_ = 0;
  int next_port_ = 20000;
  std::vector<Place> places_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::unique_ptr<HostProcess>> hosts_;
  std::vector<std::unique_ptr<AgentProcess>> agents_;
  std::vector<std::unique_ptr<AloneProcess>> alone_;  // one life each
  Machine* alone_machine_ = nullptr;
  bool alone_is_done_ = false;  // it has ended with the job
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  std::vector<std::unique_ptr<CoordinatorHome>> homes_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<Session*> open_sessions_;
  std::unique_ptr<class Faults> faults_;
  std::unique_ptr<class Scripts> scripts_;
  Micros clock_set_at_ = -1;
  Prng hardships_;  // a stream of its own
};

}  // namespace muster::simulation
