// What ended the rounds of this job so far, and what that cost, for people (snapshot.h): nothing is decided by it.
// A new coordinator takes over what members hold of an earlier one's events (event_book.h). Pure.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/core/time.h"
#include "muster/v1/control.pb.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/budgets.h"
#include "rendezvous/core/recovery_times.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxRoundsKept = 50;      // the newest; of earlier ones the number and the time
inline constexpr size_t kMaxEndCauseBytes = 300;  // of a cause, in messages
inline constexpr size_t kMaxCulprits = 4096;      // whose restarts are counted

struct EndedRound {
  uint64_t number = 0;
  EndCause end = EndCause::kMembership;
  bool was_ordered = false;                         // the loss of a node: somebody wanted it
  std::string cause = {};                           // a sentence
  std::set<std::string> culprits = {};              // nodes, as crash_loops.h calls them; empty: none is known
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
  // A node has held these since an earlier coordinator: what they tell of rounds before the first one that has
  // ended here. Counts no restart and no recovery, which are those of this coordinator (docs/metrics.md).
  void Adopt(BootTime now, const google::protobuf::RepeatedPtrField<v1::Event>& held);

  const std::deque<EndedRound>& newest() const { return newest_; }
  int earlier() const { return earlier_; }  // ones that are not among them
  // After how many rounds that ended so another one started.
  int64_t Restarts(EndCause end) const { return restarts_[static_cast<size_t>(end)]; }
  int64_t RestartsCausedBy(const std::string& node) const;
  const RecoveryTimes& recoveries() const { return recoveries_; }
  absl::Duration LostBy(BootTime now) const;  // by all of them

 private:
  EndedRound* Find(uint64_t number);

  std::deque<EndedRound> newest_;  // those of earlier coordinators, by number; then those that have ended here
  uint64_t first_here_ = std::numeric_limits<uint64_t>::max();  // number of the first one of these
  bool is_open_ = false;                                        // no round has started since the newest one ended
  std::optional<BootTime> shows_nothing_since_;                 // the round that runs, after one that ended
  int earlier_ = 0;
  std::array<int64_t, kEndCauses> restarts_ = {};
  std::map<std::string, int64_t> caused_;  // by culprit
  RecoveryTimes recoveries_;
  absl::Duration lost_ = absl::ZeroDuration();  // without an open one
};

v1::EndedRound::Kind KindOf(EndCause end);

// What an event says of this round: once the next one has started, and once that has shown its first sign of life.
v1::Recovery RecoveryFrom(const EndedRound& ended);
v1::Recovery StartAfter(const EndedRound& ended);

}  // namespace muster::rendezvous
