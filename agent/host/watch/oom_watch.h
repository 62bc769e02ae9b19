// Detects whether the kernel's out-of-memory killer ended a worker, by comparing the counter of muster's cgroup
// with its earlier value. Lives on the loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace muster::host {

class OomWatch {
 public:
  // Finds the counter of this process's cgroup, v2 or v1. Without one no worker is ever reported.
  OomWatch();

  explicit OomWatch(std::string counter_file);  // for tests

  // Call it before the first worker of a round is spawned: earlier kills were not workers of this round.
  void BeginRound();
  // Call before muster itself sends SIGKILL to a worker, or to all.
  void WeKill(int local_rank) { killed_by_us_.insert(local_rank); }
  void WeKillAll() { all_killed_by_us_ = true; }

  // For a worker that SIGKILL has ended: true if the signal was not muster's and the counter has grown since this
  // last returned true, or since the round began.
  bool WasOomKilled(int local_rank);

  // The number behind "oom_kill " in a memory.events or memory.oom_control file. Pure.
  static std::optional<uint64_t> ParseCount(const std::string& content);

 private:
  std::optional<uint64_t> Read() const;

  std::string path_;  // of the counter; empty: none
  uint64_t last_ = 0;
  std::set<int> killed_by_us_;
  bool all_killed_by_us_ = false;
};

}  // namespace muster::host
