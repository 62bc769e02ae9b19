#include "agent/host/core/session_stop.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <map>
#include <set>

namespace muster::host {
namespace {

class Tree {
 public:
  Tree(int64_t leader, const std::vector<SessionMember>& session);
  bool IsTopmostHandler(const SessionMember& member) const;
  bool IsCopy(const SessionMember& member) const;
  bool IsCovered(const SessionMember& member) const;
  std::vector<const SessionMember*> AncestorsOf(const SessionMember& member) const;  // from the parent upwards

 private:
  const int64_t leader_;
  std::map<int64_t, const SessionMember*> members_;
};

Tree::Tree(int64_t leader, const std::vector<SessionMember>& session) : leader_(leader) {
  for (const SessionMember& member : session) members_[member.pid] = &member;
}

bool Tree::IsTopmostHandler(const SessionMember& member) const {
  return member.handles && !IsCopy(member) && !IsCovered(member);
}

bool Tree::IsCopy(const SessionMember& member) const {
  const SessionMember* child = &member;
  for (const SessionMember* parent : AncestorsOf(member)) {
    if (!child->forked || child->pid == leader_) return false;
    if (parent->handles && !parent->shell) return true;
    child = parent;
  }
  return false;
}

bool Tree::IsCovered(const SessionMember& member) const {
  const std::vector<const SessionMember*> ancestors = AncestorsOf(member);
  return std::any_of(ancestors.begin(), ancestors.end(), [this](const SessionMember* ancestor) {
    return !ancestor->ended && ancestor->handles && !ancestor->shell && !IsCopy(*ancestor);
  });
}

// Their number is limited, because parents that were read at different moments could form a circle.
std::vector<const SessionMember*> Tree::AncestorsOf(const SessionMember& member) const {
  std::vector<const SessionMember*> ancestors;
  auto ancestor = members_.find(member.parent);
  while (ancestor != members_.end() && ancestors.size() < members_.size()) {
    ancestors.push_back(ancestor->second);
    ancestor = members_.find(ancestor->second->parent);
  }
  return ancestors;
}

// A terminal sends these to all processes at once, and programs expect it: a Python that waits for another one
// kills it shortly after its own SIGINT.
bool IsForAll(int signal) { return signal == SIGINT || signal == SIGQUIT; }

}  // namespace

StopPlan PlanStop(int64_t leader, const std::vector<SessionMember>& session, int signal) {
  const Tree tree(leader, session);
  StopPlan plan;
  bool everybody = true;
  std::set<int64_t> wrappers;
  for (const SessionMember& member : session) {
    if (member.ended || !tree.IsTopmostHandler(member)) continue;
    plan.awaited.push_back(member.pid);
    for (const SessionMember* ancestor : tree.AncestorsOf(member)) wrappers.insert(ancestor->pid);
    if (!member.shell && !IsForAll(signal)) everybody = false;
  }
  plan.whole_group = everybody;
  for (const SessionMember& member : session) {
    if (member.ended || (tree.IsCopy(member) && !IsForAll(signal))) continue;
    const bool wraps_or_handles = member.handles || wrappers.count(member.pid) > 0;
    const bool is_filter = member.reads && !wraps_or_handles && member.pid != leader && !IsForAll(signal);
    if (is_filter) plan.whole_group = false;
    const bool now = (everybody && !is_filter) || (wraps_or_handles && !tree.IsCovered(member));
    (now ? plan.now : plan.later).push_back(member.pid);
  }
  return plan;
}

std::vector<int64_t> TopmostHandlers(int64_t leader, const std::vector<SessionMember>& session) {
  const Tree tree(leader, session);
  std::vector<int64_t> pids;
  for (const SessionMember& member : session) {
    if (!member.ended && tree.IsTopmostHandler(member)) pids.push_back(member.pid);
  }
  return pids;
}

bool IsShell(std::string_view program) {
  static const std::set<std::string_view> kShells = {"ash",   "bash", "busybox", "csh", "dash", "fish", "ksh",
                                                     "ksh93", "mksh", "rbash",   "sh",  "tcsh", "zsh",  "zsh5"};
  return kShells.count(program) > 0;
}

}  // namespace muster::host
