#include "rendezvous/core/hang_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/directives.h"
#include "rendezvous/core/enter.h"
#include "rendezvous/core/hung_ranks.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

void TellMembersAtOnce(Job* job) {
  for (auto& [id, host] : job->hosts) {
    if (host.part.in_round) host.exchange.order_sent = -1;
  }
}

void AskWhereWorkersStand(BootTime now, Job* job, Effects* out) {
  job->hang.Ask(now);
  Say(Severity::kWarning, absl::StrCat(DescribeSilence(*job), ": asking all nodes where their workers stand"), out,
      {.event = events::kHang, .round = NumberOfRound(*job)});
  TellMembersAtOnce(job);
}

void ActOnHang(BootTime now, Job* job, Effects* out) {
  Hang& hang = job->hang;
  const Finding finding = FindHung(*job);
  hang.reported = true;
  hang.question = 0;
  Say(Severity::kError, finding.why, out,
      {.event = events::kHang, .rank = finding.rank, .round = NumberOfRound(*job)});
  for (const std::string& line : finding.lines) Say(Severity::kInfo, line, out, {.event = events::kStacks});
  if (job->options.on_hang == OnHang::kReport)
    return Say(Severity::kWarning, "the job is left as it is (--on-hang report)", out, {.event = events::kHang});
  hang.kill_order.emplace();
  *hang.kill_order->mutable_round() = job->greatest.id();
  hang.kill_order->set_rank(finding.rank);
  hang.kill_order->set_why(finding.why);
  hang.kill_order->set_is_sure(finding.is_sure);
  hang.kill_ordered_at = now;
  TellMembersAtOnce(job);
}

}  // namespace

// Whether it hangs shows on each tick; what follows is a failure on the node that ends a rank. If nothing is a
// hang, it does not look at the hosts, of which there may be thousands.
void WatchForHang(BootTime now, Job* job, Effects* out) {
  if (job->options.hang_timeout == absl::InfiniteDuration()) return;
  Hang& hang = job->hang;
  const std::optional<bool> stalls = hang.Judge(now, SilenceOf(now, kFreshBeats * Beat(*job) + kTick, *job));
  if (!stalls) return;
  if (!*stalls) {
    if (hang.Dismiss())
      Say(Severity::kInfo, "the workers show signs of life again", out, {.event = events::kHang});
    if (hang.judge.is_cold_silence() && !std::exchange(hang.grace_reported, true))
      Say(Severity::kInfo, DescribeColdSilence(*job), out, {.event = events::kHang});
    return;
  }
  if (hang.reported) return;
  if (hang.question == 0) return AskWhereWorkersStand(now, job, out);
  if (AllHaveAnswered(*job) || now >= hang.asked_at + kSnapshotAnswers) ActOnHang(now, job, out);
}

}  // namespace muster::rendezvous
