#include "rendezvous/core/greatest_round.h"

#include <algorithm>
#include <utility>

#include "base/wire/ids.h"

namespace muster::rendezvous {

bool GreatestRound::IsKnown() const { return IsSet(round.id()); }

bool GreatestRound::MayBe(const std::string& host_id, int node_rank) const {
  if (node_rank < 0 || node_rank >= node_count()) return false;
  const auto member = members.find(node_rank);
  return member == members.end() ? !was_made_here : member->second == host_id;
}

bool GreatestRound::HasMember(const std::string& host_id) const {
  return std::any_of(members.begin(), members.end(), [&](const auto& entry) { return entry.second == host_id; });
}

void GreatestRound::Become(const v1::Round& greater, BootTime now, bool made_here) {
  GreatestRound fresh;
  fresh.round = greater;
  fresh.round.clear_node_rank();
  fresh.round.clear_primary_ended();
  fresh.counts = std::move(counts);
  fresh.kept.ever_controlled = kept.ever_controlled || made_here;
  fresh.kept.max_number = std::max(kept.max_number, greater.id().number());
  fresh.is_controlled = fresh.was_made_here = made_here;
  fresh.since = now;
  *this = std::move(fresh);
}

void GreatestRound::BeginEpoch() {
  is_controlled = false;
  losses.at.reset();
  losses.text.clear();
  losses.nodes.clear();
  losses.ended.clear();
}

void MemberLosses::Note(BootTime when, std::string what, const Part* part, bool has_been_logged) {
  nodes[part == nullptr ? -1 : part->round.node_rank()] = part == nullptr ? "" : part->node;
  if (at && *at <= when) return;
  at = when;
  text = std::move(what);
  is_logged = has_been_logged;
}

void GoneMembers::NoteFailure(const v1::Failure& failure, const std::string& host_id, BootTime at) {
  failures.push_back({failure, host_id, at});
  if (failures.size() <= kMaxLostFailures) return;
  const auto is_earlier = [](const SeenFailure& a, const SeenFailure& b) { return a.at < b.at; };
  failures.erase(std::max_element(failures.begin(), failures.end(), is_earlier));
  ++more_failures;
}

void GoneMembers::ForgetFailures() {
  failures.clear();
  more_failures = 0;
}

void GoneMembers::CorrectFailure(const std::string& host_id, const v1::Failure& failure, BootTime at) {
  for (SeenFailure& seen : failures) {
    if (seen.host_id == host_id && Same(seen.failure.round(), failure.round())) seen.at = std::min(seen.at, at);
  }
}

}  // namespace muster::rendezvous
