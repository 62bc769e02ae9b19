// The exit code of an error of this folder.
#pragma once

#include "absl/status/status.h"
#include "base/exit_codes.h"

namespace muster::cli {

// Errors of this folder carry their exit code in their kind: InvalidArgument 64, FailedPrecondition 65,
// PermissionDenied 126, NotFound 127; anything else is a fault of ours.
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
