// Splits a command line into our options and what belongs to the script, as Python's argparse does for torchrun.
// Knows no option's meaning. Pure. (Not CLI11: it knows no abbreviations, and thousands of lines have them.)
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/options/option_table.h"

namespace muster::cli {

inline constexpr char kSwitchGiven[] = "true";

struct CommandLine {
  std::map<std::string, std::string> given;   // by the option's name; kSwitchGiven; the last one counts
  std::string script;                         // empty: none was given
  std::vector<std::string> script_arguments;  // verbatim, whatever they look like
  bool help = false;
};

// args: what follows the subcommand. `--flag value`, `--flag=value`, `-r 3`, `-r3`, dashes or underscores, names
// cut short where they stay clear; the first word that is no option is the script, and all after it the script's.
// command: whose --help an error points to. InvalidArgument with one line that names the option.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<OptionSpec>& table,
                                             const std::vector<std::string>& args,
                                             std::string_view command = "muster run");

}  // namespace muster::cli
