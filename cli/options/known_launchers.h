// Detects command lines that start a launcher or an interpreter inside of muster: `muster run python train.py`,
// `muster run torchrun ...`, `muster run bash -c ...`. Pure.
#pragma once

#include <optional>
#include <string>

#include "cli/options/command_line.h"

namespace muster::cli {

// The line to type instead if the script is an interpreter or another launcher; nullopt: it is a script. Call it
// only without --no-python and --module. is_file: a file of that name exists, so it is taken for a script.
std::optional<std::string> LineInstead(const CommandLine& line, bool is_file);

// The line with --no-python for a shell or a shell script, `bash -c ...` or `x.sh`, which Python cannot run;
// otherwise as above.
std::optional<std::string> ShellLineInstead(const CommandLine& line, bool is_file);

}  // namespace muster::cli
