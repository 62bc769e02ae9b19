// The subcommands. Each takes the words after its name and returns the exit code. A new one needs a declaration
// here, a row in main.cc's Dispatch and HelpCommand, a help text (help.h) and its options (option_table.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace muster::cli {

struct Invocation {
  std::string called_as;  // argv[0]
  char** argv = nullptr;  // of the process, for executing it again
  std::vector<std::string> arguments;
  std::string command = "muster run";  // the command as typed, for help and errors
};

int RunCommand(const Invocation& invocation);
int DeepspeedCommand(const Invocation& invocation);  // for a link named deepspeed
int LocalCommand(const Invocation& invocation);
int LocalNodeCommand(const Invocation& invocation);  // internal: one node of `muster local`
int EnvCommand(const Invocation& invocation);
int HostfileCommand(const Invocation& invocation);
int CoordinatorCommand(const Invocation& invocation);
int VersionCommand(const Invocation& invocation);

// Prints "muster: --nnodes 0: expected ..." to standard error; returns the exit code of the status.
int Complain(const absl::Status& status);

// Prints to standard output; returns 0, or an exit code if not all of it could be written.
int Print(const std::string& text);

inline constexpr char kLocalCommand[] = "muster local";
inline constexpr char kLocalNodeCommand[] = "local-node";

}  // namespace muster::cli
