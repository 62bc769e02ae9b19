#include "cli/commands/commands.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/text/text.h"
#include "cli/options/exit_codes.h"
#include "cli/options/nearest.h"

namespace muster::cli {

const Subcommand* FindSubcommand(std::string_view name) {
  for (const Subcommand& command : kSubcommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

std::vector<std::string> SubcommandNames() {
  std::vector<std::string> names;
  for (const Subcommand& command : kSubcommands) {
    if (command.kind != CommandKind::kInternal) names.emplace_back(command.name);
  }
  return names;
}

// Users of torchrun may type the options or the script without `run`.
absl::Status NoSuchCommand(const std::string& name) {
  const std::vector<std::string> known = SubcommandNames();
  std::string meant = NearestWord(name, known);
  if (name.starts_with('-') || name.ends_with(".py")) meant = "run " + Shown(name);
  if (name == "-V") meant = "--version";
  return absl::InvalidArgumentError(absl::StrCat(
      Shown(name), ": no such command; the commands are ", absl::StrJoin(known.begin(), known.end() - 1, ", "),
      " and ", known.back(), meant.empty() ? "" : "; did you mean muster ", meant, meant.empty() ? "" : "?"));
}

// Replaces control characters, so that the message is one line.
int Complain(const absl::Status& status) {
  const std::string line = OneLine(std::string(AsStd(status.message())));
  std::fprintf(stderr, "muster: %s\n", line.c_str());
  return ExitCodeOf(status);
}

int Print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return written ? 0 : Complain(absl::InternalError("cannot write to standard output"));
}

}  // namespace muster::cli
