#include "rendezvous/core/crash_loops.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/options.h"

namespace muster::rendezvous {

std::string NodeFor(const Host& host, bool in_first_round) {
  if (host.status.has_place()) return absl::StrCat("place ", host.status.place());
  if (host.seat < 0 && !in_first_round) return kNewNode;
  return absl::StrCat(host.status.hostname(), " (", host.status.host_id().substr(0, kIdShown), ")");
}

void CrashLoops::OnRoundEnd(BootTime now, absl::Duration lasted, const std::set<std::string>& lost,
                            const std::set<std::string>& kept) {
  // A node that was needed, and ran well, is taken again.
  for (const std::string& node : kept) {
    const auto it = loops_.find(node);
    if (it == loops_.end()) continue;
    it->second.held_back_until = absl::InfinitePast();
    if (lasted >= kLongRound) loops_.erase(it);
  }
  for (const std::string& node : lost) {
    if (loops_.size() >= kMaxCrashLoops && loops_.count(node) == 0) ForgetTheLeast();
    Loop& loop = loops_[node];
    if (lasted >= kLongRound) loop = {};
    ++loop.losses;
    if (loop.losses < 2) continue;
    absl::Duration hold = kFirstHoldBack;
    for (int i = 2; i < loop.losses && hold < kMaxHoldBack; ++i) hold = std::min(2 * hold, kMaxHoldBack);
    loop.held_back_until = now + hold;
  }
}

void CrashLoops::ForgetTheLeast() {
  loops_.erase(std::min_element(loops_.begin(), loops_.end(), [](const auto& a, const auto& b) {
    return a.second.held_back_until < b.second.held_back_until;
  }));
}

int CrashLoops::LossesInARow(const std::string& node) const {
  const auto it = loops_.find(node);
  return it == loops_.end() ? 0 : it->second.losses;
}

BootTime CrashLoops::HeldBackUntil(const std::string& node) const {
  const auto it = loops_.find(node);
  return it == loops_.end() ? absl::InfinitePast() : it->second.held_back_until;
}

}  // namespace muster::rendezvous
