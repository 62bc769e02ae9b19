#include "rendezvous/core/recovery.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

// A node in the place of an absent member means that the member will not return.
bool SomeoneTookAPlace(const Job& job) {
  bool taken = false;
  for (const auto& [id, host] : job.hosts) {
    taken |= host.IsTrainer() && !job.Claims(host) && host.IsAttached() && job.hosts.HoldsPlace(host) &&
             job.IsCurrent(host);
  }
  return taken;
}

}  // namespace

Members LookAtMembers(const Job& job) {
  Members members;
  std::set<int> running = job.greatest.successes.departed;
  bool all_succeeded = true;
  int claims = 0, may_have_missed_it = 0;
  for (const auto& [id, host] : job.hosts) {
    if (!job.Follows(host) || !host.IsTrainer()) continue;
    const v1::Phase phase = host.status.phase();
    if (!job.Claims(host)) {
      const bool may_be_member = !job.greatest.was_made_here || job.greatest.HasMember(id);
      may_have_missed_it += may_be_member && host.part.in_older_round && host.IsAttached() ? 1 : 0;
      if (may_be_member && host.status.last().has_node_rank() && host.RunsSomething()) {
        members.broken = absl::StrCat(host.status.hostname(), " runs a different round");
      }
      continue;
    }
    ++claims;
    const bool succeeded = job.HasSucceeded(host);
    // A member that is stopping would end the round anyway once it is continued (drain.h); this is earlier.
    if (succeeded || job.LeavesAfterSuccess(host) || phase == v1::PHASE_STARTING || phase == v1::PHASE_RUNNING) {
      running.insert(host.part.round.node_rank());
      all_succeeded &= succeeded;
    } else {
      members.broken = absl::StrCat(host.Name(), " no longer runs the round (", ToString(phase), ")");
    }
  }
  members.some_came = claims > 0;
  members.all_who_came_succeeded = members.some_came && all_succeeded;
  members.all_run = static_cast<int>(running.size()) == job.greatest.node_count();
  // A node that reports an older round may have been cut off when this round was made, and then the round is
  // healthy. Or it is a member that the RUN never reached, and the others wait for it in vain. The second is
  // certain once all nodes of the job are accounted for.
  if (members.some_came && !members.all_run && claims + may_have_missed_it >= job.options.max_nodes) {
    members.broken = "a member of the round was never told to start it";
  }
  if (!members.broken.empty() || job.PrimaryIsKnownEnded()) {
    if (const std::string ended = HowPrimaryEnded(job); !ended.empty()) members.broken = ended;
  }
  return members;
}

absl::Duration PatienceForAbsent(const Job& job, const Members& members) {
  // All may be done: the absent members may have succeeded, too, and return to report it.
  if (members.all_who_came_succeeded && !SomeoneTookAPlace(job)) return job.options.rejoin_timeout;
  return job.options.leased() ? job.options.lease + job.options.margin() : kUnleasedReturn;
}

BootTime AbsentAreAwaitedUntil(const Job& job, const Members& members) {
  return job.succession.last_attach() + PatienceForAbsent(job, members);
}

// The coordinator's own host would know of such a round. A separate coordinator has no such host and must wait
// until the lease of that round would have expired. Where every node has a place, no node can stand in for
// another. A node that cannot start its program counts like a spare.
bool SparesMayHideARound(BootTime now, const Job& job) {
  if (!job.options.leased()) return false;
  bool placed = true;
  for (const auto& [id, host] : job.hosts) {
    placed &= host.status.has_place() || !(host.IsTrainer() && (job.IsReady(host) || job.CannotStart(host)));
  }
  if (!job.options.in_agent) return !placed;
  return job.OwnHost() == nullptr || (!placed && now < job.succession.epoch_start() + job.options.agents_return);
}

}  // namespace muster::rendezvous
