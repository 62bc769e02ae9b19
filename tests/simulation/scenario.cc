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
constexpr int kMostWatched = 16;                // nodes of jobs that are watched for hangs: each look looks at all
constexpr int64_t kWorstDriftPpm = 5000;        // 0.5 %; 1 % between two clocks, the lease's margin

int& Weight(Scenario& s, Fault fault) { return s.faults.weight[static_cast<int>(fault)]; }

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
  if (s.job.places == Places::kNone && s.job.nodes > 2 && prng.Chance(30)) {
    s.job.max_nodes = s.job.nodes - static_cast<int>(prng.Between(1, s.job.nodes / 2));
    s.job.min_nodes = std::min(s.job.min_nodes, s.job.max_nodes);
  }
  if (s.job.max_nodes % 2 == 0 && s.job.min_nodes % 2 == 0 && prng.Chance(30)) s.job.node_unit = 2;
  s.policy.scale_up = prng.Chance(60) ? 0 : static_cast<int>(prng.Between(1, 2));
  s.policy.join_settle = prng.Chance(50) ? 0 : prng.Skewed(100 * kMillisecond, 5 * kSecond);
  s.policy.restart_delay = prng.Chance(70) ? 0 : prng.Skewed(10 * kMillisecond, kSecond);
  s.policy.restart_window = prng.Chance(80) ? 0 : prng.Between(1, 20) * kSecond;
  s.policy.exclude_after = prng.Chance(60) ? 0 : static_cast<int>(prng.Between(1, 3));
  s.policy.max_membership_changes = prng.Chance(70) ? 0 : static_cast<int>(prng.Between(1, 8));
}

void DrawJob(Prng& prng, Scenario& s) {
  s.job.nodes = DrawNodes(prng);
  s.job.max_nodes = s.job.min_nodes = s.job.nodes;
  s.job.places = prng.Chance(60) ? Places::kSpec : prng.Chance(60) ? Places::kByRank : Places::kNone;
  if (s.job.nodes > 1 && prng.Chance(50)) {
    s.job.min_nodes = static_cast<int>(prng.Between(1, s.job.nodes));
    if (prng.Chance(50)) s.job.min_nodes = std::max(1, s.job.nodes - 1);
  }
  s.job.slots = s.job.nodes > 16 ? 1 : static_cast<int>(prng.Between(1, 3));
  s.job.observers = prng.Chance(10) && s.job.places == Places::kSpec ? static_cast<int>(prng.Between(1, 2)) : 0;
  s.policy.max_restarts = static_cast<int>(prng.Chance(50) ? 100 : prng.Between(0, 3));
  s.policy.max_node_losses = static_cast<int>(prng.Chance(60) ? 1000 : prng.Between(0, 3));
  DrawPolicies(prng, s);
  s.limits.lease = s.job.nodes == 1 && s.job.observers == 0 ? 0 : prng.Between(2, 10) * kSecond;
  s.job.coordinator_alone = s.limits.lease > 0 && prng.Chance(20);
  s.limits.reconnect_grace = prng.Between(2, 20) * 100 * kMillisecond;
  s.limits.last_call = prng.Between(0, 3) * kSecond;
  s.limits.join_timeout = prng.Between(40, 60) * kSecond;
  s.limits.rejoin_timeout = prng.Between(20, 60) * kSecond;
  s.limits.coordinator_timeout = prng.Between(20, 60) * kSecond;
  s.limits.shutdown_grace = prng.Skewed(100 * kMillisecond, 10 * kSecond);
  s.limits.termination_grace = prng.Skewed(100 * kMillisecond, 10 * kSecond);
}

void DrawHabits(Prng& prng, Scenario& s) {
  s.workers.run_time = prng.Skewed(200 * kMillisecond, 20 * kSecond);
  s.workers.fails_percent = prng.Chance(30) ? static_cast<int>(prng.Between(1, 40)) : 0;
  s.workers.peers_fail_too = prng.Chance(40);
  s.workers.term_exits_zero_percent = prng.Chance(50) ? 100 : static_cast<int>(prng.Between(0, 100));
  s.workers.term_slow_percent = prng.Chance(40) ? static_cast<int>(prng.Between(1, 60)) : 0;
  s.workers.term_ignored_percent = prng.Chance(30) ? static_cast<int>(prng.Between(1, 40)) : 0;
  s.workers.exec_delay = prng.Skewed(500, 300 * kMillisecond);
  s.workers.descendants_percent = prng.Chance(40) ? static_cast<int>(prng.Between(1, 60)) : 0;
  s.clocks.drift_ppm = prng.Chance(50) ? prng.Between(1, kWorstDriftPpm) : 0;
  s.network.delay = prng.Skewed(100, 50 * kMillisecond);
  if (prng.Chance(25)) {
    s.network.drop_percent = static_cast<int>(prng.Between(0, 20));
    s.network.repeat_percent = static_cast<int>(prng.Between(0, 20));
    s.network.reorder_percent = static_cast<int>(prng.Between(0, 20));
  }
  s.workers.progress_within = prng.Chance(60) ? 0 : prng.Skewed(10 * kMillisecond, 2 * s.workers.run_time);
  s.network.close_is_echoed = prng.Chance(50);
  s.faults.late_start = prng.Chance(50) ? 100 * kMillisecond : prng.Between(1, 10) * kSecond;
}

// From its own stream of random numbers, so that the rest of a seed does not change.
void DrawFitness(Prng prng, Scenario& s) {
  // An unfit node joins late, which counts as a disturbance.
  if (s.faults.only_agents_die || s.mix == "calm") return;
  if (prng.Chance(20)) {
    s.fitness.preflight_timeout = prng.Between(2, 10) * kSecond;
    s.fitness.preflight_time = prng.Skewed(kMillisecond, 3 * kSecond);
    s.fitness.preflight_fails_percent = static_cast<int>(prng.Between(0, 40));
    s.fitness.preflight_hangs_percent = prng.Chance(50) ? static_cast<int>(prng.Between(1, 10)) : 0;
  }
  if (prng.Chance(10)) {
    s.fitness.gpu_release_timeout = prng.Between(1, 10) * kSecond;
    s.fitness.driver_pids = prng.Chance(50);
    s.fitness.gpus_held_percent = prng.Chance(30) ? 99 : static_cast<int>(prng.Between(0, 90));
  }
  s.fitness.has_setup = s.fitness.preflight_timeout > 0 && prng.Chance(30);
}

// A node that imports joins late as well.
void DrawPreload(Prng prng, Scenario& s) {
  if (s.faults.only_agents_die || s.mix == "calm" || !prng.Chance(15)) return;
  s.fitness.preload_time = prng.Skewed(10 * kMillisecond, 20 * kSecond);
  s.fitness.preload_fails_percent = static_cast<int>(prng.Between(0, 40));
  s.fitness.preload_learns = prng.Chance(40);
}

void DrawUnwelcome(Prng prng, Scenario& s) {
  if (prng.Chance(10)) s.unwelcome.strangers_every = prng.Skewed(50 * kMillisecond, 5 * kSecond);
  if (s.faults.only_agents_die || s.mix == "calm" || !prng.Chance(10)) return;
  s.unwelcome.cannot_start_percent = static_cast<int>(prng.Between(5, 50));
}

// Addresses and names that lead elsewhere, and slow name servers. From its own stream too.
void DrawNames(Prng prng, Scenario& s) {
  if (s.limits.lease == 0 || s.faults.only_agents_die || s.mix == "calm") return;
  if (prng.Chance(8)) s.detours.another_job_percent = static_cast<int>(prng.Between(2, 60));
  if (prng.Chance(8)) s.detours.name_lookup = prng.Between(kSecond, kLongestLookup);
}

// Machines that announce their end, and jobs with a deadline. From its own stream.
void DrawEnds(Prng prng, Scenario& s) {
  if (s.faults.only_agents_die || s.faults.total_weight() == 0) return;
  if (prng.Chance(10)) Weight(s, Fault::kNotice) = 1 + s.faults.total_weight() / 5;
  if (!prng.Chance(5)) return;
  s.deadline.at = prng.Between(s.faults.phase / 4, s.faults.phase);
  s.deadline.stop_before = prng.Skewed(100 * kMillisecond, s.deadline.at);
  s.clocks.wall_skew = prng.Chance(50) ? 0 : prng.Skewed(10 * kMillisecond, 5 * kSecond);
}

// From its own stream. Where only agents die, nothing hangs, and nobody may be accused of it.
void DrawHangs(Prng prng, Scenario& s) {
  if (s.job.nodes > kMostWatched || !prng.Chance(15)) return;
  s.hangs.mute_percent = prng.Chance(50) ? static_cast<int>(prng.Between(10, 90)) : 0;
  s.hangs.timeout = prng.Between(1, 8) * kSecond;
  s.hangs.phases_percent = static_cast<int>(prng.Between(0, 100));
  s.hangs.stops_job = prng.Chance(10);
  if (!s.faults.only_agents_die) s.hangs.percent = static_cast<int>(prng.Between(0, 100));
}

// Deferred decisions, as in very large jobs, for a job of any size.
void DrawDeferral(Prng prng, Scenario& s) {
  if (!prng.Chance(15)) return;
  s.deferral.many_hosts = static_cast<int>(prng.Between(1, 3));
  s.deferral.decision_spacing = prng.Skewed(100, 100 * kMillisecond) / s.job.nodes;
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
    s.workers.fails_percent = 0;
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
  s.workers.wrappers_percent = wrappers.Chance(30) ? static_cast<int>(wrappers.Between(1, 100)) : 0;
  DrawDeferral(Prng(seed ^ 0xDEFE2), s);
  DrawHangs(Prng(seed ^ 0x4A26), s);
  DrawPreload(Prng(seed ^ 0x92E10AD), s);
  s.job.run_id_may_repeat = Prng(seed ^ 0x4E07).Chance(25);
  s.people_ask = Prng(seed ^ 0xA5C).Chance(15);
  s.people_order = !s.faults.only_agents_die && Prng(seed ^ 0x02DE2).Chance(8);  // else no worker is ever stopped
  return s;
}

std::string Describe(const Scenario& s) {
  std::string out = absl::StrFormat(
      "%d nodes (%d:%d) x %d, %d observers%s, mix \"%s\", lease %dms, run %dms, delay %dus, restarts %d, losses "
      "%d,"
      " faults for %dms every %dms:",
      s.job.nodes, s.job.min_nodes, s.job.max_nodes, s.job.slots, s.job.observers,
      s.job.coordinator_alone ? ", the coordinator alone" : "", s.mix, s.limits.lease / kMillisecond,
      s.workers.run_time / kMillisecond, s.network.delay, s.policy.max_restarts, s.policy.max_node_losses,
      s.faults.phase / kMillisecond, s.faults.gap / kMillisecond);
  if (s.fitness.preflight_timeout > 0) {
    absl::StrAppendFormat(&out, " %spreflight fails %d%%, hangs %d%%,", s.fitness.has_setup ? "setup or " : "",
                          s.fitness.preflight_fails_percent, s.fitness.preflight_hangs_percent);
  }
  if (s.fitness.preload_time > 0)
    absl::StrAppendFormat(&out, " preload fails %d%%,", s.fitness.preload_fails_percent);
  if (s.fitness.gpu_release_timeout > 0)
    absl::StrAppendFormat(&out, " GPUs held %d%%,", s.fitness.gpus_held_percent);
  if (s.unwelcome.cannot_start_percent > 0)
    absl::StrAppendFormat(&out, " cannot start %d%%,", s.unwelcome.cannot_start_percent);
  if (s.unwelcome.strangers_every > 0)
    absl::StrAppendFormat(&out, " strangers every %dms,", s.unwelcome.strangers_every / kMillisecond);
  if (s.detours.another_job_percent > 0)
    absl::StrAppendFormat(&out, " another job's %d%%,", s.detours.another_job_percent);
  if (s.detours.name_lookup > 0)
    absl::StrAppendFormat(&out, " names take %dms,", s.detours.name_lookup / kMillisecond);
  if (s.deadline.at > 0) {
    absl::StrAppendFormat(&out, " deadline %dms, left %dms before, skew %dms,", s.deadline.at / kMillisecond,
                          s.deadline.stop_before / kMillisecond, s.clocks.wall_skew / kMillisecond);
  }
  if (s.hangs.timeout > 0) {
    absl::StrAppendFormat(&out, " hang timeout %dms%s, %d%% hang, %d%% are silent for a while,",
                          s.hangs.timeout / kMillisecond, s.hangs.stops_job ? " (stop)" : "", s.hangs.percent,
                          s.hangs.phases_percent);
  }
  if (s.troubles.slow_agents > 0)
    absl::StrAppendFormat(&out, " agents start within %dms,", s.troubles.slow_agents / kMillisecond);
  if (s.troubles.agent_fails_percent > 0)
    absl::StrAppendFormat(&out, " agents fail %d%%,", s.troubles.agent_fails_percent);
  if (s.troubles.no_port_percent > 0) absl::StrAppendFormat(&out, " no port %d%%,", s.troubles.no_port_percent);
  if (s.troubles.not_swept_percent > 0)
    absl::StrAppendFormat(&out, " not swept %d%%,", s.troubles.not_swept_percent);
  if (s.workers.told_failures_percent > 0)
    absl::StrAppendFormat(&out, " told failures %d%%,", s.workers.told_failures_percent);
  if (s.clocks.wall_steps > 0)
    absl::StrAppendFormat(&out, " clocks set by %dms,", s.clocks.wall_steps / kMillisecond);
  if (s.workers.early_words_percent > 0)
    absl::StrAppendFormat(&out, " early words %d%%,", s.workers.early_words_percent);
  if (s.workers.late_forks_percent > 0)
    absl::StrAppendFormat(&out, " late forks %d%%,", s.workers.late_forks_percent);
  if (s.sidecars.used) {
    absl::StrAppendFormat(&out, " sidecars back within %dms, %d%% of the ends unproved,",
                          s.sidecars.returns_within / kMillisecond, s.sidecars.unproved_percent);
  }
  if (s.sidecars.second_every > 0)
    absl::StrAppendFormat(&out, " a second sidecar every %dms,", s.sidecars.second_every / kMillisecond);
  if (s.job.hosts_per_machine > 1) absl::StrAppendFormat(&out, " %d hosts a machine,", s.job.hosts_per_machine);
  if (s.detours.refused_streams_percent > 0)
    absl::StrAppendFormat(&out, " streams refused %d%%,", s.detours.refused_streams_percent);
  if (s.detours.stale_names_percent > 0)
    absl::StrAppendFormat(&out, " stale names %d%%,", s.detours.stale_names_percent);
  for (int i = 0; i < kFaultKinds; ++i) {
    if (s.faults.weight[i] != 0) absl::StrAppendFormat(&out, " %s=%d", kFaultNames[i], s.faults.weight[i]);
  }
  return out;
}

}  // namespace muster::simulation
