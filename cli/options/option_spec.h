// What is known of one option: its name, its help, and how its value is read.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace muster::cli {

enum class Group { kMembership, kWorkers, kRestarts, kTimes, kProgram, kOutput, kTorchrun, kOther };

struct Settings;
template <typename T>
struct Setting;

// How an option's value is read (option_readers.h).
struct ValueReader {
  // Parses the text and stores the value. The error has only the reason. Empty: the subcommand reads the text
  // itself.
  std::function<absl::Status(std::string_view option, const Setting<std::string>& given, Settings* settings)> read;
  // The default, as it would be typed; it also ends the help text. Empty: the plan decides it, or there is none.
  std::string_view fallback = {};
  std::string limits = {};  // a sentence of the help text: "From 1 to 65535."
};

// Flags of an option.
enum : unsigned {
  kOwn = 0,           // torchrun has no such option
  kPet = 1,           // torchrun has it, so its PET_ variable is read, too
  kJob = 2,           // the same on all nodes; `muster coordinator` has it, too
  kMayBeEmpty = 4,    // an empty value counts as not given, as for torchrun: --rdzv-conf "$CONF"
  kNoVariable = 8,    // torchrun reads no PET_ variable for it
  kKeepsBlanks = 16,  // blanks around the value are part of it
  kDecides = 32,      // the coordinator alone acts by it: with --coordinator a node's value is ignored
  kCompared = 64,     // nodes report their values, and the coordinator names those that differ
  kPolicy = kJob | kDecides | kCompared,
};

struct OptionSpec {
  std::string_view name;   // with dashes, without the leading two
  std::string_view value;  // placeholder of the value in the help text; empty: the option is a switch
  Group group;
  unsigned flags;
  std::string_view help;
  ValueReader reader = {};
  char shorthand = 0;                    // 0: none
  const char* torch_variable = nullptr;  // a variable of torch that sets it, besides that with PET_

  bool has(unsigned flag) const { return (flags & flag) != 0; }
  bool is_switch() const { return value.empty(); }
  bool value_is_optional() const { return value.starts_with('['); }  // "[=NAME]": only after an equals sign
};

const OptionSpec* FindOption(const std::vector<OptionSpec>& table, std::string_view name);  // nullptr: none

std::string VariableName(std::string_view prefix, std::string_view option);  // "MUSTER_", "node-rank"

}  // namespace muster::cli
