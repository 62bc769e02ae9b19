#include "rendezvous/core/enter.h"

#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/crypto/held.h"
#include "base/wire/time_spent.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/progress.h"

namespace muster::rendezvous {
namespace {

constexpr absl::Duration kTimeWorthSaying = absl::Minutes(1);

const char* EventOf(State entered) {
  if (entered == State::kRunning) return events::kRoundStarted;
  if (entered == State::kDraining) return events::kRoundStopping;
  return entered == State::kVerdict ? events::kVerdict : "";
}

// The node that runs the job's last command (--on-success, --on-failure): rank 0 of the last round, which is the
// primary unless that has left; else the primary; else the first by place. One that is asked to leave only if
// there is no other. The verdict carries the choice, so a coordinator that takes over does not make another.
std::string WhoCloses(const Job& job) {
  const auto suitability = [&job](const Host& host) {
    const bool first = job.WasMember(host) && host.part.round.node_rank() == 0;
    const int place = host.status.has_place() ? host.status.place() : std::numeric_limits<int>::max();
    return std::make_tuple(host.IsLeaving(), !first, !host.status.at_primary(), place);
  };
  const Host* best = nullptr;
  for (const auto& [id, host] : job.hosts) {
    if (!host.IsTrainer() || !host.IsAttached() || !job.hosts.HoldsPlace(host)) continue;
    if (best == nullptr || suitability(host) < suitability(*best)) best = &host;
  }
  return best == nullptr ? "" : best->status.host_id();
}

// Nobody asks where the time of a short job went.
void SayTime(const v1::TimeSpent& time, const Job& job, Effects* out) {
  if (absl::Milliseconds(time.counted_ms()) < kTimeWorthSaying) return;
  const bool is_first = job.epoch().number() <= 1;
  Say(Severity::kInfo,
      absl::StrCat("the time of the job",
                   is_first ? ": " : " since its coordinator was replaced: ", DescribeTime(time)),
      out);
}

}  // namespace

int64_t NumberOfRound(const Job& job) {
  return job.greatest.IsKnown() ? static_cast<int64_t>(job.greatest.number()) : -1;
}

void Enter(State state, BootTime now, const std::string& why, Job* job, Effects* out, const NoteSubject& about) {
  // Starts and stops of rounds are logged for users; other transitions are logged elsewhere, or only for
  // debugging.
  const bool news = state == State::kRunning || state == State::kDraining;
  Say(news ? Severity::kInfo : Severity::kDebug, why, out,
      {.event = EventOf(state), .rank = about.rank, .node_rank = about.node_rank, .round = NumberOfRound(*job)});
  // The reason for nodes that wait meanwhile.
  if (state == State::kRunning) {
    const int count = job->greatest.node_count();
    job->why =
        absl::StrCat("round ", job->greatest.number(), " runs with ", count, count == 1 ? " node" : " nodes");
  } else if (state == State::kDraining) {
    job->why = absl::StrCat("round ", job->greatest.number(), " is stopping: ", job->greatest.drain.cause);
  }
  job->time.OnTick(now, MomentOf(now, *job));
  job->state = state;
  job->state_since = now;
  if (state == State::kGathering) job->gathering.since = std::min(job->gathering.since, now);
}

void ConcludeWith(BootTime now, int exit_code, const std::string& reason, Job* job, Effects* out) {
  v1::Verdict verdict;
  verdict.set_exit_code(exit_code);
  verdict.set_origin("muster");
  verdict.set_reason(reason);
  Conclude(now, std::move(verdict), job, out);
}

void Conclude(BootTime now, v1::Verdict verdict, Job* job, Effects* out) {
  if (verdict.digest() == 0) {  // it is this coordinator's own
    verdict.set_closing_host(WhoCloses(*job));
    job->time.OnTick(now, MomentOf(now, *job));
    *verdict.mutable_time() = job->time.ToMessage();
    SayTime(verdict.time(), *job, out);
    verdict.set_digest(DigestOf(verdict));
  }
  job->verdict = std::move(verdict);
  job->concluded_at = now;
  Enter(State::kVerdict, now, absl::StrCat("verdict ", job->verdict->exit_code(), ": ", job->verdict->reason()),
        job, out);
}

}  // namespace muster::rendezvous
