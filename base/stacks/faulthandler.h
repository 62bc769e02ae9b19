// Reads the stack that Python's faulthandler writes of the thread that got its signal, as of CPython 3.9 to 3.14.
// Pure.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stacks/rank_snapshot.h"

namespace muster {

// faulthandler names at most 100 frames, in texts of at most 500 characters.
inline constexpr size_t kMaxFaulthandlerBytes = 256 * 1024;

// The main thread, of the last text if there are several. InvalidArgument: there is no such text.
absl::StatusOr<std::vector<PythonThread>> ParseFaulthandler(std::string_view text);

}  // namespace muster
