#include "rendezvous/core/crash_loops.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/options.h"

namespace muster::rendezvous {

namespace {

std::string NodeAt(int place, const std::string& hostname) {
  return place >= 0 ? absl::StrCat("place ", place) : hostname;
}

}  // namespace

std::string NodeOf(const v1::AgentStatus& status) {
  return NodeAt(status.has_place() ? status.place() : -1, status.hostname());
}

std::vector<std::string> NodesOf(const std::vector<Candidate>& members) {
  std::map<std::string, int> count;
  for (const Candidate& member : members) ++count[NodeAt(member.place, member.hostname)];
  std::vector<std::string> nodes;
  nodes.reserve(members.size());
  for (const Candidate& member : members) {
    const std::string node = NodeAt(member.place, member.hostname);
    nodes.push_back(count[node] == 1 ? node : "");
  }
  return nodes;
}

void CrashLoops::OnRoundEnd(BootTime now, absl::Duration lasted, const std::set<std::string>& lost,
                            const std::set<std::string>& kept) {
  if (lasted >= kLongRound) {
    for (const std::string& node : kept) loops_.erase(node);
  }
  for (const std::string& node : lost) {
    if (loops_.size() >= kMaxCrashLoops && loops_.count(node) == 0) continue;
    Loop& loop = loops_[node];
    if (lasted >= kLongRound) loop = {};
    ++loop.losses;
    if (loop.losses < 2) continue;
    absl::Duration hold = kFirstHoldBack;
    for (int i = 2; i < loop.losses && hold < kMaxHoldBack; ++i) hold = std::min(2 * hold, kMaxHoldBack);
    loop.held_back_until = now + hold;
  }
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
