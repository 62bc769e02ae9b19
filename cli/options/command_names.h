// The public subcommands, for error messages and shell completion.
#pragma once

namespace muster::cli {

inline constexpr const char* kCommands[] = {"run", "local", "env", "hostfile", "coordinator", "version", "help"};

}  // namespace muster::cli
