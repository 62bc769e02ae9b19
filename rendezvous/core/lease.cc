#include "rendezvous/core/lease.h"

#include <algorithm>
#include <set>

#include "rendezvous/core/drain.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

// All other members of the round are known to have ended.
bool IsLastMember(const Job& job) {
  return job.greatest.node_count() <= 1 + static_cast<int>(job.greatest.losses.ended.size());
}

// When the newest directive was sent that another member of the round has applied; or any other node, if all other
// members have ended.
BootTime EchoedByOthers(const Job& job) {
  const bool by_any = IsLastMember(job);
  BootTime newest = absl::InfinitePast();
  for (const auto& [id, host] : job.hosts) {
    const bool counts = by_any || host.part.in_round;
    if (counts && !host.status.at_primary()) newest = std::max(newest, host.exchange.echoed_sent_at);
  }
  return newest;
}

// No node could continue elsewhere without the primary: all other members have succeeded, too, or no other node
// knows of the job.
bool NobodyCouldGoOn(const Job& job) {
  if (!IsLastMember(job)) return false;
  const std::set<int>& ended = job.greatest.losses.ended;
  return (job.hosts.size() == 1 && !job.some_strayed) ||
         std::includes(job.greatest.successes.ranks.begin(), job.greatest.successes.ranks.end(), ended.begin(),
                       ended.end());
}

}  // namespace

std::optional<v1::Lease> LeaseFor(const Job& job, const Host& host, const v1::Directive& directive) {
  if (!job.options.leased()) return std::nullopt;
  const bool recovering = job.state == State::kRecovering && host.part.in_round && job.Claims(host);
  const bool ending = directive.has_stop() && host.part.in_round && !host.IsIdle() &&
                      !StopIsOverdue(job.pauses.last_event(), job, host);
  if (!directive.has_run() && !ending && !(recovering && directive.has_wait())) return std::nullopt;
  v1::Lease lease;
  lease.set_duration_ms(absl::ToInt64Milliseconds(job.options.lease));
  if (host.status.at_primary() && !NobodyCouldGoOn(job)) {
    const BootTime echoed = EchoedByOthers(job);
    if (echoed == absl::InfinitePast()) return std::nullopt;  // no other member has applied a directive yet
    lease.set_not_after_boot_ns(ToBootNanos(echoed + job.options.lease));
  }
  return lease;
}

BootTime LeaseEnd(const Job& job, const Host& host) {
  return std::max(host.lease_until, host.silence_measured_from + job.options.lease + job.options.margin());
}

bool CountsAsLost(BootTime now, const Job& job, const Host& host) {
  if (host.IsGone()) return true;
  const CoordinatorOptions& options = job.options;
  if (host.IsAttached() && !options.leased()) return false;
  // After a pause of this process, statuses that arrived meanwhile are still unread.
  const BootTime waited_for_until = host.IsAttached()
                                        ? std::max(host.silence_measured_from + options.lease + options.margin(),
                                                   job.pauses.woke_at() + options.reconnect_grace)
                                        : host.closed_at + options.reconnect_grace;
  return now > waited_for_until && (now > host.lease_until || job.state == State::kReleasing);
}

}  // namespace muster::rendezvous
