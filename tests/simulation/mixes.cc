// The mixes of faults that a seed may have: random ones, and ones aimed at a single rule.
#include "tests/simulation/mixes.h"

#include <algorithm>

namespace muster::simulation {
namespace {

int& Weight(Scenario& s, Fault fault) { return s.weight[static_cast<int>(fault)]; }

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

}  // namespace

// Swarm: each kind of fault is off with some probability; the weights of the others differ between seeds.
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

// Mixes aimed at one invariant each, because random ones find its bugs too rarely.
void DrawAimed(Prng& prng, Scenario& s) {
  s.fault_phase = prng.Between(10, 40) * kSecond;
  s.fault_gap = prng.Between(1, 4) * kSecond;
  AtLeastTwoNodes(prng, s);
  s.run_time = prng.Skewed(2 * kSecond, 20 * kSecond);
  switch (prng.Below(11)) {
    case 0:  // a one-way cut that outlasts the lease, while the other nodes may go on
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
      s.min_nodes = s.max_nodes = s.nodes;  // no round starts without the late node
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
      // Among many nodes some answer is always slow: a lease shorter than the slowest answer lets no round live.
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
    case 7:  // shrink and grow; a newer round has reached only some nodes
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
    case 8:  // processes that neither end nor start in time
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
    case 9:  // the flags about failures, with few other faults
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

// New spares outnumber a round's needs while its members are away and its coordinator is dead. From its own stream
// too.
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

// The coordinator outlives its host for a moment; not every node gets its farewell, or the next coordinator's.
// From its own stream.
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
  s.replace_high = prng.Skewed(20 * kMillisecond, 2 * kSecond);  // while some nodes are on their way back
  s.host_is_primary_percent = 70;
  Weight(s, Fault::kKillHost) = 8;
  Weight(s, Fault::kCutBoth) = static_cast<int>(prng.Between(0, 4));
  Weight(s, Fault::kWorkerFails) = static_cast<int>(prng.Between(0, 2));
  Weight(s, Fault::kKillCoordinator) = static_cast<int>(prng.Between(0, 2));
  Weight(s, Fault::kIsolateAndReplace) = static_cast<int>(prng.Between(0, 2));
  s.kill_coordinator_at_round_percent = prng.Chance(50) ? 40 : 0;
  s.cut_off_at_round_percent = 50;
}

}  // namespace muster::simulation
