// Maps errors of the command line to exit codes.
#pragma once

#include "absl/status/status.h"
#include "base/exit_codes.h"

namespace muster::cli {

// The status code determines the exit code: InvalidArgument 64, FailedPrecondition 65, PermissionDenied 126,
// NotFound 127; any other is an internal error, 70.
inline int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kFailedPrecondition:
      return kExitBadEnvironment;
    case absl::StatusCode::kPermissionDenied:
      return kExitNotExecutable;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    default:
      return kExitFault;
  }
}

}  // namespace muster::cli
