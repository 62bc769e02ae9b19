// Where the time of the job goes, for people (snapshot.h): nothing is decided by it. It begins with this
// coordinator. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

// Each moment is of one kind.
enum class Spent {
  kWaiting,     // for nodes that are missing
  kRestarting,  // from the first trouble of a round to the start of the next one, unless nodes are missing
  kStarting,    // from the start of a round to the first sign of life of a worker
  kWarmingUp,   // from then to the first step
  kStepping,    // in steps
  kRepeating,   // in steps that a round before this one had done
  kRunning,     // a round ran, but its workers show no steps, or are not watched
  kStalled,     // no worker has shown a sign of life for --hang-timeout
};
inline constexpr size_t kSpentKinds = 8;
inline constexpr absl::Duration kSpentEvery = absl::Seconds(1);  // beside each change of the job's state

class TimeLedger {
 public:
  enum class State { kOver, kWaiting, kRestarting, kRunning };
  // The job at one moment.
  struct Moment {
    State state = State::kWaiting;
    uint64_t round = 0;                    // of kRunning
    bool is_watched = false;               // for signs of life
    bool has_shown_signs = false;          // in this round
    BootTime sign = absl::InfinitePast();  // the newest of them
    bool is_stalled = false;
    int64_t step = 0;  // of the median rank; 0: none is known
  };

  // The time since the last call counts as that of this moment.
  void OnTick(BootTime now, const Moment& moment);

  bool IsDue(BootTime now) const { return !last_ || now >= *last_ + kSpentEvery; }

  absl::Duration Of(Spent kind) const;
  v1::TimeSpent ToMessage() const;

 private:
  void BeginRound(uint64_t round);
  void NoteStep(int64_t step);
  Spent KindOf(const Moment& moment) const;
  absl::Duration& At(Spent kind) { return spent_[static_cast<size_t>(kind)]; }

  std::optional<BootTime> last_;
  std::array<absl::Duration, kSpentKinds> spent_ = {};
  uint64_t round_ = 0;
  int64_t step_ = 0;      // the newest of this round; 0: none so far
  int64_t greatest_ = 0;  // of the rounds before it
  int64_t greatest_here_ = 0;
  bool shows_steps_ = false;  // in some round
  // Within a round, as the numbers of epochs do: then it is not known which steps are done again.
  bool steps_begin_again_ = false;
  uint64_t repeated_round_ = 0;  // the newest round that began behind a step before it
  int64_t repeated_from_ = 0;
  int64_t repeated_to_ = 0;
};

}  // namespace muster::rendezvous
