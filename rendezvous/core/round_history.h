// What ended the rounds of this job so far, and what that cost, for people (snapshot.h): nothing is decided by it.
// A new coordinator begins without one. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/core/time.h"
#include "rendezvous/core/budgets.h"
#include "rendezvous/core/recovery_times.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxRoundsKept = 50;  // the newest; of earlier ones the number and the time

struct EndedRound {
  uint64_t number = 0;
  EndCause end = EndCause::kMembership;
  std::string cause = {};                           // a sentence
  BootTime trouble = absl::InfinitePast();          // its first sign: until then the round ran
  std::optional<absl::Duration> ran = {};           // nullopt: a coordinator before this one made it
  absl::Duration detecting = absl::ZeroDuration();  // from then until the round was told to end
  absl::Duration draining = absl::ZeroDuration();   // until its workers had ended
  // Until the next round started, and all three together; zero: it has not.
  absl::Duration gathering = absl::ZeroDuration();
  absl::Duration lost = absl::ZeroDuration();
  // From that start to the first sign of life of a worker that was heard of, with a node's status; nullopt: there
  // was none, or nobody looked.
  std::optional<absl::Duration> starting = {};
};

class RoundHistory {
 public:
  void OnEnd(const EndedRound& round);  // again: the newest account of the same round counts
  // The next round starts, or the same one goes on. True: it ends a recovery.
  bool OnStart(BootTime now);
  bool OnSignOfLife(BootTime at);  // of a worker of the round that runs. True: it is the first after a recovery

  const std::deque<EndedRound>& newest() const { return newest_; }
  int earlier() const { return earlier_; }  // ones that are not among them
  // After how many rounds that ended so another one started.
  int64_t Restarts(EndCause end) const { return restarts_[static_cast<size_t>(end)]; }
  const RecoveryTimes& recoveries() const { return recoveries_; }
  absl::Duration LostBy(BootTime now) const;  // by all of them

 private:
  std::deque<EndedRound> newest_;
  bool is_open_ = false;                         // no round has started since the newest one ended
  std::optional<BootTime> shows_nothing_since_;  // the round that runs, after one that ended
  int earlier_ = 0;
  std::array<int64_t, kEndCauses> restarts_ = {};
  RecoveryTimes recoveries_;
  absl::Duration lost_ = absl::ZeroDuration();  // without an open one
};

}  // namespace muster::rendezvous
