// The table of all options of `muster run`. The parser, the variables, the help text and `muster env` read it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

enum class Group { kMembership, kWorkers, kRestarts, kTimes, kProgram, kOutput, kTorchrun, kOther };

struct OptionSpec {
  std::string_view name;   // with dashes, without the leading two
  std::string_view value;  // placeholder of the value in the help text; empty: the option is a switch
  Group group;
  bool torchrun;  // torchrun has this option, so its PET_ variable is read, too
  std::string_view help;
  char shorthand = 0;  // 0: none

  bool is_switch() const { return value.empty(); }
  bool value_is_optional() const { return value.starts_with('['); }  // "[=NAME]": only after an equals sign
};

const std::vector<OptionSpec>& RunOptions();

// Whether the option is part of the restart policy, which a separate `muster coordinator` takes from its own
// command line; nodes ignore theirs then.
bool IsRestartPolicyOption(std::string_view name);

// A subcommand's own options and RunOptions(), in this order. For the table of a subcommand, which is never freed.
const std::vector<OptionSpec>* WithRunOptions(const std::vector<OptionSpec>& own);

const std::vector<OptionSpec>& CoordinatorCommandOptions();  // some of RunOptions(), and --listen

// A variable of muster that has no option.
struct VariableSpec {
  std::string_view name;  // after MUSTER_
  std::string_view help;
};
const std::vector<VariableSpec>& OwnVariables();

const OptionSpec* FindOption(const std::vector<OptionSpec>& table, std::string_view name);  // nullptr: none

std::string VariableName(std::string_view prefix, std::string_view option);  // "MUSTER_", "node-rank"

}  // namespace muster::cli
