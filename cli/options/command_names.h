// The subcommands that people type, as errors list them and the shell completes them.
#pragma once

namespace muster::cli {

inline constexpr const char* kCommands[] = {"run", "local", "env", "hostfile", "coordinator", "version", "help"};

}  // namespace muster::cli
