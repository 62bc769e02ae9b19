#include "rendezvous/core/parting.h"

#include <algorithm>

#include "base/wire/ids.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

bool MayGiveFarewell(const Job& job, const Host& own) {
  const bool round_lives =
      job.state == State::kRunning || job.state == State::kDraining || job.state == State::kGathering;
  const bool made_here =
      job.greatest.is_controlled && job.greatest.IsKnown() && Same(job.greatest.id().epoch(), job.epoch());
  return own.status.at_primary() && job.options.leased() && round_lives && made_here && job.WasMember(own) &&
         !own.part.succeeded && !job.greatest.losses.strayed;
}

// Number of the other trainers. 0 if one of them is not attached, since the successor could not tell whether that
// node received the farewell.
int AudienceBeside(const Host& own, const Job& job) {
  int known_to = 0;
  for (const auto& [id, host] : job.hosts) {
    if (&host == &own || !host.IsTrainer()) continue;
    if (!host.IsAttached()) return 0;
    ++known_to;
  }
  return known_to;
}

}  // namespace

std::optional<Farewell> FarewellFor(BootTime now, const Job& job, const Host& own, uint64_t last_seq) {
  if (!MayGiveFarewell(job, own)) return std::nullopt;
  const int known_to = AudienceBeside(own, job);
  if (known_to == 0) return std::nullopt;
  Farewell farewell;
  // Else it rejoined the round, and reports its rank.
  const bool made_for_it = Same(own.part.round.id(), job.greatest.id());
  farewell.word.set_node_rank(made_for_it ? own.part.round.node_rank() : own.status.last().node_rank());
  *farewell.word.mutable_by() = job.epoch();
  farewell.word.set_known_to(known_to);
  farewell.stream = own.stream;
  farewell.echo = own.status.id();
  farewell.before = last_seq;
  farewell.since = now;
  farewell.ended_at = own.last_status_at - absl::Milliseconds(own.status.host_gone_ms());
  return farewell;
}

bool AudienceHasFarewell(const Job& job) {
  return std::all_of(job.hosts.begin(), job.hosts.end(), [&job](const auto& entry) {
    const Host& host = entry.second;
    return !host.in_farewell_audience || (job.Follows(host) && host.status.applied().seq() > job.farewell->before);
  });
}

}  // namespace muster::rendezvous
