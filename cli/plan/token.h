// MUSTER_TOKEN, which the nodes of a job share. It has no option: every user can read a command line.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/environment.h"

namespace muster::cli {

inline constexpr char kTokenVariable[] = "MUSTER_TOKEN";
inline constexpr size_t kMaxTokenBytes = 4096;  // gRPC accepts 8 KiB for all headers of a call

// Empty: not set. FailedPrecondition: it cannot be sent.
absl::StatusOr<std::string> TokenOf(const Environment& environment);

}  // namespace muster::cli
