// Splits a command line into our options, the script and its arguments, as Python's argparse does for torchrun.
// Does not interpret values. Pure. (CLI11 is not used: it has no abbreviations, which many existing command lines
// use.)
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/options/option_spec.h"

namespace muster::cli {

inline constexpr char kSwitchGiven[] = "true";
inline constexpr char kTorchrun[] = "torchrun";  // the command, if muster was called by this name

struct CommandLine {
  std::map<std::string, std::string> given;   // by option name; kSwitchGiven for a switch; the last one counts
  std::string script;                         // empty: none
  std::vector<std::string> script_arguments;  // verbatim
  bool help = false;
  bool as_torchrun = false;                // the command is kTorchrun: torchrun's own reading decides
  std::vector<std::string> hosts = {};     // of a deepspeed line's hostfile, by rank
  std::vector<std::string> warnings = {};  // of the reading of a launcher's line
};

// args: the words after the subcommand. Accepts `--flag value`, `--flag=value`, `-r 3`, `-r3`, dashes or
// underscores, and unique abbreviations. The first word that is not an option is the script; all words after it
// are its arguments, but for one "--" right after it if the command is kTorchrun. command: the command whose
// --help an error refers to. InvalidArgument with one line that names the option.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<OptionSpec>& table,
                                             const std::vector<std::string>& args,
                                             std::string_view command = "muster run");

}  // namespace muster::cli
