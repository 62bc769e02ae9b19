#include "cli/plan/preloading.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/crypto/digest.h"
#include "base/text/text.h"

namespace muster::cli {
namespace {

constexpr size_t kKeyDigits = 16;  // of the name of a kept list

}  // namespace

absl::Status CheckPreload(const Settings& settings, bool no_python, const std::string& script) {
  const Given<ModuleNames>& preload = settings.workers.preload;
  if (!preload || preload->value.IsNothing()) return absl::OkStatus();
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

host::PreloadOptions PreloadOf(const Settings& settings) {
  const Given<ModuleNames>& preload = settings.workers.preload;
  if (!preload) return {};
  return {.modules = preload->value.names, .learns = preload->value.are_learned};
}

host::LearnedModules LearnedModulesOf(const machine::Environment& environment, const std::string& interpreter,
                                      const std::string& folder, const std::string& script,
                                      const machine::FileProbe& probe) {
  const auto cache = environment.find("XDG_CACHE_HOME"), home = environment.find("HOME");
  std::string parent;
  if (home != environment.end() && home->second.starts_with('/')) parent = home->second + "/.cache";
  if (cache != environment.end() && cache->second.starts_with('/')) parent = cache->second;
  const std::string identity =
      absl::StrCat(script.starts_with('/') ? "" : folder + "/", script, " with ", interpreter);
  host::LearnedModules learned;
  learned.script = OneLine(absl::StrCat(identity, ", changed at ", probe(script).changed_ns));
  if (parent.empty()) return learned;
  const std::string key = absl::BytesToHexString(AsAbsl(Sha256(identity))).substr(0, kKeyDigits);
  learned.file = absl::StrCat(parent, "/muster/preload/", key);
  return learned;
}

}  // namespace muster::cli
