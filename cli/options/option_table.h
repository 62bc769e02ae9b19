// The table of all options of `muster run`. The parser, the variables, the help text and `muster env` read it.
#pragma once

#include <string_view>
#include <vector>

#include "cli/options/option_spec.h"

namespace muster::cli {

const std::vector<OptionSpec>& RunOptions();

// Whether the option is part of the restart policy, which a separate `muster coordinator` takes from its own
// command line; nodes ignore theirs then.
bool IsRestartPolicyOption(std::string_view name);

// Whether a node ignores its own value if it uses a separate coordinator: the restart policy, the lease, and the
// limits of gathering but --join-timeout, which also limits how long the node looks for the coordinator.
bool IsCoordinatorsOption(std::string_view name);

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
