#include "rendezvous/core/new_round.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/core/check.h"
#include "rendezvous/core/enter.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {

void BeginRound(BootTime now, const std::vector<Candidate>& members, Job* job, Effects* out) {
  job->refusals.BeginRound();
  std::vector<v1::Round> rounds = AssignRanks(members);
  GreatestRound& greatest = job->greatest;
  Gathering& gathering = job->gathering;
  v1::RoundId id;
  // The ledger may come from a round with a greater number than any seen here; the restart count bounds it from
  // below.
  const auto restarts = static_cast<uint64_t>(job->counts.restart_count);
  id.set_number(1 + std::max({greatest.kept.max_number, greatest.number(), restarts}));
  *id.mutable_epoch() = job->epoch();
  gathering.largest = std::max(gathering.largest, static_cast<int>(members.size()));
  const bool is_first = gathering.first_round;
  std::map<int, std::string> host_ids;
  for (const v1::Round& round : rounds) {
    host_ids[round.node_rank()] = members[static_cast<size_t>(round.node_rank())].host_id;
  }
  const auto own = std::find_if(members.begin(), members.end(), [](const Candidate& c) { return c.at_primary; });
  for (auto& [host_id, host] : job->hosts) {
    // Normally cleared already: by the end of a drain, or because without a drain no round was known.
    host.part.in_round = host.part.succeeded = false;
    host.exchange.run_seq = host.exchange.stop_seq = 0;
    host.part.lost_at = absl::InfiniteFuture();
  }
  for (size_t i = 0; i < members.size(); ++i) {
    Host& host = job->hosts.Get(members[i].host_id);
    v1::Round& round = rounds[i];
    *round.mutable_id() = id;
    if (own != members.end()) round.set_coordinator_rank(static_cast<int>(own - members.begin()));
    job->counts.WriteTo(now, &round);
    round.set_largest_node_count(gathering.largest);
    round.set_max_restarts(job->options.max_restarts);
    host.part.in_round = true;
    host.part.round = round;
    host.part.workers = host.status.slots();
    host.part.node = NodeFor(host, is_first);
    host.seat = members[i].seat;
  }
  greatest.Become(rounds.front(), now, true);
  greatest.members = std::move(host_ids);
  greatest.counts = job->counts;
  job->hang.BeginRound();
  gathering.first_round = false;
  gathering.newcomers_since = absl::InfiniteFuture();
  job->succession.ForgetFarewell();
  job->succession.BeginRound();
  MUSTER_CHECK(greatest.node_count() >= job->options.min_nodes && greatest.node_count() <= job->options.max_nodes,
               "round size outside MIN..MAX");
  Enter(State::kRunning, now, DescribeStart(*job, job->why), job, out);
}

}  // namespace muster::rendezvous
