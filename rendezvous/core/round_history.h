// What ended the rounds of this job so far, and what that cost, for people (snapshot.h): nothing is decided by it.
// A new coordinator begins without one. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/core/time.h"
#include "rendezvous/core/budgets.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxRoundsKept = 50;  // the newest; of earlier ones the number and the time

struct EndedRound {
  uint64_t number = 0;
  EndCause end = EndCause::kMembership;
  std::string cause = {};                   // a sentence
  BootTime trouble = absl::InfinitePast();  // its first sign: until then the round ran
  std::optional<absl::Duration> ran = {};   // nullopt: a coordinator before this one made it
  absl::Duration lost =
      absl::ZeroDuration();  // from then to the start of the next round; zero: it has not started
};

class RoundHistory {
 public:
  void OnEnd(const EndedRound& round);  // again: the newest account of the same round counts
  void OnStart(BootTime now);           // of the next round, or the same one goes on

  const std::deque<EndedRound>& newest() const { return newest_; }
  int earlier() const { return earlier_; }    // ones that are not among them
  absl::Duration LostBy(BootTime now) const;  // by all of them

 private:
  std::deque<EndedRound> newest_;
  bool is_open_ = false;  // no round has started since the newest one ended
  int earlier_ = 0;
  absl::Duration lost_ = absl::ZeroDuration();  // without an open one
};

}  // namespace muster::rendezvous
