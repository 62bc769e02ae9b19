#include "rendezvous/core/hang.h"

#include <algorithm>
#include <utility>

namespace muster::rendezvous {

void Hang::BeginRound() {
  judge.BeginRound();
  running = 0;
  grace_reported = false;
  Dismiss();
}

// A member that has ended may have been the one that showed signs for all, so the silence counts from then. A new
// coordinator does not know when that was.
std::optional<bool> Hang::Judge(BootTime now, const Silence& silence) {
  judge.Learn(silence.learned);
  if (std::exchange(running, silence.running) != silence.running) running_since = now;
  if (!silence.time) {
    asked_at = now;  // whoever is away could not answer
    return std::nullopt;
  }
  return judge.OnReports(std::min(*silence.time, now - running_since), silence.signs);
}

void Hang::Ask(BootTime now) {
  question = ++questions;
  asked_at = now;
}

bool Hang::Dismiss() {
  const bool was_reported = question != 0 || reported;
  question = 0;
  reported = false;
  kill_order.reset();
  return was_reported;
}

}  // namespace muster::rendezvous
