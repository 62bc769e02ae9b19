#include "agent/host/core/session_rest.h"

#include <cstddef>
#include <map>

namespace muster::host {
namespace {

using Members = std::map<int64_t, const SessionMember*>;

// The number of steps is limited, because parents that were read at different moments could form a cycle.
bool HasHandlingAncestor(const SessionMember& member, const Members& members) {
  auto ancestor = members.find(member.parent);
  for (std::size_t steps = 0; ancestor != members.end() && steps < members.size(); ++steps) {
    if (ancestor->second->handles) return true;
    ancestor = members.find(ancestor->second->parent);
  }
  return false;
}

}  // namespace

std::vector<SessionMember> FinishingMembers(int64_t leader, const std::vector<SessionMember>& session) {
  Members members;
  for (const SessionMember& member : session) members[member.pid] = &member;
  const auto first = members.find(leader);
  if (first != members.end() && first->second->handles) return {};
  std::vector<SessionMember> finishing;
  for (const SessionMember& member : session) {
    if (member.handles && !HasHandlingAncestor(member, members)) finishing.push_back(member);
  }
  return finishing;
}

}  // namespace muster::host
