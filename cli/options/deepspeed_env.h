// DeepSpeed's .deepspeed_env: variables for the workers of all nodes. Pure.
//
// Source: DeepSpeed's launcher/runner.py (commit edaa72212) reads ~/.deepspeed_env and ./.deepspeed_env, or those
// named by DS_ENV_FILE, splits each line at its first '=' and exports the rest unchanged. A line without '=' ends
// it with a traceback; here blank lines and comments are skipped, and other such lines are reported.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/options/settings.h"

namespace muster::cli {

inline constexpr size_t kMaxDeepspeedEnvBytes = 1 << 20;

// InvalidArgument: one line that names `file` and the line.
absl::StatusOr<Environment> ParseDeepspeedEnv(const std::string& file, std::string_view text);

}  // namespace muster::cli
