// Lines by which people start a launcher inside of ours: `muster run python train.py`, `muster run torchrun ...`.
// Pure.
#pragma once

#include <optional>
#include <string>

#include "cli/options/command_line.h"

namespace muster::cli {

// The line to type instead, if the script is an interpreter or another launcher; nullopt: it is a script. For
// lines whose script is neither a program (--no-python) nor a module. is_file: a file of that name is here, so it
// may be one after all.
std::optional<std::string> LineInstead(const CommandLine& line, bool is_file);

}  // namespace muster::cli
