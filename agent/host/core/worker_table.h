// The workers of one round on this node, by local rank, and how far each has come. States only move forward. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

inline constexpr size_t kMaxWorkersNamed = 8;  // in a message; further ones are counted

inline constexpr absl::Duration kSayFinishing = absl::Seconds(1);  // from a wrapper's end to the message about it

class WorkerTable {
 public:
  void Reset(int slots);  // slots: one worker each, none of which executes yet
  void Clear() { workers_.clear(); }

  void OnSpawned(const std::vector<v1::Worker>& workers);
  bool OnExecuting(int local_rank);  // false: unknown, or reported before
  // Records the end of a worker's first process. rest_lives: spared processes of its session are still alive.
  // Returns the pid (0: not known), or nullopt if the worker is unknown or its end was reported before.
  std::optional<int64_t> OnExit(BootTime now, int local_rank, bool rest_lives);
  // The spared processes of this worker have ended; OnExit of its first process may still be to come.
  void OnRestEnded(int local_rank);
  void
  OnSwept();  // the sweep has ended all spared processes, also those of workers that OnExit is still to report

  int live() const;  // workers of which anything may be alive
  // "rank 3 (pid 812), rank 4 (pid 813) and 6 more"; ranks are counted from first_rank.
  std::string NamesOfLive(int first_rank) const;
  // The first worker that does not execute yet.
  struct NotStarted {
    int local_rank = 0;
    int64_t pid = 0;
  };
  std::optional<NotStarted> FindNotStarted() const;
  // Local ranks of workers whose spared processes have been finishing for kSayFinishing; each is returned once.
  std::vector<int> TakeFinishing(BootTime now);

  void Describe(v1::HostStatus* status) const;  // adds the live workers

 private:
  enum class State {
    kSpawned,
    kExecuting,
    kFinishing,  // its first process has ended, spared processes of its session have not
    kEnded
  };
  struct Worker {
    int64_t pid = 0;  // 0: not known, or no process could be created
    uint64_t start_ticks = 0;
    State state = State::kSpawned;
    BootTime ended_at = absl::InfinitePast();  // when its first process ended
    bool rest_ended = false;
    bool said_that_it_finishes = false;
  };

  static void EndRest(Worker* worker);

  std::map<int, Worker> workers_;
};

}  // namespace muster::host
