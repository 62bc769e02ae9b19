#include "rendezvous/core/stack_view.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/stacks/places.h"
#include "base/stacks/snapshot_message.h"
#include "base/stacks/suspects.h"
#include "base/text/rank_ranges.h"
#include "base/text/text.h"
#include "base/wire/ranges.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/hung_ranks.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

// Why nobody is asked; empty: the members may be.
std::string WhyNot(const Job& job) {
  if (job.IsOver()) return "the job is over";
  if (job.state == State::kDraining) {
    const bool some_run = std::any_of(job.hosts.begin(), job.hosts.end(),
                                      [](const auto& entry) { return RunsWorkers(entry.second); });
    return some_run ? "" : absl::StrCat("round ", job.greatest.number(), " has ended");
  }
  if (std::string why = WhyNoRoundRuns(job); !why.empty()) return why;
  if (job.hang.question != 0 || job.hang.kill_order)
    return "the job hangs, and is being dealt with: the log of the node that decides says where its workers stood";
  return "";
}

std::string WhyNot(const Job& job, int rank) {
  if (std::string why = WhyNot(job); !why.empty()) return why;
  const int ranks = job.greatest.round.world_size();
  if (rank < 0 || rank >= ranks)
    return absl::StrCat("round ", job.greatest.number(), " has the ranks 0 to ", ranks - 1);
  if (job.HostOf(rank) == nullptr) return "its node is not there at the moment";
  return "";
}

bool IsAnswered(const Job& job) {
  return std::all_of(job.hosts.begin(), job.hosts.end(), [&job](const auto& entry) {
    return !RunsWorkers(entry.second) || job.stacks.AnswerOf(entry.first) != nullptr;
  });
}

v1::Place PlaceOf(const Job& job, const RankGroup& group) {
  v1::Place place;
  std::vector<int> ranks;
  for (const RankSnapshot* const rank : group.ranks) ranks.push_back(rank->rank);
  AddPairs(RangesOf(std::move(ranks)), place.mutable_ranks());
  place.set_where(Foreign(group.where));
  FillMessage(*group.ranks.front(), kMostFrames, place.mutable_example());
  if (const Host* const host = job.HostOf(group.ranks.front()->rank)) place.set_host(Foreign(host->Name()));
  return place;
}

// Many places with deep stacks and long paths: the outer frames go, half of them at a time.
void Shorten(v1::Stacks* stacks) {
  for (int most = static_cast<int>(kMostFrames) / 2; stacks->ByteSizeLong() > kMaxStacksBytes; most /= 2) {
    for (v1::Place& place : *stacks->mutable_places()) {
      auto* const frames = place.mutable_example()->mutable_main_thread();
      if (frames->size() > most) frames->DeleteSubrange(most, frames->size() - most);
    }
    if (most == 0) return;
  }
}

// Suspects only if all have answered: a node that has not is the most likely one.
void AddPlaces(const Job& job, v1::Stacks* stacks) {
  const std::vector<RankSnapshot> ranks =
      RanksIn(job, [&job](const Host& host) { return job.stacks.AnswerOf(host.status.host_id()); });
  const Suspects suspects = stacks->silent().empty() ? FindSuspects(ranks) : Suspects();
  if (!suspects.ranks.empty()) stacks->set_suspects(Describe(suspects));
  AddPairs(RangesOf(suspects.ranks), stacks->mutable_suspect_ranks());
  const std::vector<RankGroup> groups = GroupsOfSuspectsFirst(ranks, suspects);
  for (const RankGroup& group : groups) {
    if (static_cast<size_t>(stacks->places_size()) == kMaxPlacesShown) break;
    *stacks->add_places() = PlaceOf(job, group);
  }
  stacks->set_more_places(static_cast<int32_t>(groups.size()) - stacks->places_size());
  Shorten(stacks);
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
  if (!WhyNot(*job).empty()) return false;
  StackQuestion& question = job->stacks;
  const bool is_of_this_round = question.IsOpen() && question.round() == job->greatest.number();
  if (is_of_this_round && question.kept() == nullptr && (IsAnswered(*job) || question.IsLate(now))) {
    v1::Stacks made;
    made.set_complete(true);
    AddSilent(*job, &made);
    AddPlaces(*job, &made);
    question.Keep(now, std::move(made));
  }
  return question.Want(now, job->greatest.number());
}

v1::Stacks StacksOf(BootTime now, const Job& job) {
  v1::Stacks stacks;
  stacks.set_why_not(WhyNot(job));
  if (!stacks.why_not().empty() || !job.stacks.IsOpen() || job.stacks.round() != job.greatest.number())
    return stacks;
  if (const v1::Stacks* const kept = job.stacks.kept()) stacks = *kept;
  stacks.set_asked_ms(WireMilliseconds(now - job.stacks.asked_at()));
  return stacks;
}

Host* WantRank(BootTime now, int rank, Job* job) {
  const Host* const found = WhyNot(*job, rank).empty() ? job->HostOf(rank) : nullptr;
  if (found == nullptr || !job->ranks.Want(now, job->greatest.number(), rank, *found)) return nullptr;
  return job->hosts.Find(found->status.host_id());
}

v1::RankView RankOf(BootTime now, int rank, const Job& job) {
  v1::RankView view;
  view.set_rank(rank);
  view.set_why_not(WhyNot(job, rank));
  const Host* const host = view.why_not().empty() ? job.HostOf(rank) : nullptr;
  if (host == nullptr) return view;
  view.set_host(Foreign(host->Name()));
  const RankQuestions::Asked* const asked = job.ranks.Of(rank);
  if (asked == nullptr || asked->round != job.greatest.number()) return view;
  view.set_complete(asked->answer || now >= asked->at + kStackAnswers);
  if (!asked->answer) return view;
  *view.mutable_found() = *asked->answer;
  v1::NodeSnapshot alone;
  *alone.add_ranks() = *asked->answer;
  view.set_where(Foreign(WhereIs(FromMessage(alone, rank - asked->local_rank).front())));
  return view;
}

}  // namespace muster::rendezvous
