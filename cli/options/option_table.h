// Every option of `muster run`, once: the parser, the environment's variables, the help text and `muster env` all
// read this table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

enum class Group { kMembership, kWorkers, kRestarts, kTimes, kProgram, kOutput, kTorchrun, kOther };

struct OptionSpec {
  std::string_view name;   // with dashes, without the leading two
  std::string_view value;  // what stands for the value in the help text; empty: a switch
  Group group;
  bool torchrun;  // torchrun has it, so its PET_ variable counts
  std::string_view help;
  char shorthand = 0;  // 0: none

  bool is_switch() const { return value.empty(); }
  bool value_is_optional() const { return value.starts_with('['); }  // "[=NAME]": only behind an equals sign
};

const std::vector<OptionSpec>& RunOptions();

// Whether it says how often to go on, which `muster coordinator` is told where there is one, and no node.
bool IsTheCoordinators(std::string_view name);

// RunOptions() and those that the subcommand has beside them.
const std::vector<OptionSpec>& LocalOptions();
const std::vector<OptionSpec>& EnvOptions();
const std::vector<OptionSpec>& HostfileCommandOptions();

const std::vector<OptionSpec>& CoordinatorCommandOptions();  // some of them, and --listen

const OptionSpec* FindOption(const std::vector<OptionSpec>& table, std::string_view name);  // nullptr: none

std::string VariableName(std::string_view prefix, std::string_view option);  // "MUSTER_", "node-rank"

}  // namespace muster::cli
