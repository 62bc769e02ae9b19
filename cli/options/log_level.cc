#include "cli/options/log_level.h"

#include "absl/strings/str_cat.h"
#include "base/console/log.h"

namespace muster::cli {
namespace {

constexpr char kLevelVariable[] = "MUSTER_LOG_LEVEL";

}  // namespace

absl::StatusOr<Severity> LogLevel(const Environment& environment) {
  Severity severity = Severity::kInfo;
  const auto found = environment.find(kLevelVariable);
  if (found == environment.end() || found->second.empty() || ParseSeverity(found->second, &severity))
    return severity;
  return absl::FailedPreconditionError(
      absl::StrCat(ShownWithValue(kLevelVariable, found->second), ": expected debug, info, warning or error"));
}

}  // namespace muster::cli
