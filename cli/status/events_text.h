// How a job's events are shown to people. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>

#include "absl/time/time.h"
#include "muster/v1/control.pb.h"

namespace muster::cli {

// A line for each. now: the moment of the answer; zone: of the times that are shown.
std::string EventsText(const v1::Events& events, absl::Time now, absl::TimeZone zone);

// Leaves out of `events` what was shown already, and notes what is shown now.
inline constexpr size_t kMaxShownRemembered = 100'000;

class ShownEvents {
 public:
  void KeepNew(v1::Events* events);

 private:
  std::set<std::tuple<uint64_t, uint64_t, uint64_t>> shown_;  // epochs and numbers
};

}  // namespace muster::cli
