// --preload: what is imported ahead, and what it contradicts. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "agent/host/core/host_options.h"
#include "agent/host/launch_plan.h"
#include "agent/platform/machine/interpreter.h"
#include "cli/options/settings.h"

namespace muster::cli {

// no_python: of the plan. script: as typed.
absl::Status CheckPreload(const Settings& settings, bool no_python, const std::string& script);

host::PreloadOptions PreloadOf(const Settings& settings);

// Where the list of `auto` is kept: in $XDG_CACHE_HOME, or $HOME/.cache. interpreter: its path. folder: the
// current one. script: as typed; a file that has changed is another script.
host::LearnedModules LearnedModulesOf(const machine::Environment& environment, const std::string& interpreter,
                                      const std::string& folder, const std::string& script,
                                      const machine::FileProbe& probe);

}  // namespace muster::cli
