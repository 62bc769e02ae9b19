// The table of all options of `muster run`. The parser, the variables, the help text and `muster env` read it.
#pragma once

#include <string_view>
#include <vector>

#include "cli/options/option_spec.h"

namespace muster::cli {

const std::vector<OptionSpec>& RunOptions();

bool HasFlag(std::string_view option, unsigned flag);  // false if `muster run` has no such option

// A subcommand's own options and RunOptions(), in this order. For the table of a subcommand, which is never freed.
const std::vector<OptionSpec>* WithRunOptions(const std::vector<OptionSpec>& own);

const std::vector<OptionSpec>& CoordinatorCommandOptions();  // some of RunOptions(), and --listen

// A variable of muster that has no option.
struct VariableSpec {
  std::string_view name;  // after MUSTER_
  std::string_view help;
};
const std::vector<VariableSpec>& OwnVariables();

}  // namespace muster::cli
