#include "tests/simulation/scenario.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "tests/simulation/scripts.h"

namespace muster::simulation {
namespace {

constexpr const char* kFaultNames[kFaultKinds] = {
    "worker-fails",
    "freeze-worker",
    "stuck-worker",
    "kill-agent",
    "freeze-agent",
    "kill-host",
    "freeze-host",
    "freeze-both",
    "kill-both",
    "kill-coordinator",
    "freeze-coordinator",
    "kill-node",
    "isolate-replace",
    "leave",
    "leave-twice",
    "cancel",
    "cut-out",
    "cut-in",
    "cut-both",
    "reset",
    "reset-then-cut",
    "cut-staggered",
    "swizzle",
    "start-fails",
    "notice",
};

constexpr Micros kLongestLookup = 2 * kSecond;  // as the agent's limit is
constexpr int64_t kWorstDriftPpm = 5000;  // 0.5 %: of two clocks against each other 1 %, as the lease's margin

int& Weight(Scenario& s, Fault fault) { return s.weight[static_cast<int>(fault)]; }

// Half of the seeds up to 4 nodes, one in 50 at 64, one in 500 beyond that.
int DrawNodes(Prng& prng) {
  if (prng.Below(500) == 0) return static_cast<int>(prng.Between(65, 256));
  const uint64_t dice = prng.Below(100);
  if (dice < 2) return 64;
  if (dice < 8) return 1;
  if (dice < 54) return static_cast<int>(prng.Between(2, 4));
  if (dice < 88) return static_cast<int>(prng.Between(5, 8));
  return static_cast<int>(prng.Between(9, 16));
}

// When it grows, whom it leaves out, how long it pauses; and, where places have no names, spares.
void DrawPolicies(Prng& prng, Scenario& s) {
  if (s.places == Places::kNone && s.nodes > 2 && prng.Chance(30)) {
    s.max_nodes = s.nodes - static_cast<int>(prng.Between(1, s.nodes / 2));
    s.min_nodes = std::min(s.min_nodes, s.max_nodes);
  }
  if (s.max_nodes % 2 == 0 && s.min_nodes % 2 == 0 && prng.Chance(30)) s.node_unit = 2;
  s.scale_up = prng.Chance(60) ? 0 : static_cast<int>(prng.Between(1, 2));
  s.join_settle = prng.Chance(50) ? 0 : prng.Skewed(100 * kMillisecond, 5 * kSecond);
  s.restart_delay = prng.Chance(70) ? 0 : prng.Skewed(10 * kMillisecond, kSecond);
  s.restart_window = prng.Chance(80) ? 0 : prng.Between(1, 20) * kSecond;
  s.exclude_after = prng.Chance(60) ? 0 : static_cast<int>(prng.Between(1, 3));
  s.max_membership_changes = prng.Chance(70) ? 0 : static_cast<int>(prng.Between(1, 8));
}

void DrawJob(Prng& prng, Scenario& s) {
  s.nodes = DrawNodes(prng);
  s.max_nodes = s.min_nodes = s.nodes;
  s.places = prng.Chance(60) ? Places::kSpec : prng.Chance(60) ? Places::kByRank : Places::kNone;
  if (s.nodes > 1 && prng.Chance(50)) {
    s.min_nodes = static_cast<int>(prng.Between(1, s.nodes));
    if (prng.Chance(50)) s.min_nodes = std::max(1, s.nodes - 1);
  }
  s.slots = s.nodes > 16 ? 1 : static_cast<int>(prng.Between(1, 3));
  s.observers = prng.Chance(10) && s.places == Places::kSpec ? static_cast<int>(prng.Between(1, 2)) : 0;
  s.max_restarts = static_cast<int>(prng.Chance(50) ? 100 : prng.Between(0, 3));
  s.max_node_losses = static_cast<int>(prng.Chance(60) ? 1000 : prng.Between(0, 3));
  DrawPolicies(prng, s);
  s.lease = s.nodes == 1 && s.observers == 0 ? 0 : prng.Between(2, 10) * kSecond;
  s.coordinator_alone = s.lease > 0 && prng.Chance(20);
  s.reconnect_grace = prng.Between(2, 20) * 100 * kMillisecond;
  s.last_call = prng.Between(0, 3) * kSecond;
  s.join_timeout = prng.Between(40, 60) * kSecond;
  s.rejoin_timeout = prng.Between(20, 60) * kSecond;
  s.coordinator_timeout = prng.Between(20, 60) * kSecond;
  s.shutdown_grace = prng.Skewed(100 * kMillisecond, 10 * kSecond);
  s.termination_grace = prng.Skewed(100 * kMillisecond, 10 * kSecond);
}

void DrawHabits(Prng& prng, Scenario& s) {
  s.run_time = prng.Skewed(200 * kMillisecond, 20 * kSecond);
  s.fails_percent = prng.Chance(30) ? static_cast<int>(prng.Between(1, 40)) : 0;
  s.peers_fail_too = prng.Chance(40);
  s.term_exits_zero_percent = prng.Chance(50) ? 100 : static_cast<int>(prng.Between(0, 100));
  s.term_slow_percent = prng.Chance(40) ? static_cast<int>(prng.Between(1, 60)) : 0;
  s.term_ignored_percent = prng.Chance(30) ? static_cast<int>(prng.Between(1, 40)) : 0;
  s.exec_delay = prng.Skewed(500, 300 * kMillisecond);
  s.descendants_percent = prng.Chance(40) ? static_cast<int>(prng.Between(1, 60)) : 0;
  s.drift_ppm = prng.Chance(50) ? prng.Between(1, kWorstDriftPpm) : 0;
  s.delay = prng.Skewed(100, 50 * kMillisecond);
  if (prng.Chance(25)) {
    s.drop_percent = static_cast<int>(prng.Between(0, 20));
    s.repeat_percent = static_cast<int>(prng.Between(0, 20));
    s.reorder_percent = static_cast<int>(prng.Between(0, 20));
  }
  s.progress_within = prng.Chance(60) ? 0 : prng.Skewed(10 * kMillisecond, 2 * s.run_time);
  s.close_is_echoed = prng.Chance(50);
  s.late_start = prng.Chance(50) ? 100 * kMillisecond : prng.Between(1, 10) * kSecond;
}

// Swarm: each kind is off with some probability, the others weigh differently in each seed.
void DrawSwarm(Prng& prng, Scenario& s, bool rough) {
  s.mix = rough ? "rough" : "gentle";
  s.fault_phase = prng.Between(5, rough ? 40 : 20) * kSecond;
  s.fault_gap = rough ? prng.Skewed(100 * kMillisecond, 3 * kSecond) : prng.Between(2, 8) * kSecond;
  const int off_percent = static_cast<int>(prng.Between(20, 80));
  for (int& weight : s.weight) weight = prng.Chance(off_percent) ? 0 : static_cast<int>(prng.Between(1, 10));
  if (prng.Chance(70)) Weight(s, Fault::kCancel) = 0;
  Weight(s, Fault::kCancel) = std::min(Weight(s, Fault::kCancel), 1);
  s.kill_coordinator_at_round_percent = prng.Chance(30) ? 40 : 0;
  s.cut_off_at_round_percent = prng.Chance(50) ? 40 : 0;
  s.kill_coordinator_in_drain_percent = prng.Chance(30) ? 40 : 0;
  s.kill_node_in_drain_percent = prng.Chance(15) ? 20 : 0;
  s.trouble_at_verdict_percent = prng.Chance(30) ? 50 : 0;
}

void Plenty(Scenario& s) {
  s.max_restarts = 100;
  s.max_node_losses = 1000;
  s.max_membership_changes = 0;
}

void Elastic(Scenario& s) {
  s.min_nodes = std::max(1, s.max_nodes - 1);
  s.node_unit = 1;
}

void AtLeastTwoNodes(Prng& prng, Scenario& s) {
  if (s.nodes > 1) return;
  s.nodes = s.max_nodes = static_cast<int>(prng.Between(2, 4));
  s.min_nodes = static_cast<int>(prng.Between(1, s.nodes));
  s.node_unit = 1;
  s.lease = prng.Between(2, 6) * kSecond;
}

// Mixes that are aimed at one invariant each: random ones find its bugs too rarely.
void DrawAimed(Prng& prng, Scenario& s) {
  s.fault_phase = prng.Between(10, 40) * kSecond;
  s.fault_gap = prng.Between(1, 4) * kSecond;
  AtLeastTwoNodes(prng, s);
  s.run_time = prng.Skewed(2 * kSecond, 20 * kSecond);
  switch (prng.Below(11)) {
    case 0:  // a one-way cut that outlasts the lease, while the others may go on
      s.mix = "one-way cut beyond the lease";
      Plenty(s);
      Elastic(s);
      s.outage_low = s.lease;
      s.outage_high = 4 * s.lease;
      if (prng.Chance(50)) {
        Weight(s, Fault::kCutOut) = 6;
        Weight(s, Fault::kCutIn) = 1;
        break;
      }
      s.mix = "statuses away beyond the lease, directives late";
      Weight(s, Fault::kCutStaggered) = 1;
      s.lease = prng.Between(6, 10) * kSecond;
      s.run_time = prng.Between(15, 20) * kSecond;
      s.shutdown_grace = prng.Skewed(100 * kMillisecond, 2 * kSecond);
      s.fault_phase = 40 * kSecond;
      s.fault_gap = prng.Between(3, 8) * kSecond;
      break;
    case 1:
      s.mix = "isolate and replace";
      Plenty(s);
      s.min_nodes = std::min(s.max_nodes, std::max(2, s.min_nodes));
      s.node_unit = 1;
      Weight(s, Fault::kIsolateAndReplace) = 4;
      Weight(s, Fault::kKillCoordinator) = 1;
      break;
    case 2:
      s.mix = "coordinator restarts in a drain";
      Plenty(s);
      Weight(s, Fault::kWorkerFails) = 4;
      Weight(s, Fault::kKillHost) = 2;
      s.kill_coordinator_in_drain_percent = 70;
      s.kill_node_in_drain_percent = 20;
      break;
    case 3:
      s.mix = "agents die";
      s.only_agents_die = true;
      s.fails_percent = s.drop_percent = s.repeat_percent = s.reorder_percent = 0;
      s.lease = std::max(s.lease, 6 * kSecond);
      s.min_nodes = s.max_nodes = s.nodes;  // nobody starts without the late
      s.node_unit = 1;
      s.delay = std::min(s.delay, 5 * kMillisecond);
      Weight(s, Fault::kKillAgent) = 3;
      Weight(s, Fault::kKillCoordinator) = 1;
      s.fault_gap = 2500 * kMillisecond;
      s.replace_high = s.lease / 4;  // a coordinator alone is back before the lease's first SIGTERM
      break;
    case 4:
      s.mix = "connections close, nodes live on";
      Plenty(s);
      Elastic(s);
      Weight(s, Fault::kResetThenCut) = 5;
      Weight(s, Fault::kReset) = 2;
      s.outage_low = s.reconnect_grace;
      s.outage_high = 2 * s.lease;
      break;
    case 5:  // many fast failures on a slow, disorderly network
      s.mix = "fast failures";
      Plenty(s);
      s.run_time = prng.Skewed(200 * kMillisecond, 3 * kSecond);
      s.fails_percent = static_cast<int>(prng.Between(10, 60));
      // Of many nodes one always waits for the slowest answers: a lease that these outlast lets no round live.
      s.delay = std::min(prng.Skewed(5 * kMillisecond, 200 * kMillisecond), s.lease / (s.nodes > 8 ? 40 : 10));
      s.exec_delay = prng.Skewed(500, 20 * kMillisecond);
      Weight(s, Fault::kWorkerFails) = 3;
      Weight(s, Fault::kKillAgent) = 1;
      break;
    case 6:
      s.mix = "trouble at the verdict";
      s.run_time = prng.Skewed(100 * kMillisecond, 3 * kSecond);
      s.trouble_at_verdict_percent = 90;
      Weight(s, Fault::kWorkerFails) = 1;
      break;
    case 7:  // shrink and grow; a greater round has reached some only
      s.mix = "the coordinator dies as it makes a round";
      Plenty(s);
      s.nodes = s.max_nodes = static_cast<int>(prng.Between(2, 3));
      s.min_nodes = prng.Chance(80) ? 1 : 2;
      s.node_unit = 1;
      s.scale_up = 0;
      s.last_call = prng.Skewed(kMillisecond, kSecond);
      s.run_time = prng.Between(8, 20) * kSecond;
      s.shutdown_grace = prng.Skewed(100 * kMillisecond, 2 * kSecond);
      s.fault_phase = prng.Between(20, 60) * kSecond;
      s.fault_gap = prng.Skewed(500 * kMillisecond, 3 * kSecond);
      s.spare_the_primary = prng.Chance(80);
      s.outage_low = s.lease / 4;
      s.outage_high = 2 * s.lease;
      s.replace_high = 2 * kSecond;
      Weight(s, Fault::kKillHost) = 6;
      Weight(s, Fault::kLeave) = 3;
      Weight(s, Fault::kWorkerFails) = 1;
      Weight(s, Fault::kKillNode) = 1;
      Weight(s, Fault::kIsolateAndReplace) = 1;
      s.kill_coordinator_at_round_percent = 60;
      s.cut_off_at_round_percent = 70;
      break;
    case 8:  // what neither ends nor starts in its time
      s.mix = "nodes become unusable";
      Plenty(s);
      Elastic(s);
      s.fault_phase = prng.Between(40, 100) * kSecond;
      s.fault_gap = prng.Between(2, 8) * kSecond;
      s.run_time = prng.Between(8, 20) * kSecond;
      s.shutdown_grace = prng.Skewed(100 * kMillisecond, 4 * kSecond);
      s.slow_start_percent = prng.Chance(50) ? static_cast<int>(prng.Between(1, 10)) : 0;
      Weight(s, Fault::kStuckWorker) = 6;
      Weight(s, Fault::kWorkerFails) = 3;
      Weight(s, Fault::kKillHost) = 1;
      Weight(s, Fault::kKillCoordinator) = 1;
      Weight(s, Fault::kLeave) = 1;
      break;
    case 9:  // what the flags say of failures: little else happens
      s.mix = "bad nodes and budgets";
      s.max_restarts = static_cast<int>(prng.Between(1, 4));
      s.max_node_losses = 1000;
      s.restart_window = prng.Chance(60) ? prng.Between(1, 6) * kSecond : 0;
      s.restart_delay = prng.Chance(50) ? prng.Skewed(10 * kMillisecond, kSecond) : 0;
      s.exclude_after = prng.Chance(70) ? static_cast<int>(prng.Between(1, 2)) : 0;
      s.exclude_for = prng.Between(1, 20) * kSecond;
      s.run_time = prng.Between(4, 12) * kSecond;
      s.shutdown_grace = prng.Skewed(100 * kMillisecond, kSecond);
      s.progress_within = prng.Chance(50) ? prng.Skewed(10 * kMillisecond, 2 * s.run_time) : 0;
      s.fault_gap = prng.Skewed(500 * kMillisecond, 4 * kSecond);
      s.fault_phase = prng.Between(20, 60) * kSecond;
      Weight(s, Fault::kWorkerFails) = 20;
      Weight(s, Fault::kKillCoordinator) = prng.Chance(50) ? 2 : 0;
      Weight(s, Fault::kKillHost) = prng.Chance(30) ? 1 : 0;
      break;
    default:
      s.mix = "the primary's node goes and comes";
      Plenty(s);
      Weight(s, Fault::kKillCoordinator) = 2;
      Weight(s, Fault::kFreezeCoordinator) = 2;
      Weight(s, Fault::kKillNode) = 2;
      Weight(s, Fault::kKillHost) = 1;
      break;
  }
}

// From a stream of its own, so that all else of a seed is what it was.
void DrawFitness(Prng prng, Scenario& s) {
  // A node that is not fit comes late, and that is a disturbance.
  if (s.only_agents_die || s.mix == "calm") return;
  if (prng.Chance(20)) {
    s.preflight_timeout = prng.Between(2, 10) * kSecond;
    s.preflight_time = prng.Skewed(kMillisecond, 3 * kSecond);
    s.preflight_fails_percent = static_cast<int>(prng.Between(0, 40));
    s.preflight_hangs_percent = prng.Chance(50) ? static_cast<int>(prng.Between(1, 10)) : 0;
  }
  if (prng.Chance(10)) {
    s.gpu_release_timeout = prng.Between(1, 10) * kSecond;
    s.driver_pids = prng.Chance(50);
    s.gpus_held_percent = prng.Chance(30) ? 99 : static_cast<int>(prng.Between(0, 90));
  }
}

// From a stream of its own, too.
void DrawUnwelcome(Prng prng, Scenario& s) {
  if (prng.Chance(10)) s.strangers_every = prng.Skewed(50 * kMillisecond, 5 * kSecond);
  if (s.only_agents_die || s.mix == "calm" || !prng.Chance(10)) return;
  s.cannot_start_percent = static_cast<int>(prng.Between(5, 50));
}

// Addresses and names that lead elsewhere, and name servers that are slow. From a stream of its own, too.
void DrawNames(Prng prng, Scenario& s) {
  if (s.lease == 0 || s.only_agents_die || s.mix == "calm") return;
  if (prng.Chance(8)) s.another_job_percent = static_cast<int>(prng.Between(2, 60));
  if (prng.Chance(8)) s.name_lookup = prng.Between(kSecond, kLongestLookup);
}

// Nothing but the seed is kept.
void DrawAnew(Prng& prng, Scenario& s) {
  const uint64_t seed = s.seed;
  s = Scenario();
  s.seed = seed;
  DrawJob(prng, s);
  DrawHabits(prng, s);
}

// Spares that are new here are more than a round needs, while its members are away and its coordinator has died.
// From a stream of its own, too.
void DrawHiddenRound(Prng prng, Scenario& s) {
  if (!prng.Chance(2) || s.nodes > 16) return;
  DrawAnew(prng, s);
  s.mix = "a round hidden from spares";
  s.min_nodes = s.max_nodes = static_cast<int>(prng.Between(1, 2));
  s.nodes = 2 * s.max_nodes + static_cast<int>(prng.Between(0, 2));
  s.observers = 0;
  s.places = Places::kNone;
  s.coordinator_alone = true;
  s.node_unit = 1;
  s.lease = prng.Between(3, 10) * kSecond;
  s.run_time = prng.Between(10, 20) * kSecond;
  s.fails_percent = s.drop_percent = s.repeat_percent = s.reorder_percent = 0;
  Plenty(s);
  s.fault_phase = prng.Between(20, 60) * kSecond;
  s.fault_gap = prng.Skewed(300 * kMillisecond, 2 * kSecond);
  s.outage_low = s.lease / 8;
  s.outage_high = s.lease;
  s.replace_low = 10 * kMillisecond;
  s.replace_high = 2 * kSecond;
  Weight(s, Fault::kKillNode) = 6;
  Weight(s, Fault::kKillCoordinator) = 4;
  Weight(s, Fault::kCutBoth) = 4;
  Weight(s, Fault::kSwizzle) = 1;
}

// The coordinator lives a moment longer than its node; not everybody hears its last word, or the next one's. From
// a stream of its own.
void DrawFarewell(Prng prng, Scenario& s) {
  if (!prng.Chance(3) || s.nodes > 16) return;
  DrawAnew(prng, s);
  AtLeastTwoNodes(prng, s);
  Plenty(s);
  s.mix = "the primary's main process dies";
  s.coordinator_alone = false;
  s.observers = 0;
  s.nodes = std::max(s.max_nodes, std::min(s.nodes, 6));
  s.lease = prng.Between(2, 8) * kSecond;
  s.run_time = prng.Between(6, 20) * kSecond;
  s.shutdown_grace = prng.Skewed(100 * kMillisecond, 2 * kSecond);
  s.fault_phase = prng.Between(20, 60) * kSecond;
  s.fault_gap = prng.Between(1, 6) * kSecond;
  s.outage_low = s.lease / 8;
  s.outage_high = 2 * s.lease;
  s.replace_low = 10 * kMillisecond;
  s.replace_high = prng.Skewed(20 * kMillisecond, 2 * kSecond);  // while some are on their way back
  s.host_is_primary_percent = 70;
  Weight(s, Fault::kKillHost) = 8;
  Weight(s, Fault::kCutBoth) = static_cast<int>(prng.Between(0, 4));
  Weight(s, Fault::kWorkerFails) = static_cast<int>(prng.Between(0, 2));
  Weight(s, Fault::kKillCoordinator) = static_cast<int>(prng.Between(0, 2));
  Weight(s, Fault::kIsolateAndReplace) = static_cast<int>(prng.Between(0, 2));
  s.kill_coordinator_at_round_percent = prng.Chance(50) ? 40 : 0;
  s.cut_off_at_round_percent = 50;
}

// Machines that say that they will go, and jobs whose time is limited. From a stream of its own.
void DrawEnds(Prng prng, Scenario& s) {
  if (s.only_agents_die || s.total_weight() == 0) return;
  if (prng.Chance(10)) Weight(s, Fault::kNotice) = 1 + s.total_weight() / 5;
  if (!prng.Chance(5)) return;
  s.deadline = prng.Between(s.fault_phase / 4, s.fault_phase);
  s.stop_before = prng.Skewed(100 * kMillisecond, s.deadline);
  s.wall_skew = prng.Chance(50) ? 0 : prng.Skewed(10 * kMillisecond, 5 * kSecond);
}

// Decisions that wait, as those of very large jobs do, in a job of any size.
void DrawDeferral(Prng prng, Scenario& s) {
  if (!prng.Chance(15)) return;
  s.many_hosts = static_cast<int>(prng.Between(1, 3));
  s.decision_spacing = prng.Skewed(100, 100 * kMillisecond) / s.nodes;
}

}  // namespace

const char* Name(Fault fault) { return kFaultNames[static_cast<int>(fault)]; }

Scenario DrawScenario(uint64_t seed) {
  Prng prng(seed);
  Scenario s;
  s.seed = seed;
  DrawJob(prng, s);
  DrawHabits(prng, s);
  const uint64_t dice = prng.Below(100);
  if (dice < 5) {
    s.mix = "calm";
    s.fails_percent = 0;
  } else if (dice < 35) {
    DrawSwarm(prng, s, false);
  } else if (dice < 60) {
    DrawSwarm(prng, s, true);
  } else {
    DrawAimed(prng, s);
  }
  DrawHiddenRound(Prng(seed ^ 0x51DE), s);
  DrawFarewell(Prng(seed ^ 0xFA12E), s);
  DrawFitness(Prng(seed ^ 0xF17), s);
  DrawEnds(Prng(seed ^ 0xE2D), s);
  DrawUnwelcome(Prng(seed ^ 0x57A26E2), s);
  DrawNames(Prng(seed ^ 0xD25), s);
  DrawScript(Prng(seed ^ 0x5C21B7), s);
  DrawManyHosts(Prng(seed ^ 0x3A27), s);
  DrawHardships(seed, s);
  Prng wrappers(seed ^ 0x5E11);
  s.wrappers_percent = wrappers.Chance(30) ? static_cast<int>(wrappers.Between(1, 100)) : 0;
  DrawDeferral(Prng(seed ^ 0xDEFE2), s);
  return s;
}

std::string Describe(const Scenario& s) {
  std::string out = absl::StrFormat(
      "%d nodes (%d:%d) x %d, %d observers%s, mix \"%s\", lease %dms, run %dms, delay %dus, restarts %d, losses "
      "%d,"
      " faults for %dms every %dms:",
      s.nodes, s.min_nodes, s.max_nodes, s.slots, s.observers,
      s.coordinator_alone ? ", the coordinator alone" : "", s.mix, s.lease / kMillisecond,
      s.run_time / kMillisecond, s.delay, s.max_restarts, s.max_node_losses, s.fault_phase / kMillisecond,
      s.fault_gap / kMillisecond);
  if (s.preflight_timeout > 0) {
    absl::StrAppendFormat(&out, " preflight fails %d%%, hangs %d%%,", s.preflight_fails_percent,
                          s.preflight_hangs_percent);
  }
  if (s.gpu_release_timeout > 0) absl::StrAppendFormat(&out, " GPUs held %d%%,", s.gpus_held_percent);
  if (s.cannot_start_percent > 0) absl::StrAppendFormat(&out, " cannot start %d%%,", s.cannot_start_percent);
  if (s.strangers_every > 0)
    absl::StrAppendFormat(&out, " strangers every %dms,", s.strangers_every / kMillisecond);
  if (s.another_job_percent > 0) absl::StrAppendFormat(&out, " another job's %d%%,", s.another_job_percent);
  if (s.name_lookup > 0) absl::StrAppendFormat(&out, " names take %dms,", s.name_lookup / kMillisecond);
  if (s.deadline > 0) {
    absl::StrAppendFormat(&out, " deadline %dms, left %dms before, skew %dms,", s.deadline / kMillisecond,
                          s.stop_before / kMillisecond, s.wall_skew / kMillisecond);
  }
  if (s.slow_agents > 0) absl::StrAppendFormat(&out, " agents start within %dms,", s.slow_agents / kMillisecond);
  if (s.agent_fails_percent > 0) absl::StrAppendFormat(&out, " agents fail %d%%,", s.agent_fails_percent);
  if (s.no_port_percent > 0) absl::StrAppendFormat(&out, " no port %d%%,", s.no_port_percent);
  if (s.not_swept_percent > 0) absl::StrAppendFormat(&out, " not swept %d%%,", s.not_swept_percent);
  if (s.told_failures_percent > 0) absl::StrAppendFormat(&out, " told failures %d%%,", s.told_failures_percent);
  if (s.wall_steps > 0) absl::StrAppendFormat(&out, " clocks set by %dms,", s.wall_steps / kMillisecond);
  if (s.early_words_percent > 0) absl::StrAppendFormat(&out, " early words %d%%,", s.early_words_percent);
  if (s.late_forks_percent > 0) absl::StrAppendFormat(&out, " late forks %d%%,", s.late_forks_percent);
  if (s.hosts_per_machine > 1) absl::StrAppendFormat(&out, " %d hosts a machine,", s.hosts_per_machine);
  if (s.refused_streams_percent > 0)
    absl::StrAppendFormat(&out, " streams refused %d%%,", s.refused_streams_percent);
  if (s.stale_names_percent > 0) absl::StrAppendFormat(&out, " stale names %d%%,", s.stale_names_percent);
  for (int i = 0; i < kFaultKinds; ++i) {
    if (s.weight[i] != 0) absl::StrAppendFormat(&out, " %s=%d", kFaultNames[i], s.weight[i]);
  }
  return out;
}

}  // namespace muster::simulation
