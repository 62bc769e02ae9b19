#include "rendezvous/core/next_round.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {

std::vector<Candidate> ReadyCandidates(const Job& job) {
  std::vector<Candidate> candidates;
  for (const auto& [id, host] : job.hosts) {
    if (!host.IsTrainer() || !job.IsReady(host) || !job.hosts.HoldsPlace(host)) continue;
    candidates.push_back({.host_id = id,
                          .hostname = host.status.hostname(),
                          .place = host.status.has_place() ? host.status.place() : -1,
                          .seat = host.seat,
                          .was_member = job.WasMember(host),
                          .at_primary = host.status.at_primary(),
                          .joined_at = host.joined_at,
                          .slots = host.status.slots(),
                          .role_name = host.status.role_name(),
                          .offer = host.status.offer()});
  }
  return candidates;
}

int RoundSize(const Job& job, int ready) {
  const CoordinatorOptions& options = job.options;
  int most = options.max_nodes;
  // This coordinator may have been started with a greater MIN than the one before it.
  if (options.scale_up == ScaleUp::kNever && job.gathering.largest > 0)
    most = std::min(most, std::max(job.gathering.largest, options.min_nodes));
  const int size = std::min(ready, most);
  return size - size % options.node_unit;
}

std::vector<Candidate> WithoutSetAside(BootTime now, const Job& job, std::vector<Candidate> ready) {
  for (const bool held_back_too : {true, false}) {
    std::vector<Candidate> sound;
    for (const Candidate& c : ready) {
      const bool held_back = held_back_too && job.IsHeldBack(*job.hosts.Find(c.host_id), now);
      if (!held_back && !job.IsExcluded(c.host_id, now)) sound.push_back(c);
    }
    if (RoundSize(job, static_cast<int>(sound.size())) >= job.options.min_nodes) return sound;
  }
  return ready;
}

Arriving WhoArrives(BootTime now, const Job& job) {
  Arriving arriving;
  for (const auto& [id, host] : job.hosts) {
    if (!host.IsTrainer() || host.IsLeaving() || host.IsUnusable() || !job.hosts.HoldsPlace(host)) continue;
    const bool may_run = host.RunsSomething() && now <= host.lease_until;
    arriving.something_runs |= may_run;
    // The host was told to stop, and had its time. A node that reports for ever that it stops holds nobody up.
    if (job.options.leased() && host.RunsSomething() && !may_run) continue;
    if (job.IsReady(host) || host.status.has_cannot_start() || job.IsHeldBack(host, now)) continue;
    (host.was_ready || job.WasMember(host) ? arriving.known : arriving.newcomers) += 1;
    arriving.owner |= host.seat >= 0;
    if (!host.IsAttached() || host.status.preparing().empty()) continue;
    arriving.preparing += 1;
    arriving.owner_prepares |= job.WasMember(host);
  }
  return arriving;
}

namespace {

// For MIN:MAX: when the nodes that are ready start without the others. A node that was ready before is waited for:
// it will most likely be ready again, and its own time limits apply. A newcomer that does not become ready delays
// the others for no longer than the last call.
BootTime EnoughCameAt(const Job& job, const Arriving& arriving) {
  const BootTime called = job.gathering.min_reached + job.options.last_call;
  if (job.gathering.first_round) return called;
  if (arriving.known > 0) return absl::InfiniteFuture();
  return arriving.newcomers > 0 ? called : absl::InfinitePast();
}

absl::Duration LimitOf(const Job& job) {
  return job.gathering.first_round ? job.options.join_timeout : job.options.rejoin_timeout;
}

// False if one more membership change would end the job for lack of progress.
bool MayChangeMembers(BootTime now, const Job& job) {
  const int most = job.options.max_membership_changes;
  if (most == 0 || job.counts.idle_changes < most) return true;
  RoundResult if_ended_now;
  if_ended_now.lasted = now - job.greatest.since;
  if_ended_now.watched = job.ProgressIsWatched();
  if_ended_now.progressed = job.SomeProgressed();
  return MadeProgress(if_ended_now);
}

}  // namespace

bool StartsNow(BootTime now, const Job& job, int ready, const Arriving& arriving) {
  const CoordinatorOptions& options = job.options;
  const int size = RoundSize(job, ready);
  const bool suffice = size >= options.min_nodes;
  const bool all = suffice && size == RoundSize(job, options.max_nodes);
  // A spare is ready before the members, whose workers have just been stopped, and must not take their ranks. A
  // member that is preparing is waited for, because its own time limits apply.
  const bool owners_first =
      arriving.owner_prepares || (arriving.owner && now < job.state_since + options.reconnect_grace);
  const bool enough = suffice && !options.fixed_size() && now >= EnoughCameAt(job, arriving);
  return (all && !owners_first) || enough || (GatheringIsOverdue(now, job) && suffice);
}

bool GatheringIsOverdue(BootTime now, const Job& job) { return now >= job.gathering.since + LimitOf(job); }

bool PreparingMaySuffice(const Job& job, int ready, const Arriving& arriving) {
  return arriving.preparing > 0 && RoundSize(job, ready + arriving.preparing) >= job.options.min_nodes;
}

std::string HowGatheringEnds(const Job& job, int ready, const Arriving& arriving, absl::Duration least) {
  const auto after = [](const std::string& end, absl::Duration limit, const char* option) {
    return absl::StrCat(end, " after ", absl::FormatDuration(limit), " (", option, ")");
  };
  const CoordinatorOptions& options = job.options;
  const absl::Duration limit = LimitOf(job);
  const char* const option = job.gathering.first_round ? "--join-timeout" : "--rejoin-timeout";
  const int size = RoundSize(job, ready);
  if (size < options.min_nodes) {
    const bool by_lease = limit < least;
    const std::string by = absl::StrCat(option, by_lease ? ", at least the lease" : "");
    const absl::Duration until = by_lease ? absl::Trunc(least, absl::Seconds(1)) : limit;
    return absl::StrCat(after("gives up", until, by.c_str()),
                        PreparingMaySuffice(job, ready, arriving) ? ", later if nodes still prepare" : "");
  }
  const std::string starts = absl::StrCat("starts with ", size, size == 1 ? " node" : " nodes");
  const bool last_call = !options.fixed_size() && EnoughCameAt(job, arriving) < job.gathering.since + limit;
  return last_call ? after(starts, options.last_call, "--last-call-timeout") : after(starts, limit, option);
}

namespace {

// Whether a running round may be restarted with more nodes, if there are any.
bool MayGrow(BootTime now, const Job& job) {
  const CoordinatorOptions& options = job.options;
  return options.scale_up == ScaleUp::kImmediate && job.greatest.node_count() < options.max_nodes &&
         MayChangeMembers(now, job);
}

// Ready nodes beside the members of the running round.
int CountNewcomers(BootTime now, const Job& job) {
  int newcomers = 0;
  for (const Candidate& c : ReadyCandidates(job)) {
    const Host& host = *job.hosts.Find(c.host_id);
    const bool counts = !host.part.in_round && !job.IsExcluded(c.host_id, now) && !job.IsHeldBack(host, now);
    newcomers += counts ? 1 : 0;
  }
  return newcomers;
}

// Size of the running round with these newcomers; nullopt: not larger than it is.
std::optional<int> GrownSize(const Job& job, int newcomers) {
  const int members = job.greatest.node_count();
  const int size = RoundSize(job, members + newcomers);
  // This coordinator may have been started with a greater MIN than the one before it.
  if (size <= members || size < job.options.min_nodes) return std::nullopt;
  return size;
}

}  // namespace

void NoteNewcomers(BootTime now, Job* job) {
  if (!MayGrow(now, *job)) return;
  BootTime& since = job->gathering.newcomers_since;
  since = GrownSize(*job, CountNewcomers(now, *job)) ? std::min(since, now) : absl::InfiniteFuture();
}

// New nodes justify a restart when join_settle has passed since the first of them was ready, or the group reaches
// its full size. So ten nodes that arrive together cost one restart.
std::optional<std::string> WhyGrow(BootTime now, const Job& job) {
  if (job.MakesNoMoreRounds() || !MayGrow(now, job)) return std::nullopt;
  const int newcomers = CountNewcomers(now, job);
  const std::optional<int> size = GrownSize(job, newcomers);
  if (!size) return std::nullopt;
  const bool settled = now >= job.gathering.newcomers_since + job.options.join_settle;
  if (*size < RoundSize(job, job.options.max_nodes) && !settled) return std::nullopt;
  return absl::StrCat(newcomers, newcomers == 1 ? " new node is" : " new nodes are", " ready to join");
}

}  // namespace muster::rendezvous
