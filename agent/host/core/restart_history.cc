#include "agent/host/core/restart_history.h"

#include <utility>

#include "base/text/text.h"

namespace muster::host {

void RestartHistory::OnStart(BootTime now, uint64_t round) {
  if (round_) {
    const BootTime stopped = round_->stopped.value_or(now);
    const absl::Duration lost = now - stopped;
    restarts_.newest.push_back({round_->number, std::move(round_->cause), stopped - round_->started, lost});
    restarts_.lost += lost;
    if (restarts_.newest.size() > kMaxRestartsKept) {
      restarts_.newest.erase(restarts_.newest.begin());
      ++restarts_.earlier;
    }
  }
  round_ = Round{round, now};
}

void RestartHistory::OnOwnStop(BootTime now, const std::string& cause) {
  if (!round_ || round_->stopped) return;
  round_->stopped = now;
  round_->cause = CutUtf8(OneLine(cause), kMaxRestartCause);
}

void RestartHistory::OnOrderedStop(BootTime now, const std::string& cause) {
  if (!round_ || std::exchange(round_->is_ordered, true)) return;
  round_->stopped = round_->stopped.value_or(now);
  round_->cause = CutUtf8(OneLine(cause), kMaxRestartCause);
}

}  // namespace muster::host
