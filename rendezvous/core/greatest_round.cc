#include "rendezvous/core/greatest_round.h"

#include <algorithm>
#include <utility>

#include "base/wire/ids.h"

namespace muster::rendezvous {

bool GreatestRound::IsKnown() const { return IsSet(round.id()); }

bool GreatestRound::MayBe(const std::string& host_id, int node_rank) const {
  if (node_rank < 0 || node_rank >= node_count()) return false;
  const auto member = members.find(node_rank);
  return member == members.end() ? !is_ours : member->second == host_id;
}

bool GreatestRound::HasMember(const std::string& host_id) const {
  return std::any_of(members.begin(), members.end(), [&](const auto& entry) { return entry.second == host_id; });
}

void GreatestRound::Become(const v1::Round& greater, BootTime now, bool is_ours) {
  GreatestRound fresh;
  fresh.round = greater;
  fresh.round.clear_node_rank();
  fresh.round.clear_primary_ended();
  fresh.counts = std::move(counts);
  fresh.ever_owned = ever_owned || is_ours;
  fresh.max_number = std::max(max_number, greater.id().number());
  fresh.owned = fresh.is_ours = is_ours;
  fresh.since = now;
  *this = std::move(fresh);
}

void GreatestRound::BeginEpoch() {
  owned = false;
  loss_at.reset();
  loss_text.clear();
  lost.clear();
  ended.clear();
}

void GreatestRound::NoteLoss(BootTime at, std::string text, bool is_logged, int node_rank,
                             const std::string& node) {
  lost[node_rank] = node;
  if (loss_at && *loss_at <= at) return;
  loss_at = at;
  loss_text = std::move(text);
  loss_is_logged = is_logged;
}

void GreatestRound::NoteLostFailure(const v1::Failure& failure, const std::string& host_id, BootTime at) {
  if (!Same(failure.round(), id())) return;
  lost_failures.push_back({failure, host_id, at});
  if (lost_failures.size() <= kMaxLostFailures) return;
  const auto is_earlier = [](const SeenFailure& a, const SeenFailure& b) { return a.at < b.at; };
  lost_failures.erase(std::max_element(lost_failures.begin(), lost_failures.end(), is_earlier));
  ++more_lost_failures;
}

void GreatestRound::ForgetLostFailures() {
  lost_failures.clear();
  more_lost_failures = 0;
}

void GreatestRound::CorrectLostFailure(const std::string& host_id, const v1::Failure& failure, BootTime at) {
  for (SeenFailure& seen : lost_failures) {
    if (seen.host_id == host_id && Same(seen.failure.round(), failure.round())) seen.at = std::min(seen.at, at);
  }
}

}  // namespace muster::rendezvous
