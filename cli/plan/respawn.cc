#include "cli/plan/respawn.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "base/exit_codes.h"

namespace muster::cli {

// A node whose user has cancelled the job ends itself by SIGINT.
std::optional<absl::Duration> Respawns::OnEnd(BootTime now, int node, int status) {
  const bool by_signal = WIFSIGNALED(status) && WTERMSIG(status) != SIGINT;
  over_ |= !by_signal && !(WIFEXITED(status) && WEXITSTATUS(status) == kExitLeft);
  if (over_ || !by_signal) return std::nullopt;
  Node& ended = nodes_[static_cast<size_t>(node)];
  if (now >= ended.started + kLongRun) ended.in_a_row = 0;
  if (ended.in_a_row >= kMaxRespawns) return std::nullopt;
  absl::Duration delay = kFirstRespawnDelay;
  for (int i = 0; i < ended.in_a_row; ++i) delay = std::min(2 * delay, kMaxRespawnDelay);
  ++ended.in_a_row;
  return delay;
}

}  // namespace muster::cli
