// Reads what `py-spy dump --json` prints. Pure.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stacks/rank_snapshot.h"

namespace muster {

inline constexpr char kStackTool[] = "py-spy";     // looked for beside the workers' interpreter, then on PATH
inline constexpr size_t kMaxPySpyBytes = 4 << 20;  // a process with 1,000 Python threads has about 1 MiB

// The main thread first, others in the tool's order, at most kMaxPythonThreads. pid: of the process that was
// looked at: the thread with this number is the main one. InvalidArgument: it is not what py-spy 0.3.12 and later
// print.
absl::StatusOr<std::vector<PythonThread>> ParsePySpy(std::string_view json, int64_t pid);

}  // namespace muster
