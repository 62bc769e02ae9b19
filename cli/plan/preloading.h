// --preload: what is imported ahead, and what it contradicts. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/options/settings.h"

namespace muster::cli {

// no_python: of the plan. script: as typed.
absl::Status CheckPreload(const Settings& settings, bool no_python, const std::string& script);

// In the order of their import; empty: nothing is preloaded.
std::vector<std::string> ModulesToPreload(const Settings& settings);

}  // namespace muster::cli
