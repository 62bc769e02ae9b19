// Hardships that a seed may draw: trouble of single nodes and of the way to the coordinator, in addition to any
// mix of faults. Each group has its own stream of random numbers, so that a new group does not change the others.
#include <algorithm>

#include "tests/simulation/scripts.h"

namespace muster::simulation {
namespace {

constexpr int kMostWithHardships = 256;  // nodes: larger jobs have enough events

void DrawTroubles(Prng prng, Scenario& s) {
  if (s.mix == "calm" || s.faults.only_agents_die || s.script.kind != Script::kNone) return;
  if (prng.Chance(15) && !s.job.coordinator_alone && s.limits.lease > 0)
    s.job.serves_if_local = s.job.places != Places::kSpec;
  if (prng.Chance(6)) s.troubles.slow_agents = prng.Skewed(100 * kMillisecond, 4 * kSecond);
  if (prng.Chance(6)) s.troubles.agent_fails_percent = static_cast<int>(prng.Between(5, 60));
  if (prng.Chance(6)) s.troubles.no_port_percent = static_cast<int>(prng.Between(5, 60));
  if (prng.Chance(6)) s.troubles.not_swept_percent = static_cast<int>(prng.Between(20, 100));
  if (prng.Chance(6)) s.workers.told_failures_percent = static_cast<int>(prng.Between(10, 90));
  if (s.clocks.wall_skew == 0 && s.deadline.at > 0 && prng.Chance(50))
    s.clocks.wall_steps = prng.Skewed(100 * kMillisecond, 5 * kSecond);
}

// A node that no other node's address leads to serves once the primary's address has led somebody to it.
void DrawAddress(Prng prng, Scenario& s) {
  if (!s.job.serves_if_local || s.job.places != Places::kByRank) return;
  s.job.address_is_nobodys = prng.Chance(40);
  s.job.equal_ranks = prng.Chance(40);
}

// Two hosts of one job in two containers of a machine: they share its clock, its address and its end.
void DrawSharedMachines(Prng prng, Scenario& s) {
  if (s.limits.lease == 0 || s.job.nodes == 1 || s.script.kind != Script::kNone || !prng.Chance(8)) return;
  s.job.hosts_per_machine = static_cast<int>(prng.Between(2, 3));
}

// Refused or reset streams, and names that lead some nodes elsewhere.
void DrawDetours(Prng prng, Scenario& s) {
  if (s.limits.lease == 0 || s.faults.only_agents_die || s.mix == "calm" || s.script.kind != Script::kNone) return;
  if (prng.Chance(6)) s.detours.refused_streams_percent = static_cast<int>(prng.Between(5, 70));
  if (prng.Chance(6)) s.detours.stale_names_percent = static_cast<int>(prng.Between(2, 40));
}

// Error files: a worker writes down its failure with the wall-clock time, and ends later.
void DrawEarlyWords(Prng prng, Scenario& s) {
  if (s.faults.only_agents_die || s.mix == "calm" || !prng.Chance(12)) return;
  s.workers.early_words_percent = static_cast<int>(prng.Between(20, 100));
  if (s.deadline.at > 0) return;  // the deadline's own draw sets the clocks
  s.clocks.wall_skew = prng.Chance(50) ? prng.Skewed(10 * kMillisecond, 100 * kSecond) : 0;
  if (prng.Chance(20)) s.clocks.wall_steps = prng.Skewed(100 * kMillisecond, 5 * kSecond);
}

void DrawLateForks(Prng prng, Scenario& s) {
  if (s.workers.descendants_percent > 0 && prng.Chance(30))
    s.workers.late_forks_percent = static_cast<int>(prng.Between(5, 50));
}

void DrawSidecars(Prng prng, Scenario& s) {
  if (s.script.kind != Script::kNone || !prng.Chance(10)) return;
  s.sidecars.used = true;
  s.sidecars.returns_within = prng.Skewed(10 * kMillisecond, 20 * kSecond);
  s.sidecars.unproved_percent = prng.Chance(30) ? static_cast<int>(prng.Between(10, 100)) : 0;
  s.sidecars.second_every = prng.Chance(20) ? prng.Skewed(kSecond, 20 * kSecond) : 0;
  if (s.mix == "calm") s.sidecars.returns_within = std::min(s.sidecars.returns_within, kSecond);
  if (!s.faults.only_agents_die) return;
  // Back before the coordinator drains the round.
  s.sidecars.returns_within = std::min(s.sidecars.returns_within, s.limits.reconnect_grace / 4);
  s.sidecars.second_every = 0;
}

}  // namespace

void DrawHardships(uint64_t seed, Scenario& s) {
  if (s.job.nodes > kMostWithHardships) return;
  DrawTroubles(Prng(seed ^ 0x4A2D), s);
  DrawAddress(Prng(seed ^ 0xADD2E), s);
  DrawSharedMachines(Prng(seed ^ 0x5A2ED), s);
  DrawDetours(Prng(seed ^ 0xDE702), s);
  DrawEarlyWords(Prng(seed ^ 0xEA21), s);
  DrawLateForks(Prng(seed ^ 0xF02C), s);
  DrawSidecars(Prng(seed ^ 0x51DECA2), s);
}

}  // namespace muster::simulation
