#include "rendezvous/core/losses.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/lease.h"

namespace muster::rendezvous {
namespace {

void Forget(const std::string& host_id, Job* job, Effects* out) {
  const Host* const host = job->hosts.Find(host_id);
  if (host == nullptr) return;
  if (host->IsAttached()) out->push_back(CloseStream{host->stream, "no heartbeat for too long"});
  GreatestRound& greatest = job->greatest;
  if (host->part.in_round && host->part.succeeded) {
    greatest.successes.departed.insert(host->part.round.node_rank());
  }
  if (host->part.in_round && Same(host->status.failure().round(), greatest.id()) && host->status.has_failure()) {
    greatest.gone.NoteFailure(host->status.failure(), host_id, host->failed_at);
  }
  greatest.gone.had_progressed |= job->Claims(*host) && host->status.progressed();
  greatest.gone.watched_progress |= job->Claims(*host) && host->status.watches_progress();
  job->hosts.Erase(host_id);
}

}  // namespace

void NoteNodeLost(BootTime at, const Host& host, const std::string& text, bool in_the_log, Job* job,
                  Effects* out) {
  job->greatest.losses.Note(at, text, &host.part, in_the_log);
  if (!in_the_log) return;
  Say(Severity::kWarning, text, out,
      {.event = events::kNodeLost,
       .node_rank = host.part.round.node_rank(),
       .round = static_cast<int64_t>(job->greatest.number()),
       .host = host.status.hostname()});
}

void ForgetEnded(const std::string& host_id, Job* job, Effects* out) {
  const Host* const host = job->hosts.Find(host_id);
  if (host != nullptr && host->part.in_round) job->greatest.losses.ended.insert(host->part.round.node_rank());
  Forget(host_id, job, out);
}

namespace {

// Removes a lost host. `id` must not refer to a string inside the host, which is destroyed here.
// True: it cost the round.
bool Lose(BootTime now, const std::string& id, const StartedLast& started, bool in_the_log, Job* job,
          Outbox* outbox, Effects* out) {
  Host& host = job->hosts.Get(id);
  const bool costly = job->CostsTheRound(host);
  if (costly) {
    const bool gone = host.IsGone();
    const absl::Duration ago = gone ? absl::Milliseconds(host.status.host_gone_ms()) : absl::ZeroDuration();
    NoteNodeLost(host.last_status_at - ago, host, gone ? HowEnded(host) : HowVanished(now, *job, host, started),
                 in_the_log, job, out);
  }
  if (!host.IsGone()) {
    job->some_strayed |= host.IsTrainer();
    job->greatest.losses.strayed |= host.IsTrainer();
    if (costly && !job->greatest.losses.missed_at) job->greatest.losses.missed_at = now;
    Forget(id, job, out);
    return costly;
  }
  if (host.IsAttached()) {
    // The agent exits once this coordinator has acknowledged its report. If that agent holds this coordinator, the
    // other nodes must have the farewell first.
    if (!outbox->BeginFarewell(now, host, job)) outbox->Send(now, *job, &host, out);
    job->hosts.Detach(&host);
  }
  ForgetEnded(id, job, out);
  return costly;
}

}  // namespace

void LoseSilentHosts(BootTime now, Job* job, Outbox* outbox, Effects* out) {
  std::vector<std::string> lost;
  bool some_vanished = false;
  for (const auto& [id, host] : job->hosts) {
    if (!CountsAsLost(now, *job, host)) continue;
    lost.push_back(id);
    some_vanished |= job->CostsTheRound(host) && !host.IsGone();
  }
  const StartedLast started = some_vanished ? StartedLast(job->hosts) : StartedLast();
  size_t costly = 0;
  for (const std::string& id : lost) {
    if (Lose(now, id, started, costly < kMaxLossesNamed, job, outbox, out)) ++costly;
  }
  if (costly > kMaxLossesNamed) {
    Say(Severity::kWarning, absl::StrCat("and ", costly - kMaxLossesNamed, " more nodes were lost"), out);
  }
}

void LoseEnded(BootTime now, const std::string& id, Job* job, Outbox* outbox, Effects* out) {
  Lose(now, id, StartedLast(), true, job, outbox, out);
}

}  // namespace muster::rendezvous
