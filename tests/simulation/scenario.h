// Everything that a seed decides before the world begins: the job's shape, its settings, the network's and the
// workers' habits, and the mix of faults.
#pragma once

#include <array>
#include <string>

#include "tests/simulation/prng.h"

namespace muster::simulation {

enum class Fault {
  kWorkerFails,
  kFreezeWorker,
  kStuckWorker,
  kKillAgent,
  kFreezeAgent,
  kKillHost,
  kFreezeHost,
  kFreezeBoth,
  kKillBoth,
  kKillCoordinator,
  kFreezeCoordinator,
  kKillNode,
  kIsolateAndReplace,
  kLeave,
  kLeaveTwice,
  kCancel,
  kCutOut,
  kCutIn,
  kCutBoth,
  kReset,
  kResetThenCut,
  kCutStaggered,
  kSwizzle,
  kStartFails,
  kNotice,
  kCount,
};
inline constexpr int kFaultKinds = static_cast<int>(Fault::kCount);
const char* Name(Fault fault);

// Faults in a certain order: scripts.h.
enum class Script {
  kNone,
  kFreezeWholeNode,
  kSendAwayAndBack,
  kMoveCoordinator,
  kFarewellTwice,
  kRunUnheard,
  kSplitNames,
  kLateNewcomer,
  kWakeAfterExit,
  kReturnAtOnce,
  kCutOffTogether,
};

// How members are identified.
enum class Places { kSpec, kByRank, kNone };

// The job's shape: its nodes and how they find each other.
struct JobShape {
  int nodes = 1;
  int observers = 0;
  bool coordinator_alone = false;  // on a machine of its own; no node serves
  int min_nodes = 1;
  int max_nodes = 1;
  int node_unit = 1;
  int slots = 1;
  Places places = Places::kSpec;
  bool run_id_may_repeat = false;   // a node that starts after the verdict belongs to the next job
  bool serves_if_local = false;     // each node finds out whether it is the primary
  bool address_is_nobodys = false;  // then the primary's address leads to node 0, and is no machine's own (NAT)
  bool equal_ranks = false;         // all give rank 0, which is a hint
  int hosts_per_machine = 1;        // neighbouring places that share a machine at first
};

// Restarts, growth and exclusion of nodes, as the options set them.
struct RestartPolicy {
  int max_restarts = 0;
  int max_node_losses = 10;
  int scale_up = 0;  // of v1::NodeConfig::ScaleUp
  int max_membership_changes = 0;
  int exclude_after = 0;
  Micros exclude_for = 20 * kSecond;
  Micros restart_window = 0;  // 0: failures are never forgotten
  Micros restart_delay = 0;
  Micros join_settle = 0;
};

// Time limits, as the options set them.
struct TimeLimits {
  Micros lease = 10 * kSecond;  // 0: a single-node job
  Micros reconnect_grace = 2 * kSecond;
  Micros join_timeout = 60 * kSecond;
  Micros rejoin_timeout = 60 * kSecond;
  Micros last_call = kSecond;
  Micros coordinator_timeout = 60 * kSecond;
  Micros shutdown_grace = 5 * kSecond;
  Micros termination_grace = 5 * kSecond;
};

// How workers start, run, fail and end.
struct WorkerHabits {
  Micros run_time = 5 * kSecond;
  int fails_percent = 0;        // share of workers that fail by themselves during the fault phase
  bool peers_fail_too = false;  // the others of the round see the failure and fail as well
  int term_exits_zero_percent = 50;
  int term_slow_percent = 0;  // end late within or beyond the grace
  int term_ignored_percent = 0;
  Micros exec_delay = 2 * kMillisecond;
  int slow_start_percent = 0;     // share of workers whose exec takes half the limit, or twice it
  Micros progress_within = 0;     // a worker touches the progress file once by then; 0: not watched
  int descendants_percent = 0;    // share of workers that leave a process in its own session
  int wrappers_percent = 0;       // share of workers that are a shell around the training
  int told_failures_percent = 0;  // share of failures by OOM, or dated earlier by the worker
  int early_words_percent = 0;    // share of exit-code failures with an error file before the end
  int late_forks_percent = 0;     // share of swept processes that forked just before
};

// Rounds that show no sign of life for a time.
struct HangHabits {
  Micros timeout = 0;      // --hang-timeout; 0: off
  bool stops_job = false;  // --on-hang stop, else restart
  int mute_percent = 0;    // share of the workers that never show a sign
  int percent = 0;         // share of the rounds of the fault phase that hang once they are warm
  int phases_percent = 0;  // share of the rounds with a silent phase of up to 0.8 of the timeout
};

// What a node checks between rounds.
struct FitnessChecks {
  Micros preflight_timeout = 0;     // 0: there is no preflight
  bool has_setup = false;           // which takes and fails as the preflight does
  Micros preflight_time = kSecond;  // the longest preflight
  int preflight_fails_percent = 0;  // share of its runs, during the fault phase
  int preflight_hangs_percent = 0;
  Micros gpu_release_timeout = 0;  // 0: GPUs are not checked
  bool driver_pids = false;
  int gpus_held_percent = 0;      // share of the checks, during the fault phase
  Micros preload_time = 0;        // the longest import of --preload; 0: nothing is preloaded
  bool preload_learns = false;    // which modules these are
  int preload_fails_percent = 0;  // share of its imports and of the rounds that it forks, during the fault phase
};

// Troubles of single nodes during the fault phase.
struct NodeTroubles {
  Micros slow_agents = 0;       // longest start of an agent; 0: a moment
  int agent_fails_percent = 0;  // share of agents that cannot be started
  int no_port_percent = 0;      // share of the ports to reserve for the workers
  int not_swept_percent = 0;    // share of dead hosts whose agents cannot prove that all has ended
};

// Nodes whose hosts and agents are in two containers.
struct SidecarHabits {
  bool used = false;          // by all nodes
  Micros returns_within = 0;  // from an agent's end to the next one
  int unproved_percent = 0;   // share of the hosts whose end no agent can see
  Micros second_every = 0;    // another sidecar comes to a host; 0: never
};

// Nodes that should not come.
struct UnwelcomeNodes {
  int cannot_start_percent = 0;  // no program: replacements in the fault phase; a fifth for first hosts
  Micros strangers_every = 0;    // a node of another job or version contacts the coordinator; 0: never
};

// The way to the coordinator.
struct WrongTargets {
  int another_job_percent = 0;      // share of connections in the fault phase that reach another job
  int refused_streams_percent = 0;  // share of connections whose stream a server or proxy refuses or resets
  int stale_names_percent = 0;      // share of look-ups that return an outdated address
  Micros name_lookup = 0;           // longest look-up of the primary's name; 0: none needed
};

// A coordinator with more hosts than this decides once for many statuses, after this delay per host.
struct Deferral {
  int many_hosts = 0;  // 0: as in production
  Micros decision_spacing = 0;
};

// The nodes' deadline by their wall clocks, and how long before it they leave.
struct Deadline {
  Micros at = 0;  // 0: there is none
  Micros stop_before = 0;
};

struct ScriptSettings {
  Script kind = Script::kNone;
  int late_place = -1;      // joins when the script says; -1: none
  int portless_place = -1;  // place without a free port; -1: none
};

struct ClockErrors {
  int64_t drift_ppm = 0;  // largest error of each machine's clock rate
  bool worst = false;     // the coordinator's clock is the fastest, all others the slowest
  Micros wall_skew = 0;   // largest offset of each machine's wall clock
  Micros wall_steps = 0;  // largest step of a wall clock
};

struct NetworkHabits {
  Micros delay = kMillisecond;  // mean, one way
  int drop_percent = 0;         // share of documents
  int repeat_percent = 0;
  int reorder_percent = 0;
  bool close_is_echoed = false;  // the shell also reports streams that the coordinator closed

  bool lossy() const { return drop_percent + repeat_percent + reorder_percent > 0; }
};

// The faults: how many, which, and how long they last.
struct FaultMix {
  Micros late_start = 0;  // machines come up within this time
  Micros phase = 10 * kSecond;
  Micros gap = kSecond;  // mean between two
  std::array<int, kFaultKinds> weight{};
  int host_is_primary_percent = 0;            // share of the hosts that are killed
  bool spare_the_primary = false;             // random faults on hosts spare the primary
  int kill_coordinator_at_round_percent = 0;  // share of rounds that grow; a quarter of it for others
  int cut_off_at_round_percent = 0;           // share of those in which another member is cut off too
  int kill_coordinator_in_drain_percent = 0;
  int kill_node_in_drain_percent = 0;
  int trouble_at_verdict_percent = 0;
  Micros outage_low = 100 * kMillisecond;  // how long freezes and cuts last
  Micros outage_high = 30 * kSecond;
  Micros replace_low = 100 * kMillisecond;
  Micros replace_high = 10 * kSecond;
  // Only deaths of agents: no worker may be disturbed at all (invariant 6).
  bool only_agents_die = false;

  int total_weight() const {
    int total = 0;
    for (int w : weight) total += w;
    return total;
  }
};

struct Scenario {
  uint64_t seed = 0;
  std::string mix;  // of faults, for people

  JobShape job;
  RestartPolicy policy;
  TimeLimits limits;
  WorkerHabits workers;
  HangHabits hangs;
  FitnessChecks fitness;
  NodeTroubles troubles;
  SidecarHabits sidecars;
  UnwelcomeNodes unwelcome;
  WrongTargets detours;
  Deferral deferral;
  Deadline deadline;
  ScriptSettings script;
  ClockErrors clocks;
  NetworkHabits network;
  FaultMix faults;
  bool people_ask = false;    // again and again, where the workers stand
  bool people_order = false;  // signals to all workers, and a few restarts

  // No fault of processes and network except by the weights.
  bool quiet_but_for_weights() const {
    return faults.kill_coordinator_at_round_percent + faults.cut_off_at_round_percent +
               faults.kill_coordinator_in_drain_percent + faults.kill_node_in_drain_percent +
               faults.trouble_at_verdict_percent + network.drop_percent ==
           0;
  }
};

Scenario DrawScenario(uint64_t seed);
std::string Describe(const Scenario& scenario);

}  // namespace muster::simulation
