// MUSTER_LOG_LEVEL, which has no option of its own.
#pragma once

#include "absl/status/statusor.h"
#include "base/core/note.h"
#include "cli/options/settings.h"

namespace muster::cli {

absl::StatusOr<Severity> LogLevel(const Environment& environment);  // info if not set

}  // namespace muster::cli
