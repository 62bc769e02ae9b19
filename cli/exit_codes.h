// The exit codes that muster itself chooses; a worker's own code passes through beside them.
#pragma once

#include "absl/status/status.h"

namespace muster::cli {

inline constexpr int kExitUsage = 64;           // something on the command line is wrong
inline constexpr int kExitBadEnvironment = 65;  // a variable or what the platform says is wrong
inline constexpr int kExitUnreachable = 69;     // no coordinator, or too few nodes
inline constexpr int kExitOurFault = 70;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignalBase = 128;  // 128 + the signal's number

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
      return kExitOurFault;
  }
}

}  // namespace muster::cli
