// How fast each worker of a round makes steps, as far as it shows them: by numbers in its lines, or by touches of
// its heartbeat file. For the coordinator, which compares them (rendezvous/core/stragglers.h). Pure.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "base/core/time.h"

namespace muster::host {

// The step of the newest line that has one: tqdm's " 12%|#2   | 120/1000 [00:10<01:20", else the first of "step
// 120", "Iteration: 120/1000", "global_step=120". nullopt: no line has any.
std::optional<int64_t> StepIn(std::string_view lines);

// What shows a step. Each is a count of its own: a worker may show different ones in its two streams.
enum class StepSource { kOut, kErr, kHeartbeat };

struct StepSeen {
  int local_rank = 0;
  StepSource source = StepSource::kOut;
  int64_t number = 0;  // of the newest step; of a heartbeat it does not matter
};

inline constexpr absl::Duration kRateWindow = absl::Seconds(60);  // steps that are older do not count
inline constexpr size_t kLeastSightings = 5;  // but so many always do; with fewer no rate is known

// The rate of one source. Steps may be seen rarely and many at once, as with a line for each 50, so it is that
// between the first and the last sighting in the window; what has come since then counts once it is late.
class StepRate {
 public:
  // A number below the one before it belongs to another epoch, which begins there. The same one is no step.
  void OnNumber(BootTime now, int64_t number);
  void OnTouch(BootTime now) { Note(now, 1); }
  // Steps in 1000 s; 0: not known. At least 1 if it is.
  int64_t In1000Seconds(BootTime now) const;
  int64_t newest() const { return number_.value_or(0); }  // 0: none so far
  BootTime changed_at() const { return sightings_.empty() ? absl::InfinitePast() : sightings_.back().at; }

 private:
  struct Sighting {
    BootTime at;
    int64_t count = 0;  // of steps until then
  };
  void Note(BootTime now, int64_t steps);

  std::deque<Sighting> sightings_;
  std::optional<int64_t> number_;
};

class StepRates {
 public:
  void BeginRound(int workers) { workers_.assign(static_cast<size_t>(workers), {}); }
  void EndRound() { workers_.clear(); }
  void OnTick(BootTime now) { now_ = now; }
  void OnSeen(BootTime now, const std::vector<StepSeen>& seen);
  // A worker that has ended makes no more steps, and does not count as slow.
  void OnEnded(int local_rank);

  // At the newest tick: steps, and touches, in 1000 s, by local rank, of the first kMaxRanksSent; 0: not known.
  // Touches are seen once a second at most, so the two cannot be compared. Of two streams the faster one counts.
  std::vector<int64_t> ByLines() const;
  std::vector<int64_t> ByTouches() const;
  // The newest step in the lines of each of them; 0: none. Of two streams the one counts that changed last: a bar
  // that is full may stay in the other one.
  std::vector<int64_t> Newest() const;

 private:
  using Worker = std::array<StepRate, 3>;  // by source
  Worker* Find(int local_rank);
  template <typename Value>
  std::vector<int64_t> ByRank(Value value_of) const;
  int64_t RateOf(const Worker& worker, StepSource source) const {
    return worker[static_cast<size_t>(source)].In1000Seconds(now_);
  }

  std::vector<Worker> workers_;  // empty: no round
  BootTime now_ = absl::InfinitePast();
};

}  // namespace muster::host
