// `muster help` and `muster help COMMAND`, which is `muster COMMAND --help`; and the main help.
#include "absl/strings/str_cat.h"
#include "base/text/problem.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/commands/platform_defaults.h"

namespace muster::cli {
namespace {

void AppendCommands(CommandKind kind, std::string* out) {
  constexpr size_t kSummaryColumn = 6;
  for (const Subcommand& command : kSubcommands) {
    if (command.kind != kind || command.usage == nullptr) continue;
    const bool plain = *command.usage == '\0';
    absl::StrAppend(out, "  muster ", command.name, plain ? "" : " ", command.usage, "\n");
    AppendWrapped(command.summary, kSummaryColumn, 0, out);
  }
}

}  // namespace

std::string MainHelp() {
  std::string out = R"text(muster starts, watches and restarts a distributed training job.

Usage: muster COMMAND ...

)text";
  AppendCommands(CommandKind::kStarts, &out);
  AppendCommands(CommandKind::kShows, &out);
  AppendCommands(CommandKind::kSteers, &out);
  out += R"text(
"muster COMMAND --help" shows the options of a command. A link to muster named
torchrun or deepspeed takes the options of that program. To complete options in
the shell: eval "$(muster run --print-completion bash)", zsh or fish.

Exit codes:
  0          every worker exited 0
  worker's   the code of the worker that failed first, or 128 + its signal
  64, 65     wrong command line; wrong environment, or a wrong or missing file
  69         primary not reached, too few nodes in time, or too many nodes lost
  70         internal error of muster, or a worker could not be started
  75         asked to leave; worth a retry
  77         refused by the primary: token, certificate, run id or protocol
  93         no progress; not worth a retry
  126, 127   the program is not executable; not found
  130        cancelled at the terminal
)text";
  out.push_back('\n');
  AppendWrapped(WithPlatformDefaults("Where a platform retries a job only after a certain exit code, that code "
                                     "replaces 69 and 75: @RETRY_CODES@ (see muster run --retryable-exit-code)."),
                0, 0, &out);
  return out;
}

int HelpCommand(const Invocation& invocation) {
  if (invocation.arguments.empty()) return Print(MainHelp());
  const std::string& about = invocation.arguments[0];
  if (about == "--help" || about == "-h") return Print(MainHelp());
  if (invocation.arguments.size() > 1) {
    return Complain(absl::InvalidArgumentError(
        absl::StrCat(Shown(invocation.arguments[1]), ": muster help takes one command")));
  }
  const Subcommand* const command = FindSubcommand(about);
  const bool known = command != nullptr && command->kind != CommandKind::kInternal;
  return known ? Print(command->help()) : Complain(NoSuchCommand(about));
}

}  // namespace muster::cli
