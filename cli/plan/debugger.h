// --debug: what it contradicts, and the command of the worker that it names. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "agent/platform/machine/interpreter.h"
#include "cli/options/settings.h"

namespace muster::cli {

inline constexpr char kDebugOption[] = "debug";

// pdb, which talks on the terminal.
bool UsesTerminal(const Given<DebugChoice>& debug);

// Options that --debug cannot be used with. no_python: of the plan. of_local: this is a node of `muster local`.
absl::Status CheckDebugOptions(const Settings& settings, bool no_python, bool of_local);

// keyboard: standard input is a terminal with muster in its foreground (HasKeyboard).
absl::Status CheckDebugKeyboard(const Settings& settings, bool keyboard);

// For the whole job, on a node that can run the script: a script that the debugger cannot run is an error (64).
machine::ProgramCheck CheckDebuggedScript(const Settings& settings, const std::string& script,
                                          const machine::FileProbe& probe);

// The interpreter's arguments before the script or -m.
std::vector<std::string> DebuggerArguments(const DebugChoice& choice);

// Ends with kNoModule if the interpreter cannot import debugpy.
inline constexpr int kNoModule = 3;
std::vector<std::string> FindDebugpy(const std::string& interpreter);
machine::ProgramCheck WithoutDebugpy(const Setting<DebugChoice>& debug, const std::string& interpreter);

}  // namespace muster::cli
