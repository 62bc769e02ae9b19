#include "rendezvous/core/steps.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"
#include "rendezvous/core/drain.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/glance.h"
#include "rendezvous/core/hang_watch.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/losses.h"
#include "rendezvous/core/next_round.h"
#include "rendezvous/core/states.h"

namespace muster::rendezvous {
namespace {

constexpr int kMaxSteps = 16;  // per event; the longest path is recovering -> draining -> gathering -> running

// ---- what each step notes before it decides -----------------------------------------------------------------

void NoteRecovering(const Glance& glance, Job* job) {
  if (job->greatest.IsKnown()) {
    job->why = WhyRecovering(*job, PatienceForAbsent(*job, glance.members()));
    return;
  }
  const BootTime end = PredecessorsLeasesEnd(*job);
  const bool longer = end > job->succession.members_known_until();
  const absl::Duration wait =
      longer ? absl::Ceil(end - job->succession.epoch_start(), absl::Seconds(1)) : job->options.lease;
  job->why = WhyNoRoundYet(*job, static_cast<int>(glance.ready_nodes().size()), glance.arriving(), wait);
}

void NoteGathering(const Glance& glance, Job* job) {
  const int ready = glance.ready();
  const Arriving& arriving = glance.arriving();
  if (arriving.something_runs) return;
  if (job->MakesNoMoreRounds()) {
    job->why = absl::StrCat(job->primary_leaves ? "the primary is leaving" : "the coordinator is ending",
                            "; the job continues once it is back");
    return;
  }
  BootTime& min_reached = job->gathering.min_reached;
  min_reached = ready >= job->options.min_nodes ? std::min(min_reached, glance.now) : absl::InfiniteFuture();
  if (glance.now < job->gathering.not_before) {
    job->why = WhyPaused(*job);
    return;
  }
  const bool overdue = GatheringIsOverdue(glance.now, *job);
  const bool waits =
      !StartsNow(glance.now, *job, ready, arriving) && (!overdue || PreparingMaySuffice(*job, ready, arriving));
  const std::string end = overdue ? "waits for nodes that prepare" : HowGatheringEnds(*job, ready, arriving);
  job->why = HowManyAreReady(*job, ready, waits ? end : "");
}

void NoteRunning(const Glance& glance, Job* job) {
  if (!glance.why_stop() && job->greatest.successes.ranks.empty()) NoteNewcomers(glance.now, job);
}

void NoteDraining(const Glance& glance, Job* job, Effects* out) {
  if (!job->farewell && !job->EveryNodeSucceeded() && glance.is_drained()) CloseRound(glance.now, job, out);
}

void NoteBeforeStep(const Glance& glance, Job* job, Effects* out) {
  switch (job->state) {
    case State::kRecovering:
      return NoteRecovering(glance, job);
    case State::kGathering:
      return NoteGathering(glance, job);
    case State::kRunning:
      return NoteRunning(glance, job);
    case State::kDraining:
      return NoteDraining(glance, job, out);
    case State::kVerdict:
    case State::kReleasing:
      return;
  }
}

// True: something changed.
bool Step(BootTime now, const Acting& acting, Effects* out) {
  const Glance glance(now, *acting.job);
  NoteBeforeStep(glance, acting.job, out);
  const Transition* const row = NextTransition(glance);
  if (row == nullptr) {
    if (acting.job->state == State::kRunning) WatchForHang(now, acting.job, out);
    return false;
  }
  row->act(glance, acting, out);
  MUSTER_CHECK(acting.job->state == row->to, "an action has not entered its row's state");
  return true;
}

}  // namespace

void Decide(BootTime now, const Acting& acting, Outbox* outbox, Effects* out) {
  outbox->ForgetAbsent();
  for (int i = 0; i < kMaxSteps; ++i) {
    LoseSilentHosts(now, acting.job, outbox, out);
    if (!Step(now, acting, out)) return;
  }
}

}  // namespace muster::rendezvous
