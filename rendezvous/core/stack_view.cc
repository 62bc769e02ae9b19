#include "rendezvous/core/stack_view.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/stacks/places.h"
#include "base/stacks/snapshot_message.h"
#include "base/stacks/suspects.h"
#include "base/text/text.h"
#include "base/wire/ranges.h"
#include "rendezvous/core/hung_ranks.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

// Why nobody is asked; empty: the members may be.
std::string WhyNot(const Job& job) {
  if (job.state != State::kRunning) return "no round runs";
  if (job.hang.question != 0 || job.hang.kill_order)
    return "the job hangs, and is being dealt with: the log of the node that decides says where its workers stood";
  return "";
}

bool IsAnswered(const Job& job) {
  return job.stacks.IsOpen() && std::all_of(job.hosts.begin(), job.hosts.end(), [&job](const auto& entry) {
           return !RunsWorkers(entry.second) || job.stacks.AnswerOf(entry.first) != nullptr;
         });
}

v1::Place PlaceOf(const Job& job, const RankGroup& group) {
  v1::Place place;
  std::vector<int> ranks;
  for (const RankSnapshot* const rank : group.ranks) ranks.push_back(rank->rank);
  for (const auto& [first, last] : RangesOf(std::move(ranks))) {
    v1::RankRange* const range = place.add_ranks();
    range->set_first(first);
    range->set_last(last);
  }
  place.set_where(Foreign(group.where));
  FillMessage(*group.ranks.front(), kMostFrames, place.mutable_example());
  if (const Host* const host = job.HostOf(group.ranks.front()->rank))
    place.set_host(Foreign(host->status.hostname()));
  return place;
}

void AddPlaces(const Job& job, v1::Stacks* stacks) {
  const std::vector<RankSnapshot> ranks =
      RanksIn(job, [&job](const Host& host) { return job.stacks.AnswerOf(host.status.host_id()); });
  const Suspects suspects = FindSuspects(ranks);
  if (!suspects.ranks.empty()) stacks->set_suspects(Describe(suspects));
  const std::vector<RankGroup> groups = GroupsOfSuspectsFirst(ranks, suspects);
  for (const RankGroup& group : groups) {
    if (static_cast<size_t>(stacks->places_size()) == kMaxPlacesShown) break;
    *stacks->add_places() = PlaceOf(job, group);
  }
  stacks->set_more_places(static_cast<int32_t>(groups.size()) - stacks->places_size());
}

void AddSilent(const Job& job, v1::Stacks* stacks) {
  int silent = 0;
  for (const auto& [id, host] : job.hosts) {
    if (!RunsWorkers(host) || job.stacks.AnswerOf(id) != nullptr) continue;
    if (static_cast<size_t>(silent++) < kMaxSilentShown) stacks->add_silent(Foreign(host.Name()));
  }
  stacks->set_more_silent(silent - stacks->silent_size());
}

}  // namespace

bool WantStacks(BootTime now, Job* job) {
  return WhyNot(*job).empty() && job->stacks.Want(now, job->greatest.number(), IsAnswered(*job));
}

v1::Stacks StacksOf(BootTime now, const Job& job) {
  v1::Stacks stacks;
  stacks.set_why_not(WhyNot(job));
  if (!stacks.why_not().empty() || !job.stacks.IsOpen() || job.stacks.round() != job.greatest.number())
    return stacks;
  stacks.set_asked_ms(WireMilliseconds(now - job.stacks.asked_at()));
  stacks.set_complete(IsAnswered(job) || job.stacks.IsLate(now));
  AddPlaces(job, &stacks);
  AddSilent(job, &stacks);
  return stacks;
}

}  // namespace muster::rendezvous
