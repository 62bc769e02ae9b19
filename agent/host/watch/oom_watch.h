// Whether a worker was ended by the kernel's out-of-memory killer: our cgroup's counter now against it before.
// Loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace muster::host {

class OomWatch {
 public:
  OomWatch();  // finds the counter of this process's cgroup, v2 or v1; none is no error: nothing is ever said then

  explicit OomWatch(std::string counter_file);  // for tests

  // Before the first worker of a round: what has been counted by now was no worker of it.
  void BeginRound();
  // SIGKILL is sent by us: told before that.
  void WeKill(int local_rank) { killed_by_us_.insert(local_rank); }
  void WeKillAll() { all_killed_by_us_ = true; }

  // Of a worker that a SIGKILL has ended: true if it was not ours, and the counter has grown since the last that
  // was so explained, or since the round began.
  bool WasOomKilled(int local_rank);

  // The number behind "oom_kill " in a memory.events or memory.oom_control file. Pure.
  static std::optional<uint64_t> ParseCount(const std::string& content);

 private:
  std::optional<uint64_t> Read() const;

  std::string path_;  // empty: none
  uint64_t last_ = 0;
  std::set<int> killed_by_us_;
  bool all_killed_by_us_ = false;
};

}  // namespace muster::host
