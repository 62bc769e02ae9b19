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
};

// How members are named.
enum class Places { kSpec, kByRank, kNone };

struct Scenario {
  uint64_t seed = 0;
  std::string mix;  // of faults, for people

  // The job.
  int nodes = 1;
  int observers = 0;
  bool coordinator_alone = false;  // on a machine of its own; no node serves
  int min_nodes = 1;
  int max_nodes = 1;
  int slots = 1;
  Places places = Places::kSpec;
  int max_restarts = 0;
  int max_node_losses = 10;
  int node_unit = 1;
  int scale_up = 0;  // of v1::NodeConfig::ScaleUp
  int max_membership_changes = 0;
  int exclude_after = 0;
  Micros restart_window = 0;  // 0: failures are never forgotten
  Micros restart_delay = 0;
  Micros join_settle = 0;
  Micros exclude_for = 20 * kSecond;

  Micros lease = 10 * kSecond;  // 0: a single-node job
  Micros reconnect_grace = 2 * kSecond;
  Micros join_timeout = 60 * kSecond;
  Micros rejoin_timeout = 60 * kSecond;
  Micros last_call = kSecond;
  Micros coordinator_timeout = 60 * kSecond;
  Micros shutdown_grace = 5 * kSecond;
  Micros termination_grace = 5 * kSecond;

  // The workers.
  Micros run_time = 5 * kSecond;
  int fails_percent = 0;        // of workers that fail by themselves during the fault phase
  bool peers_fail_too = false;  // the others of the round see the failure and fail as well
  int term_exits_zero_percent = 50;
  int term_slow_percent = 0;  // end late within or beyond the grace
  int term_ignored_percent = 0;
  Micros exec_delay = 2 * kMillisecond;
  int slow_start_percent = 0;   // of workers whose exec takes half the limit, or twice it
  Micros progress_within = 0;   // a worker touches the progress file once by then; 0: nobody looks
  int descendants_percent = 0;  // of workers that leave a process in a session of its own
  int wrappers_percent = 0;     // of workers that are a shell around the training

  // Between rounds.
  Micros preflight_timeout = 0;     // 0: there is no preflight
  Micros preflight_time = kSecond;  // the longest
  int preflight_fails_percent = 0;  // of its runs, during the fault phase
  int preflight_hangs_percent = 0;
  Micros gpu_release_timeout = 0;  // 0: nobody looks at GPUs
  bool driver_pids = false;
  int gpus_held_percent = 0;  // of the looks at them, during the fault phase

  // Who comes that should not.
  int cannot_start_percent = 0;  // of the replacements in the fault phase, a fifth of it of the first: no program
  Micros strangers_every = 0;    // one of another job, or another muster, speaks to the coordinator; 0: nobody

  int another_job_percent = 0;  // of the connections in the fault phase that lead to another job's coordinator
  Micros name_lookup = 0;       // how long an agent looks up the primary's name, at most; 0: it need not
  // A coordinator of more hosts than this decides for many statuses at once, after such a time for each host.
  int many_hosts = 0;  // 0: as in production
  Micros decision_spacing = 0;

  // The nodes' time is over at this moment, as each one's wall clock has it, and they leave so long before.
  Micros deadline = 0;  // 0: there is none
  Micros stop_before = 0;

  // What else goes wrong in a node, each from the stream of scripts.h.
  Script script = Script::kNone;
  int late_place = -1;            // comes when the script wants it; -1: none
  bool serves_if_local = false;   // each node finds out whether it is the primary
  Micros slow_agents = 0;         // an agent takes up to this to start; 0: a moment
  int agent_fails_percent = 0;    // of further agents, that cannot be started at all
  int no_port_percent = 0;        // of the ports that are to be kept for the workers
  int not_swept_percent = 0;      // of dead hosts, whose agents cannot say that all of it has ended
  int told_failures_percent = 0;  // of failures: memory ran out, or the worker said earlier that it fails
  Micros wall_steps = 0;          // a wall clock is set anew, by up to this
  int early_words_percent = 0;    // of failures by an exit code: the worker writes its error file, and ends later
  int late_forks_percent = 0;     // of the processes that a sweep finds: one has started another one just before
  int portless_place = -1;        // no port is to be had there; -1: none is so
  bool worst_clocks = false;      // the coordinator's is the fastest, all others are the slowest

  int hosts_per_machine = 1;        // of neighbouring places, at first
  int refused_streams_percent = 0;  // of connections: gRPC's server, or a proxy, refuses or resets the stream
  int stale_names_percent = 0;      // of look-ups: this node's name server leads to an address of earlier days

  // The clocks.
  int64_t drift_ppm = 0;  // each machine's rate is wrong by up to this
  Micros wall_skew = 0;   // each machine's wall clock, too

  // The network.
  Micros delay = kMillisecond;  // mean, one way
  int drop_percent = 0;         // of whole documents
  int repeat_percent = 0;
  int reorder_percent = 0;
  bool close_is_echoed = false;  // the shell reports the close of a stream that the coordinator closed itself

  // The faults.
  Micros late_start = 0;  // machines come up within this time
  Micros fault_phase = 10 * kSecond;
  Micros fault_gap = kSecond;  // mean between two
  std::array<int, kFaultKinds> weight{};
  int host_is_primary_percent = 0;            // of the hosts that are killed
  bool spare_the_primary = false;             // what strikes any host strikes another one
  int kill_coordinator_at_round_percent = 0;  // of rounds that grow; a quarter of it where they do not
  int cut_off_at_round_percent = 0;           // of those: one of the others, then
  int kill_coordinator_in_drain_percent = 0;
  int kill_node_in_drain_percent = 0;
  int trouble_at_verdict_percent = 0;
  Micros outage_low = 100 * kMillisecond;  // how long freezes and cuts last
  Micros outage_high = 30 * kSecond;
  Micros replace_low = 100 * kMillisecond;
  Micros replace_high = 10 * kSecond;

  int total_weight() const {
    int total = 0;
    for (int w : weight) total += w;
    return total;
  }
  // Nothing is done to the processes and the network, but what the weights say.
  bool quiet_but_for_weights() const {
    return kill_coordinator_at_round_percent + cut_off_at_round_percent + kill_coordinator_in_drain_percent +
               kill_node_in_drain_percent + trouble_at_verdict_percent + drop_percent ==
           0;
  }
  // Only deaths of agents: no worker may be disturbed at all (invariant 6).
  bool only_agents_die = false;
};

Scenario DrawScenario(uint64_t seed);
std::string Describe(const Scenario& scenario);

}  // namespace muster::simulation
