// The subcommands. Each takes what follows its name and returns the exit code. One more needs: its name below, a
// row in main.cc's Dispatch and HelpCommand, its help (help.h), and its options (option_table.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace muster::cli {

struct Invocation {
  std::string called_as;  // argv[0]
  char** argv = nullptr;  // of the process, for starting it again
  std::vector<std::string> arguments;
  std::string command = "muster run";  // what the user typed to get here, for help and errors
};

int RunCommand(const Invocation& invocation);
int DeepspeedCommand(const Invocation& invocation);  // called as `deepspeed`
int LocalCommand(const Invocation& invocation);
int LocalNodeCommand(const Invocation& invocation);  // hidden: one node of `muster local`
int EnvCommand(const Invocation& invocation);
int HostfileCommand(const Invocation& invocation);
int CoordinatorCommand(const Invocation& invocation);
int VersionCommand(const Invocation& invocation);

// "muster: --nnodes 0: expected ..." on standard error; the exit code of the status.
int Complain(const absl::Status& status);

// To standard output, all of it or an exit code of ours.
int Print(const std::string& text);

inline constexpr char kLocalCommand[] = "muster local";
inline constexpr char kLocalNodeCommand[] = "local-node";

}  // namespace muster::cli
