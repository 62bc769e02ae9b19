// Scripts by which a shell completes our options. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace muster::cli {

// For `bash` or `zsh`, from the table of options; it completes muster, torchrun and the names of files. zsh reads
// bash's completion. InvalidArgument: another shell.
absl::StatusOr<std::string> CompletionScript(const std::string& shell);

}  // namespace muster::cli
