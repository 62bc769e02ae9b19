// Reads the stacks that Python's faulthandler writes, as of CPython 3.9 to 3.14. Pure.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/picture/rank_picture.h"

namespace muster {

// It names at most 100 threads and 100 frames of each, in texts of at most 500 characters.
inline constexpr size_t kMaxFaulthandlerBytes = 16 << 20;

// The thread that wrote it first, which is the main one if the signal was sent to that; others in their order, at
// most kMaxPythonThreads. InvalidArgument: it is not such a text, or its writer is not among the threads: then it
// is not complete.
absl::StatusOr<std::vector<PythonThread>> ParseFaulthandler(std::string_view text);

}  // namespace muster
