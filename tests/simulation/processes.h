// What a simulated cluster consists of: machines with their own clocks, the processes on them (hosts, agents, the
// coordinator inside the primary's agent, workers) and the connections between them.
//
// These are records. They have no behaviour but their clocks and the way of an event into a core; the parts of the
// world act on them. All of them live until the world ends (cluster.h), so plain pointers are safe in scheduled
// actions.
#pragma once

#include <csignal>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/host/core/host_core.h"
#include "agent/process/core/agent_core.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/port_retry.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/scheduler.h"

namespace muster::simulation {

struct AgentProcess;

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
  int island = 0;                    // machines of different islands do not reach each other
  Machine* name_leads_to = nullptr;  // target of the coordinator's name; nullptr: the right one
  enum class Streams { kRefused, kReset, kHang } streams = Streams::kRefused;  // the fate of its streams,
  Micros refused_until = 0;                                                    // until then
  Micros stale_until = 0;  // until then its name server returns an outdated address
  Micros stepped_at = -1;  // last step of its wall clock
  int64_t next_pid = 100;
  Micros port_taken_until = 0;        // another program has the coordinator's port until then
  AgentProcess* candidate = nullptr;  // listens there, and has not been reached
  Micros served_at = 0;               // when a coordinator was last seen to listen there

  // Its clocks, at a moment of the world, and the first moment at which its boot clock shows `boot`.
  BootTime BootAt(Micros now) const;
  absl::Time WallAt(Micros now) const;
  Micros TimeOfBoot(BootTime boot) const;
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
  std::function<void()> on_tick;        // set by its shell
  std::function<void()> on_freeze;      // set by its shell, or empty

  bool runs() const { return alive && started && frozen == 0; }
};

struct HostProcess;
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
  bool mute = false;             // shows no sign of life, whatever it does
  bool hangs = false;            // its round does: it never ends by itself
  bool is_reason = false;        // for that
  bool told_to_stop = false;     // it got a stop signal while it lived
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
  bool refused = false;    // by the newest directive, be it until the next job begins here
};

// A coordinator and the process that it lives in.
struct CoordinatorHome {
  CoordinatorHome(Process* process, HostProcess* primary, rendezvous::CoordinatorOptions options, BootTime now,
                  uint64_t entropy)
      : owner(process), host(primary), core(std::move(options), now, entropy) {}
  Process* owner;
  HostProcess* host;  // the owner's host; nullptr: a separate coordinator
  int id = 0;
  Micros born = 0;
  bool listens = true;  // new connections reach it
  rendezvous::Coordinator core;
  std::optional<rendezvous::CoordinatorDriver> driver;  // of the core, as in the process
  std::map<rendezvous::StreamId, Session*> sessions;
  rendezvous::StreamId next_stream = 1;
  int ticks = 0;
  Micros releasing_since = -1;        // latecomers get the verdict; only the primary waits for them
  std::function<void()> after_event;  // set by its shell

  // Whether a node other than the primary's is connected.
  bool ServesOthers() const;
  // What people do, as in Scenario.
  void Tick(bool people_ask, bool people_order) {
    constexpr int kAskEvery = 3, kOrderEvery = 40, kLastOrder = 400;  // ticks
    Feed(&rendezvous::Coordinator::OnTick);
    ++ticks;
    if (people_ask && ticks % kAskEvery == 0) Feed(&rendezvous::Coordinator::OnStacksWanted);
    if (people_order && ticks % kOrderEvery == 0 && ticks <= kLastOrder) GiveOrder(ticks / kOrderEvery);
  }
  // Each fourth one is a restart; each comes twice.
  void GiveOrder(int number) {
    v1::Order order;
    order.set_id(absl::StrCat(number));
    order.set_by("root@gpu-1");
    *order.mutable_epoch() = core.epoch();
    order.set_kind(number % 4 == 0 ? v1::Order::KIND_RESTART : v1::Order::KIND_SIGNAL);
    order.set_signal(SIGUSR1);
    for (int i = 0; i < 2; ++i) Feed(&rendezvous::Coordinator::OnOrder, order);
  }
  // Passes an event to the core.
  template <typename Event, typename... Payload>
  void Feed(Event event, const Payload&... payload) {
    if (!owner->alive) return;
    driver->Feed(event, payload...);
    after_event();
  }
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
  // Its contact with the coordinator, for the checks.
  struct Contact {
    Micros connected_at = 0;
    std::deque<Micros> attempts;                      // recent attempts to connect since then
    Micros answered_at = 0;                           // arrival of the newest directive
    Micros answered_for = 0;                          // sending time of the status that it answers
    std::deque<std::pair<uint64_t, Micros>> sent_up;  // unanswered statuses, by seq
  } contact;
  std::function<void()> after_event;  // set by its shell

  template <typename Event, typename... Payload>
  void Feed(Event event, const Payload&... payload) {
    if (!alive) return;
    driver->Feed(event, payload...);
    if (alive) after_event();
  }
  // Ends this attempt to connect, or the connection that came of it, unless a later attempt has begun.
  void LoseConnection(uint64_t of_attempt, const std::string& why, int refused_code = 0);
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
  Micros born = 0;
  AgentProcess* agent = nullptr;  // the newest
  bool link_open = false;
  bool keeps_port = false;  // an agent of it has listened, with a socket that is the host's, too
  std::deque<Micros> agent_starts;
  std::vector<WorkerProcess*> workers;      // of the newest round
  std::vector<WorkerProcess*> descendants;  // of any round
  v1::Memory memory;                        // as last stored by its agent
  std::optional<host::Finish> finish;
  // Work of its shell that is under way.
  struct Shell {
    bool sweeping = false;
    Micros next_sweep_report = 0;
    bool out_of_time = false;  // it has reported the end of the current stop's grace
    uint64_t timer_generation = 0;
    bool preflight_runs = false;
    uint64_t preflights = 0;  // started, of setups and preflights
    bool is_set_up = false;
    uint64_t preloaders = 0;  // started and stopped
    bool is_preloaded = false;
    int signs = 0;  // looks that found a sign of life of the round's workers
    std::deque<std::pair<WorkerProcess*, host::Ending>> unreaped;
  } shell;
  // What faults, the platform and coordinators have done to it.
  struct Fate {
    bool killed = false;  // by a fault, the timer or its agent
    bool asked_to_leave = false;
    bool asked_to_cancel = false;
    bool noticed = false;            // its machine announces its end
    bool zombie = false;             // replaced while it lives, cut off
    bool released = false;           // by a coordinator
    bool refused = false;            // by a coordinator, too
    bool refused_elsewhere = false;  // by another job's coordinator, before it followed its own
    bool gave_up_port = false;       // another process held it too long; the platform restarts the host
    int agents_struck = 0;           // agents that faults killed or kept from starting
    int start_fails = 0;             // number of next spawns that fail
  } fate;
  // Its contact with coordinators, for the checks.
  struct Contact {
    Micros last_directive = -1;       // when a directive last reached one of its agents
    Micros silence_before_exit = -1;  // without a directive, when its agent ordered the exit
    Micros answered_at = -1;          // when the newest directive of a coordinator reached it,
    Micros answered_since = -1;       // since when they have come without a gap,
    Micros answered_for = -1;         // and when the status that it answers was sent
    RoundKey lease_ended_in;          // the newest round that ended so
    bool stopped_itself = false;      // as its newest status says: its worker failed, or its lease ended
    int heard_by = 0;  // the coordinator that processed its newest status, if that acknowledged the verdict
    Micros last_status_at = -1;  // when a coordinator processed it
  } contact;
  bool end_is_proved = true;       // in a container of its own: its agent sees its end
  std::function<void()> on_death;  // set by the platform
  // Set by its sidecar; empty: it has none.
  std::function<void(AgentProcess*)> on_agent_end;
  std::function<void(AgentProcess*)> on_link_end;
  std::function<void()> on_container_end;

  const std::string& id() const { return options.host_id; }
  bool split() const { return options.config.split(); }  // its agents come from a sidecar
  // Whether it or any process that it has started lives.
  bool AnythingAlive() const;
  template <typename Event, typename... Payload>
  void Feed(Event event, const Payload&... payload) {
    if (alive && !finish.has_value()) driver->Feed(event, payload...);
  }
};

}  // namespace muster::simulation
