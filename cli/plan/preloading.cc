#include "cli/plan/preloading.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::cli {

absl::Status CheckPreload(const Settings& settings, bool no_python, const std::string& script) {
  const Given<ModuleNames>& preload = settings.workers.preload;
  if (!preload || preload->value.names.empty()) return absl::OkStatus();
  if (no_python) {
    return WrongValue(*preload,
                      "expected a Python script or module that muster starts itself, without --no-python: in a "
                      "program of another kind there is nothing to import");
  }
  if (absl::StrContains(script, "$local_rank") || absl::StrContains(script, "${local_rank}")) {
    return WrongValue(*preload, absl::StrCat("all workers of a node must run one script, and ", script,
                                             " is another one for each: leave --preload out"));
  }
  return absl::OkStatus();
}

std::vector<std::string> ModulesToPreload(const Settings& settings) {
  const Given<ModuleNames>& preload = settings.workers.preload;
  return preload ? preload->value.names : std::vector<std::string>();
}

}  // namespace muster::cli
