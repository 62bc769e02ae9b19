// The mixes of faults that a seed may have: random ones, and ones aimed at a single rule.
#include "tests/simulation/mixes.h"

#include <algorithm>

namespace muster::simulation {
namespace {

int& Weight(Scenario& s, Fault fault) { return s.faults.weight[static_cast<int>(fault)]; }

void Plenty(Scenario& s) {
  s.policy.max_restarts = 100;
  s.policy.max_node_losses = 1000;
  s.policy.max_membership_changes = 0;
}

void Elastic(Scenario& s) {
  s.job.min_nodes = std::max(1, s.job.max_nodes - 1);
  s.job.node_unit = 1;
}

void AtLeastTwoNodes(Prng& prng, Scenario& s) {
  if (s.job.nodes > 1) return;
  s.job.nodes = s.job.max_nodes = static_cast<int>(prng.Between(2, 4));
  s.job.min_nodes = static_cast<int>(prng.Between(1, s.job.nodes));
  s.job.node_unit = 1;
  s.limits.lease = prng.Between(2, 6) * kSecond;
}

}  // namespace

// Swarm: each kind of fault is off with some probability; the weights of the others differ between seeds.
void DrawSwarm(Prng& prng, Scenario& s, bool rough) {
  s.mix = rough ? "rough" : "gentle";
  s.faults.phase = prng.Between(5, rough ? 40 : 20) * kSecond;
  s.faults.gap = rough ? prng.Skewed(100 * kMillisecond, 3 * kSecond) : prng.Between(2, 8) * kSecond;
  const int off_percent = static_cast<int>(prng.Between(20, 80));
  for (int& weight : s.faults.weight)
    weight = prng.Chance(off_percent) ? 0 : static_cast<int>(prng.Between(1, 10));
  if (prng.Chance(70)) Weight(s, Fault::kCancel) = 0;
  Weight(s, Fault::kCancel) = std::min(Weight(s, Fault::kCancel), 1);
  s.faults.kill_coordinator_at_round_percent = prng.Chance(30) ? 40 : 0;
  s.faults.cut_off_at_round_percent = prng.Chance(50) ? 40 : 0;
  s.faults.kill_coordinator_in_drain_percent = prng.Chance(30) ? 40 : 0;
  s.faults.kill_node_in_drain_percent = prng.Chance(15) ? 20 : 0;
  s.faults.trouble_at_verdict_percent = prng.Chance(30) ? 50 : 0;
}

// Mixes aimed at one invariant each, because random ones find its bugs too rarely.
void DrawAimed(Prng& prng, Scenario& s) {
  s.faults.phase = prng.Between(10, 40) * kSecond;
  s.faults.gap = prng.Between(1, 4) * kSecond;
  AtLeastTwoNodes(prng, s);
  s.workers.run_time = prng.Skewed(2 * kSecond, 20 * kSecond);
  switch (prng.Below(11)) {
    case 0:  // a one-way cut that outlasts the lease, while the other nodes may go on
      s.mix = "one-way cut beyond the lease";
      Plenty(s);
      Elastic(s);
      s.faults.outage_low = s.limits.lease;
      s.faults.outage_high = 4 * s.limits.lease;
      if (prng.Chance(50)) {
        Weight(s, Fault::kCutOut) = 6;
        Weight(s, Fault::kCutIn) = 1;
        break;
      }
      s.mix = "statuses away beyond the lease, directives late";
      Weight(s, Fault::kCutStaggered) = 1;
      s.limits.lease = prng.Between(6, 10) * kSecond;
      s.workers.run_time = prng.Between(15, 20) * kSecond;
      s.limits.shutdown_grace = prng.Skewed(100 * kMillisecond, 2 * kSecond);
      s.faults.phase = 40 * kSecond;
      s.faults.gap = prng.Between(3, 8) * kSecond;
      break;
    case 1:
      s.mix = "isolate and replace";
      Plenty(s);
      s.job.min_nodes = std::min(s.job.max_nodes, std::max(2, s.job.min_nodes));
      s.job.node_unit = 1;
      Weight(s, Fault::kIsolateAndReplace) = 4;
      Weight(s, Fault::kKillCoordinator) = 1;
      break;
    case 2:
      s.mix = "coordinator restarts in a drain";
      Plenty(s);
      Weight(s, Fault::kWorkerFails) = 4;
      Weight(s, Fault::kKillHost) = 2;
      s.faults.kill_coordinator_in_drain_percent = 70;
      s.faults.kill_node_in_drain_percent = 20;
      break;
    case 3:
      s.mix = "agents die";
      s.faults.only_agents_die = true;
      s.workers.fails_percent = s.network.drop_percent = s.network.repeat_percent = s.network.reorder_percent = 0;
      s.limits.lease = std::max(s.limits.lease, 6 * kSecond);
      s.job.min_nodes = s.job.max_nodes = s.job.nodes;  // no round starts without the late node
      s.job.node_unit = 1;
      s.network.delay = std::min(s.network.delay, 5 * kMillisecond);
      Weight(s, Fault::kKillAgent) = 3;
      Weight(s, Fault::kKillCoordinator) = 1;
      s.faults.gap = 2500 * kMillisecond;
      s.faults.replace_high = s.limits.lease / 4;  // a coordinator alone is back before the lease's first SIGTERM
      break;
    case 4:
      s.mix = "connections close, nodes live on";
      Plenty(s);
      Elastic(s);
      Weight(s, Fault::kResetThenCut) = 5;
      Weight(s, Fault::kReset) = 2;
      s.faults.outage_low = s.limits.reconnect_grace;
      s.faults.outage_high = 2 * s.limits.lease;
      break;
    case 5:  // many fast failures on a slow, disorderly network
      s.mix = "fast failures";
      Plenty(s);
      s.workers.run_time = prng.Skewed(200 * kMillisecond, 3 * kSecond);
      s.workers.fails_percent = static_cast<int>(prng.Between(10, 60));
      // Among many nodes some answer is always slow: a lease shorter than the slowest answer lets no round live.
      // With a mean delay of a tenth of the lease, even 4 to 8 nodes may need more than a hundred rounds until one
      // lives for as long as its workers run.
      s.network.delay = std::min(prng.Skewed(5 * kMillisecond, 200 * kMillisecond),
                                 s.limits.lease / (s.job.nodes > 8 ? 40 : 20));
      s.workers.exec_delay = prng.Skewed(500, 20 * kMillisecond);
      Weight(s, Fault::kWorkerFails) = 3;
      Weight(s, Fault::kKillAgent) = 1;
      break;
    case 6:
      s.mix = "trouble at the verdict";
      s.workers.run_time = prng.Skewed(100 * kMillisecond, 3 * kSecond);
      s.faults.trouble_at_verdict_percent = 90;
      Weight(s, Fault::kWorkerFails) = 1;
      break;
    case 7:  // shrink and grow; a newer round has reached only some nodes
      s.mix = "the coordinator dies as it makes a round";
      Plenty(s);
      s.job.nodes = s.job.max_nodes = static_cast<int>(prng.Between(2, 3));
      s.job.min_nodes = prng.Chance(80) ? 1 : 2;
      s.job.node_unit = 1;
      s.policy.scale_up = 0;
      s.limits.last_call = prng.Skewed(kMillisecond, kSecond);
      s.workers.run_time = prng.Between(8, 20) * kSecond;
      s.limits.shutdown_grace = prng.Skewed(100 * kMillisecond, 2 * kSecond);
      s.faults.phase = prng.Between(20, 60) * kSecond;
      s.faults.gap = prng.Skewed(500 * kMillisecond, 3 * kSecond);
      s.faults.spare_the_primary = prng.Chance(80);
      s.faults.outage_low = s.limits.lease / 4;
      s.faults.outage_high = 2 * s.limits.lease;
      s.faults.replace_high = 2 * kSecond;
      Weight(s, Fault::kKillHost) = 6;
      Weight(s, Fault::kLeave) = 3;
      Weight(s, Fault::kWorkerFails) = 1;
      Weight(s, Fault::kKillNode) = 1;
      Weight(s, Fault::kIsolateAndReplace) = 1;
      s.faults.kill_coordinator_at_round_percent = 60;
      s.faults.cut_off_at_round_percent = 70;
      break;
    case 8:  // processes that neither end nor start in time
      s.mix = "nodes become unusable";
      Plenty(s);
      Elastic(s);
      s.faults.phase = prng.Between(40, 100) * kSecond;
      s.faults.gap = prng.Between(2, 8) * kSecond;
      s.workers.run_time = prng.Between(8, 20) * kSecond;
      s.limits.shutdown_grace = prng.Skewed(100 * kMillisecond, 4 * kSecond);
      s.workers.slow_start_percent = prng.Chance(50) ? static_cast<int>(prng.Between(1, 10)) : 0;
      Weight(s, Fault::kStuckWorker) = 6;
      Weight(s, Fault::kWorkerFails) = 3;
      Weight(s, Fault::kKillHost) = 1;
      Weight(s, Fault::kKillCoordinator) = 1;
      Weight(s, Fault::kLeave) = 1;
      break;
    case 9:  // the flags about failures, with few other faults
      s.mix = "bad nodes and budgets";
      s.policy.max_restarts = static_cast<int>(prng.Between(1, 4));
      s.policy.max_node_losses = 1000;
      s.policy.restart_window = prng.Chance(60) ? prng.Between(1, 6) * kSecond : 0;
      s.policy.restart_delay = prng.Chance(50) ? prng.Skewed(10 * kMillisecond, kSecond) : 0;
      s.policy.exclude_after = prng.Chance(70) ? static_cast<int>(prng.Between(1, 2)) : 0;
      s.policy.exclude_for = prng.Between(1, 20) * kSecond;
      s.workers.run_time = prng.Between(4, 12) * kSecond;
      s.limits.shutdown_grace = prng.Skewed(100 * kMillisecond, kSecond);
      s.workers.progress_within = prng.Chance(50) ? prng.Skewed(10 * kMillisecond, 2 * s.workers.run_time) : 0;
      s.faults.gap = prng.Skewed(500 * kMillisecond, 4 * kSecond);
      s.faults.phase = prng.Between(20, 60) * kSecond;
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
  if (!prng.Chance(2) || s.job.nodes > 16) return;
  DrawAnew(prng, s);
  s.mix = "a round hidden from spares";
  s.job.min_nodes = s.job.max_nodes = static_cast<int>(prng.Between(1, 2));
  s.job.nodes = 2 * s.job.max_nodes + static_cast<int>(prng.Between(0, 2));
  s.job.observers = 0;
  s.job.places = Places::kNone;
  s.job.coordinator_alone = true;
  s.job.node_unit = 1;
  s.limits.lease = prng.Between(3, 10) * kSecond;
  s.workers.run_time = prng.Between(10, 20) * kSecond;
  s.workers.fails_percent = s.network.drop_percent = s.network.repeat_percent = s.network.reorder_percent = 0;
  Plenty(s);
  s.faults.phase = prng.Between(20, 60) * kSecond;
  s.faults.gap = prng.Skewed(300 * kMillisecond, 2 * kSecond);
  s.faults.outage_low = s.limits.lease / 8;
  s.faults.outage_high = s.limits.lease;
  s.faults.replace_low = 10 * kMillisecond;
  s.faults.replace_high = 2 * kSecond;
  Weight(s, Fault::kKillNode) = 6;
  Weight(s, Fault::kKillCoordinator) = 4;
  Weight(s, Fault::kCutBoth) = 4;
  Weight(s, Fault::kSwizzle) = 1;
}

// The coordinator outlives its host for a moment; not every node gets its farewell, or the next coordinator's.
// From its own stream.
void DrawFarewell(Prng prng, Scenario& s) {
  if (!prng.Chance(3) || s.job.nodes > 16) return;
  DrawAnew(prng, s);
  AtLeastTwoNodes(prng, s);
  Plenty(s);
  s.mix = "the primary's main process dies";
  s.job.coordinator_alone = false;
  s.job.observers = 0;
  s.job.nodes = std::max(s.job.max_nodes, std::min(s.job.nodes, 6));
  s.limits.lease = prng.Between(2, 8) * kSecond;
  s.workers.run_time = prng.Between(6, 20) * kSecond;
  s.limits.shutdown_grace = prng.Skewed(100 * kMillisecond, 2 * kSecond);
  s.faults.phase = prng.Between(20, 60) * kSecond;
  s.faults.gap = prng.Between(1, 6) * kSecond;
  s.faults.outage_low = s.limits.lease / 8;
  s.faults.outage_high = 2 * s.limits.lease;
  s.faults.replace_low = 10 * kMillisecond;
  s.faults.replace_high = prng.Skewed(20 * kMillisecond, 2 * kSecond);  // while some nodes are on their way back
  s.faults.host_is_primary_percent = 70;
  Weight(s, Fault::kKillHost) = 8;
  Weight(s, Fault::kCutBoth) = static_cast<int>(prng.Between(0, 4));
  Weight(s, Fault::kWorkerFails) = static_cast<int>(prng.Between(0, 2));
  Weight(s, Fault::kKillCoordinator) = static_cast<int>(prng.Between(0, 2));
  Weight(s, Fault::kIsolateAndReplace) = static_cast<int>(prng.Between(0, 2));
  s.faults.kill_coordinator_at_round_percent = prng.Chance(50) ? 40 : 0;
  s.faults.cut_off_at_round_percent = 50;
}

}  // namespace muster::simulation
