// Scripts for shell completion. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace muster::cli {

// The script for `bash`, `zsh` or `fish`, made from the tables of subcommands and options; it completes muster,
// torchrun and file names. zsh uses the one for bash. InvalidArgument: another shell.
absl::StatusOr<std::string> CompletionScript(const std::string& shell);

}  // namespace muster::cli
