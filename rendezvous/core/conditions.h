// Conditions of a job of which somebody should hear, though the job goes on: each is a line in the log and an
// event with a name. Nothing is decided by them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/core/time.h"
#include "rendezvous/core/effects.h"

namespace muster::rendezvous {

struct Job;

inline constexpr absl::Duration kTellAgain = absl::Hours(1);  // of one name, at most once in that time
inline constexpr absl::Duration kStormWindow = absl::Minutes(10);
inline constexpr int kStormRestarts = 3;  // after failures and losses, within kStormWindow
inline constexpr int kSuspectStreak = 2;  // failures in a row with the same node as their root cause
inline constexpr absl::Duration kLongWait = absl::Minutes(5);  // without a round

class Conditions {
 public:
  void OnTick(BootTime now, const Job& job, Effects* out);

 private:
  // text: empty: it does not hold.
  void Tell(BootTime now, const char* name, const std::string& text, const NoteSubject& about, Effects* out);
  std::string SparesGone(BootTime now, const Job& job);
  std::string WaitsLong(BootTime now, const Job& job);

  std::map<std::string_view, BootTime> told_;  // by name
  BootTime looked_at_ = absl::InfinitePast();
  uint64_t spares_in_round_ =
      0;  // number of the newest round beside which spares waited; 0: none since it was told
  BootTime ran_at_ = absl::InfinitePast();  // a round, when it was looked at last
};

}  // namespace muster::rendezvous
