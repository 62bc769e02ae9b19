#include "tests/simulation/scenario.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "tests/simulation/mixes.h"
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

constexpr Micros kLongestLookup = 2 * kSecond;  // the agent's limit
constexpr int64_t kWorstDriftPpm = 5000;        // 0.5 %; 1 % between two clocks, the lease's margin

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

// Growth, exclusion and pauses; and spares, if places have no names.
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

// From its own stream of random numbers, so that the rest of a seed does not change.
void DrawFitness(Prng prng, Scenario& s) {
  // An unfit node joins late, which counts as a disturbance.
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

// From its own stream too.
void DrawUnwelcome(Prng prng, Scenario& s) {
  if (prng.Chance(10)) s.strangers_every = prng.Skewed(50 * kMillisecond, 5 * kSecond);
  if (s.only_agents_die || s.mix == "calm" || !prng.Chance(10)) return;
  s.cannot_start_percent = static_cast<int>(prng.Between(5, 50));
}

// Addresses and names that lead elsewhere, and slow name servers. From its own stream too.
void DrawNames(Prng prng, Scenario& s) {
  if (s.lease == 0 || s.only_agents_die || s.mix == "calm") return;
  if (prng.Chance(8)) s.another_job_percent = static_cast<int>(prng.Between(2, 60));
  if (prng.Chance(8)) s.name_lookup = prng.Between(kSecond, kLongestLookup);
}

// Machines that announce their end, and jobs with a deadline. From its own stream.
void DrawEnds(Prng prng, Scenario& s) {
  if (s.only_agents_die || s.total_weight() == 0) return;
  if (prng.Chance(10)) Weight(s, Fault::kNotice) = 1 + s.total_weight() / 5;
  if (!prng.Chance(5)) return;
  s.deadline = prng.Between(s.fault_phase / 4, s.fault_phase);
  s.stop_before = prng.Skewed(100 * kMillisecond, s.deadline);
  s.wall_skew = prng.Chance(50) ? 0 : prng.Skewed(10 * kMillisecond, 5 * kSecond);
}

// Deferred decisions, as in very large jobs, for a job of any size.
void DrawDeferral(Prng prng, Scenario& s) {
  if (!prng.Chance(15)) return;
  s.many_hosts = static_cast<int>(prng.Between(1, 3));
  s.decision_spacing = prng.Skewed(100, 100 * kMillisecond) / s.nodes;
}

}  // namespace

void DrawAnew(Prng& prng, Scenario& s) {
  const uint64_t seed = s.seed;
  s = Scenario();
  s.seed = seed;
  DrawJob(prng, s);
  DrawHabits(prng, s);
}

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
