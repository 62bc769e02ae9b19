// Reads the settings from the command line and from variables. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "cli/options/command_line.h"
#include "cli/options/settings.h"

namespace muster::cli {

// Precedence: command line, MUSTER_*, then PET_* for options of torchrun. An empty variable counts as not set, and
// so does an empty value of the options for which torchrun accepts one.
absl::StatusOr<Settings> ReadSettings(const CommandLine& command_line, const Environment& environment);

}  // namespace muster::cli
