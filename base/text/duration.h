// Durations as people write them: seconds ("20", "0.5"), or with a unit: "500ms", "20s", "5m", "1h".
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

inline constexpr int kMaxDurationDays = 3650;  // a longer duration is a typing error

// InvalidArgument with one line that names the text: no number, negative, unknown unit, over kMaxDurationDays.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);

std::string FormatDuration(absl::Duration d);  // "500ms", "20s", "2m30s"

}  // namespace muster
