// `muster health`: asks the muster of this container for its state; for the probes of Kubernetes and Docker.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/exit_codes.h"
#include "base/io/health.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/options/command_line.h"

namespace muster::cli {
namespace {

constexpr char kReady[] = "ready";
constexpr absl::Duration kAnswerLimit = absl::Milliseconds(900);  // a kubelet waits for 1 s if not told otherwise

}  // namespace

const std::vector<OptionSpec>& HealthOptions() {
  static const auto* const table = new std::vector<OptionSpec>{
      {kReady, "", Group::kOther, kOwn,
       "Exit with 1 unless workers of a round run here; in a sidecar: unless it is connected to its host."}};
  return *table;
}

std::string HealthHelp() {
  std::string out = R"(Usage: muster health [--ready]

Asks the muster of this container for its state, over a local socket. Exits with
0 if it answers, and with 69 if it does not. For startup, liveness and readiness
probes:

  exec: {command: [muster, health]}
  exec: {command: [muster, health, --ready]}
)";
  AppendGroup(HealthOptions(), Group::kOther, "Options", &out);
  return out;
}

int HealthCommand(const Invocation& invocation) {
  const auto line = ParseCommandLine(HealthOptions(), invocation.arguments, "muster health");
  if (!line.ok()) return Complain(line.status());
  if (line->help) return Print(HealthHelp());
  if (!line->script.empty()) {
    return Complain(absl::InvalidArgumentError(absl::StrCat(line->script, ": muster health takes no arguments")));
  }
  const absl::StatusOr<Health> health = AskHealth(kAnswerLimit);
  if (!health.ok()) {
    Complain(health.status());
    return kExitUnavailable;
  }
  if (const int printed = Print(absl::StrCat(health->state, "\n")); printed != 0) return printed;
  return health->ready || !line->given.contains(kReady) ? 0 : 1;
}

}  // namespace muster::cli
