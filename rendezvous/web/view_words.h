// What the texts about a job's state, for people and for programs, have in common. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

// It runs and nothing is odd, or it has ended with exit code 0.
bool IsWell(const v1::JobView& view);

const char* PhaseOf(v1::Phase phase);  // "running"

// The word for a value of an enum: "running" for "STATE_RUNNING" with the prefix "STATE_". name: empty for a value
// of a later version.
std::string KeyOf(const std::string& name, std::string_view prefix);

std::string Rfc3339(absl::Time time);  // in UTC, with milliseconds

inline double Seconds(int64_t ms) { return static_cast<double>(ms) / 1000; }

// A rate of a Progress, which is of 1000 s.
inline double PerMinute(int64_t rate) { return static_cast<double>(rate) * 60 / 1000; }

}  // namespace muster::rendezvous
