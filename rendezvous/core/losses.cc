// Lost hosts: what the loss of a host costs, and what stays known of it.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/lease.h"

namespace muster::rendezvous {

void Coordinator::LoseSilentHosts(BootTime now, Effects* out) {
  std::vector<std::string> lost;
  bool some_vanished = false;
  for (const auto& [id, host] : job_.hosts) {
    if (!CountsAsLost(now, job_, host)) continue;
    lost.push_back(id);
    some_vanished |= job_.CostsTheRound(host) && !host.IsGone();
  }
  const StartedLast started = some_vanished ? StartedLast(job_.hosts) : StartedLast();
  size_t costly = 0;
  for (const std::string& id : lost) {
    if (Lose(now, id, started, costly < kMaxLossesNamed, out)) ++costly;
  }
  if (costly > kMaxLossesNamed) {
    Say(Severity::kWarning, absl::StrCat("and ", costly - kMaxLossesNamed, " more nodes were lost"), out);
  }
}

// Removes a lost host. `id` must not refer to a string inside the host, which is destroyed here.
bool Coordinator::Lose(BootTime now, const std::string& id, const StartedLast& started, bool in_the_log,
                       Effects* out) {
  Host& host = job_.hosts.Get(id);
  const bool costly = job_.CostsTheRound(host);
  if (costly) {
    const bool gone = host.IsGone();
    const absl::Duration ago = gone ? absl::Milliseconds(host.status.host_gone_ms()) : absl::ZeroDuration();
    NoteNodeLost(host.last_status_at - ago, host, gone ? HowEnded(host) : HowVanished(now, job_, host, started),
                 in_the_log, out);
  }
  if (!host.IsGone()) {
    job_.some_strayed |= host.IsTrainer();
    job_.greatest.strayed |= host.IsTrainer();
    if (costly && !job_.greatest.missed_at) job_.greatest.missed_at = now;
    Forget(id, out);
    return costly;
  }
  if (host.IsAttached()) {
    // The agent exits once this coordinator has acknowledged its report. If that agent holds this coordinator, the
    // other nodes must have the farewell first.
    if (!BeginFarewell(now, host)) Send(now, host, out);
    job_.hosts.Detach(&host);
  }
  ForgetEnded(id, out);
  return costly;
}

// The loss of a member, which ends the round.
void Coordinator::NoteNodeLost(BootTime at, const Host& host, const std::string& text, bool in_the_log,
                               Effects* out) {
  job_.greatest.NoteLoss(at, text, in_the_log, host.part.round.node_rank(), host.part.node);
  if (!in_the_log) return;
  Say(Severity::kWarning, text, out,
      {.event = events::kNodeLost,
       .node_rank = host.part.round.node_rank(),
       .round = static_cast<int64_t>(job_.greatest.number())});
}

void Coordinator::ForgetEnded(const std::string& host_id, Effects* out) {
  const Host* const host = job_.hosts.Find(host_id);
  if (host != nullptr && host->part.in_round) job_.greatest.ended.insert(host->part.round.node_rank());
  Forget(host_id, out);
}

void Coordinator::Forget(const std::string& host_id, Effects* out) {
  const Host* const host = job_.hosts.Find(host_id);
  if (host == nullptr) return;
  if (host->IsAttached()) out->push_back(CloseStream{host->stream, "no heartbeat for too long"});
  GreatestRound& greatest = job_.greatest;
  if (host->part.in_round && host->part.succeeded) {
    greatest.departed_after_success.insert(host->part.round.node_rank());
  }
  if (host->part.in_round && host->status.has_failure()) {
    greatest.NoteLostFailure(host->status.failure(), host_id, host->failed_at);
  }
  greatest.lost_had_progressed |= job_.Claims(*host) && host->status.progressed();
  greatest.lost_watched_progress |= job_.Claims(*host) && host->status.watches_progress();
  job_.hosts.Erase(host_id);
}

}  // namespace muster::rendezvous
