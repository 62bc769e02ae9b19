// `muster token`: prints a new token.
#include <string>

#include "absl/strings/str_cat.h"
#include "base/text/problem.h"
#include "cli/commands/commands.h"
#include "cli/plan/machine.h"

namespace muster::cli {

std::string TokenHelp() {
  return R"(Usage: muster token

Prints a new token: 32 random bytes. Give it to all nodes of a job, in a file
(--token-file) or in the variable MUSTER_TOKEN; then only nodes that have it can
join, and what muster's nodes and primary say to each other is encrypted (the
workers' own traffic, of NCCL or gloo, is not):

  (umask 077; muster token >token)
)";
}

int TokenCommand(const Invocation& invocation) {
  if (!invocation.arguments.empty()) {
    if (invocation.arguments[0] == "--help" || invocation.arguments[0] == "-h") return Print(TokenHelp());
    return Complain(absl::InvalidArgumentError(
        absl::StrCat(Shown(invocation.arguments[0]), ": muster token takes no arguments")));
  }
  return Print(absl::StrCat(NewToken(), "\n"));
}

}  // namespace muster::cli
