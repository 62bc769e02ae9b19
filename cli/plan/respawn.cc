#include "cli/plan/respawn.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>  // WIFSIGNALED and the like

#include "base/exit_codes.h"

namespace muster::cli {

void Respawns::OnStart(BootTime now, int node) {
  Node& started = nodes_[static_cast<size_t>(node)];
  started.started = now;
  ++started.starts;
}

// A node whose user has cancelled the job ends itself by SIGINT.
std::optional<absl::Duration> Respawns::OnEnd(BootTime now, int node, int status) {
  const bool by_signal = WIFSIGNALED(status) && WTERMSIG(status) != SIGINT;
  const bool brings_result = !by_signal && !(WIFEXITED(status) && WEXITSTATUS(status) == kExitLeft);
  if (brings_result && !over_ && WIFEXITED(status)) result_ = WEXITSTATUS(status);
  over_ |= brings_result;
  Node& ended = nodes_[static_cast<size_t>(node)];
  if (now >= ended.started + kLongRun) ended.delays = 0;
  if (now >= ended.started + kVeryLongRun) ended.respawns = 0;
  if (over_ || !by_signal || ended.respawns >= kMaxRespawns) {
    ended.ended = true;
    last_end_ = now;
    return std::nullopt;
  }
  absl::Duration delay = kFirstRespawnDelay;
  for (int i = 0; i < ended.delays; ++i) delay = std::min(2 * delay, kMaxRespawnDelay);
  ++ended.delays;
  ++ended.respawns;
  return delay;
}

// Node 0 is the primary.
BootTime Respawns::LateFrom() const {
  const auto holds_up = [](const Node& node) { return !node.ended && node.starts <= 1; };
  const bool waits = !over_ || !nodes_.front().ended || std::any_of(nodes_.begin(), nodes_.end(), holds_up);
  return waits ? absl::InfiniteFuture() : last_end_ + kLateAfter;
}

bool Respawns::IsLate(int node) const { return !nodes_[static_cast<size_t>(node)].ended; }

}  // namespace muster::cli
