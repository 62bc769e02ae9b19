// `muster version` and `muster --version`.
#include "absl/strings/str_cat.h"
#include "base/text/problem.h"
#include "cli/commands/commands.h"
#include "cli/plan/version.h"

namespace muster::cli {

int VersionCommand(const Invocation& invocation) {
  if (!invocation.arguments.empty()) {
    if (invocation.arguments[0] == "--help" || invocation.arguments[0] == "-h") return Print(MainHelp());
    return Complain(absl::InvalidArgumentError(
        absl::StrCat(Shown(invocation.arguments[0]), ": muster version takes no arguments")));
  }
  return Print(absl::StrCat("muster ", Version(), "\n"));
}

}  // namespace muster::cli
