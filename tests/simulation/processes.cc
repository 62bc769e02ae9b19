#include "tests/simulation/processes.h"

#include <algorithm>

namespace muster::simulation {

BootTime Machine::BootAt(Micros now) const {
  return FromBootNanos((boot_offset + now + now * drift_ppm / 1'000'000) * 1000);
}

absl::Time Machine::WallAt(Micros now) const { return absl::UnixEpoch() + absl::Microseconds(now + wall_skew); }

Micros Machine::TimeOfBoot(BootTime boot) const {
  const Micros shown = (ToBootNanos(boot) + 999) / 1000 - boot_offset;
  const int64_t rate = 1'000'000 + drift_ppm;  // this clock's microseconds per true second
  return (shown * 1'000'000 + rate - 1) / rate;
}

bool CoordinatorHome::ServesOthers() const {
  return std::any_of(sessions.begin(), sessions.end(),
                     [this](const auto& entry) { return entry.second->agent->host != host; });
}

void AgentProcess::LoseConnection(uint64_t of_attempt, const std::string& why, int refused_code) {
  if (attempt != of_attempt) return;
  ++attempt;
  Feed(&agent::AgentCore::OnDisconnected, why, refused_code);
}

// A process that the kernel holds counts as ended once SIGKILL is pending.
bool HostProcess::AnythingAlive() const {
  const auto lives = [](const WorkerProcess* w) { return !w->dead && !(w->stuck > 0 && w->kill_pending); };
  return alive || std::any_of(workers.begin(), workers.end(), lives) ||
         std::any_of(descendants.begin(), descendants.end(), lives);
}

}  // namespace muster::simulation
