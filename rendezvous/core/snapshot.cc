#include "rendezvous/core/snapshot.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "base/wire/ranges.h"
#include "rendezvous/core/directives.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/progress.h"

namespace muster::rendezvous {
namespace {

v1::JobView::State StateOf(const Job& job) {
  switch (job.state) {
    case State::kRecovering:
      return v1::JobView::STATE_RECOVERING;
    case State::kGathering:
      return v1::JobView::STATE_GATHERING;
    case State::kRunning:
      return v1::JobView::STATE_RUNNING;
    case State::kDraining:
      return v1::JobView::STATE_DRAINING;
    case State::kVerdict:
    case State::kReleasing:
      return v1::JobView::STATE_ENDING;
  }
  return v1::JobView::STATE_UNKNOWN;
}

std::string ReasonOf(const Job& job) {
  if (job.verdict) return job.verdict->reason();
  if (job.state == State::kDraining) return job.greatest.drain.cause;
  return job.state == State::kRunning ? "" : WhyWaiting(job);
}

v1::NodeView::Part PartOf(BootTime now, const Job& job, const Host& host) {
  if (!host.IsTrainer()) return v1::NodeView::PART_OBSERVER;
  if (host.part.in_round) return v1::NodeView::PART_MEMBER;
  if (!job.hosts.HoldsPlace(host)) return v1::NodeView::PART_STANDBY;
  if (job.IsExcluded(host.status.host_id(), now) || job.IsHeldBack(host, now)) return v1::NodeView::PART_SET_ASIDE;
  if (!job.IsReady(host)) return v1::NodeView::PART_ARRIVING;
  return job.state == State::kRunning ? v1::NodeView::PART_SPARE : v1::NodeView::PART_READY;
}

std::string TroubleOf(const Job& job, const Host& host) {
  const v1::AgentStatus& status = host.status;
  if (host.IsGone()) return HowEnded(host);
  if (host.IsUnusable()) return WhyUnusable(status);
  if (host.IsLeaving()) return host.WhyItLeft();
  if (status.has_cannot_start()) return WhyItCannotStart(job, status);
  return host.part.in_round ? status.preparing() : "";
}

absl::Duration SetAsideFor(BootTime now, const Job& job, const Host& host) {
  BootTime until = job.crash_loops.HeldBackUntil(NodeFor(host, job.gathering.first_round));
  const auto excluded = job.counts.excluded.find(host.status.host_id());
  if (excluded != job.counts.excluded.end()) until = std::max(until, excluded->second);
  return std::max(absl::ZeroDuration(), until - now);
}

int64_t SlowestStep(const v1::AgentStatus& status) {
  int64_t least = 0;
  for (const int64_t step : status.steps()) {
    if (step > 0 && (least == 0 || step < least)) least = step;
  }
  return least;
}

v1::NodeView ViewOf(BootTime now, const Job& job, const Host& host) {
  const v1::AgentStatus& status = host.status;
  v1::NodeView node;
  node.set_host_id(Foreign(status.host_id()));
  node.set_hostname(Foreign(status.hostname()));
  node.set_version(Foreign(status.version()));
  node.set_part(PartOf(now, job, host));
  node.set_phase(status.phase());
  node.set_workers(status.slots());
  node.set_live_workers(status.live_workers());
  if (status.has_place()) node.set_place(status.place());
  if (host.part.in_round) {
    node.set_node_rank(host.part.round.node_rank());
    node.set_first_rank(host.part.round.first_rank());
  }
  node.set_connected(host.IsAttached());
  node.set_heard_ms(WireMilliseconds(now - host.last_status_at));
  node.set_trouble(Foreign(TroubleOf(job, host)));
  if (status.has_quiet_ms()) node.set_quiet_ms(status.quiet_ms());
  node.set_step(SlowestStep(status));
  node.set_restarts_caused(job.history.RestartsCausedBy(NodeFor(host, job.gathering.first_round)));
  if (node.part() == v1::NodeView::PART_SET_ASIDE)
    node.set_set_aside_ms(WireMilliseconds(SetAsideFor(now, job, host)));
  return node;
}

void AddNodes(BootTime now, const Job& job, v1::JobView* view) {
  for (const auto& [id, host] : job.hosts) *view->add_nodes() = ViewOf(now, job, host);
  std::sort(view->mutable_nodes()->begin(), view->mutable_nodes()->end(), [](const auto& a, const auto& b) {
    const auto key = [](const v1::NodeView& node) {
      return std::tuple(!node.has_node_rank(), node.node_rank(), node.hostname(), node.host_id());
    };
    return key(a) < key(b);
  });
}

void SetRound(BootTime now, const Job& job, v1::JobView* view) {
  if (!job.greatest.IsKnown()) return;
  const v1::Round& known = job.greatest.round;
  v1::RoundView* round = view->mutable_round();
  round->set_number(job.greatest.number());
  round->set_node_count(known.node_count());
  round->set_world_size(known.world_size());
  round->set_restart_count(known.restart_count());
  if (job.greatest.was_made_here) round->set_age_ms(WireMilliseconds(now - job.greatest.since));
  round->set_master(Foreign(ToString(known.master())));
}

int CountSince(const std::vector<BootTime>& times, BootTime since) {
  return static_cast<int>(
      std::count_if(times.begin(), times.end(), [since](BootTime time) { return time > since; }));
}

void AddEnded(BootTime now, const RoundHistory& history, v1::JobView* view) {
  view->set_ended_before(history.earlier());
  view->set_lost_ms(WireMilliseconds(history.LostBy(now)));
  for (const EndedRound& round : history.newest()) {
    v1::EndedRound* const ended = view->add_ended();
    ended->set_number(round.number);
    ended->set_kind(KindOf(round.end));
    ended->set_cause(CutUtf8(OneLine(round.cause), kMaxEndCauseBytes));
    ended->set_age_ms(WireMilliseconds(now - round.trouble));
    if (round.ran) ended->set_ran_ms(WireMilliseconds(*round.ran));
    ended->set_lost_ms(WireMilliseconds(round.lost));
    ended->set_detecting_ms(WireMilliseconds(round.detecting));
    ended->set_draining_ms(WireMilliseconds(round.draining));
    ended->set_gathering_ms(WireMilliseconds(round.gathering));
    if (round.starting) ended->set_starting_ms(WireMilliseconds(*round.starting));
  }
  *view->mutable_recoveries() = history.recoveries().ToMessage();
  for (const EndCause end :
       {EndCause::kMembership, EndCause::kWorkerFailure, EndCause::kNodeLoss, EndCause::kAsked}) {
    v1::Restarts* const restarts = view->add_restarts();
    restarts->set_kind(KindOf(end));
    restarts->set_count(history.Restarts(end));
  }
}

// ---- what is odd ----

std::string Named(const v1::NodeView& node) {
  return node.has_node_rank() ? absl::StrCat("node ", node.node_rank(), " (", node.hostname(), ")")
                              : node.hostname();
}

std::string OddNode(const Job& job, const v1::NodeView& node) {
  if (!node.trouble().empty()) return absl::StrCat(Named(node), ": ", node.trouble());
  const absl::Duration heard = absl::Trunc(absl::Milliseconds(node.heard_ms()), absl::Seconds(1));
  if (!node.connected()) return absl::StrCat(Named(node), ": no connection for ", absl::FormatDuration(heard));
  if (job.options.leased() && heard > kLateBeats * Beat(job))
    return absl::StrCat(Named(node), ": no status for ", absl::FormatDuration(heard));
  if (node.part() == v1::NodeView::PART_SET_ASIDE)
    return absl::StrCat(
        Named(node), ": left out of rounds for ",
        absl::FormatDuration(absl::Trunc(absl::Milliseconds(node.set_aside_ms()), absl::Seconds(1))), " more");
  return "";
}

void AddOdd(BootTime now, const Job& job, v1::JobView* view) {
  std::vector<std::string> odd = {DescribeOddSilence(now, job)};
  for (std::string& one : UsedUpBudgets(view->left())) odd.push_back(std::move(one));
  const int absent = job.options.max_nodes - view->round().node_count();
  if (job.state == State::kRunning && absent > 0)
    odd.push_back(absl::StrCat("runs with ", view->round().node_count(), " of ", job.options.max_nodes, " nodes"));
  for (v1::NodeView& node : *view->mutable_nodes()) {
    odd.push_back(OddNode(job, node));
    node.set_is_odd(!odd.back().empty());
  }
  for (std::string& one : odd) {
    if (!one.empty() && view->odd_size() < kMaxOddShown) view->add_odd(std::move(one));
  }
}

// Very many nodes have no texts: what matters of these is in the sentences about odd nodes.
void Shorten(v1::JobView* view) {
  if (view->ByteSizeLong() <= kMaxDetailedBytes) return;
  for (v1::NodeView& node : *view->mutable_nodes()) {
    node.clear_host_id();
    node.clear_version();
    node.clear_trouble();
  }
}

}  // namespace

// The round's own cost counts once it is drained; of earlier ones what is still in its window.
v1::Budgets BudgetsLeft(BootTime now, const Job& job) {
  v1::Budgets left;
  const CoordinatorOptions& options = job.options;
  const bool is_closed = job.state == State::kGathering || job.IsOver();
  const RestartLedger& counts = is_closed ? job.counts : job.greatest.counts;
  const bool forgets = options.restart_window < absl::InfiniteDuration();
  const int failures = forgets ? CountSince(counts.failure_times, now - options.restart_window) : counts.failures;
  left.set_max_restarts(options.max_restarts);
  left.set_restarts(std::max(0, options.max_restarts - failures));
  left.set_max_node_losses(options.max_node_losses);
  left.set_node_losses(
      std::max(0, options.max_node_losses - CountSince(counts.losses, now - options.node_loss_window)));
  left.set_restarts_so_far(counts.restart_count);
  return left;
}

std::vector<std::string> UsedUpBudgets(const v1::Budgets& left) {
  std::vector<std::string> used_up;
  if (left.max_restarts() > 0 && left.restarts() == 0)
    used_up.emplace_back("the next failure of a worker ends the job (--max-restarts)");
  if (left.max_node_losses() > 0 && left.node_losses() == 0)
    used_up.emplace_back("the next loss of a node ends the job (--max-node-losses)");
  return used_up;
}

std::string DescribeOddSilence(BootTime now, const Job& job) {
  const std::optional<absl::Duration> silence = OddSilenceOf(now, job);
  if (!silence) return "";
  return absl::StrCat("no worker has shown a sign of life for ",
                      absl::FormatDuration(absl::Trunc(*silence, absl::Seconds(1))),
                      ", which is many steps long: muster stacks shows where they stand");
}

bool IsSpare(BootTime now, const Job& job, const Host& host) {
  return host.IsAttached() && PartOf(now, job, host) == v1::NodeView::PART_SPARE;
}

v1::JobView Snapshot(BootTime now, const Job& job) {
  v1::JobView view;
  view.set_run_id(job.options.run_id);
  view.set_state(StateOf(job));
  *view.mutable_epoch() = job.epoch();
  view.set_state_ms(WireMilliseconds(now - job.state_since));
  view.set_reason(ReasonOf(job));
  view.set_min_nodes(job.options.min_nodes);
  view.set_max_nodes(job.options.max_nodes);
  view.set_coordinator_ms(WireMilliseconds(now - job.began));
  view.set_coordinator_alone(!job.options.in_agent);
  if (const Host* const own = job.OwnHost()) view.set_coordinator(Foreign(own->status.hostname()));
  if (job.verdict) view.set_exit_code(job.verdict->exit_code());
  SetRound(now, job, &view);
  *view.mutable_left() = BudgetsLeft(now, job);
  AddNodes(now, job, &view);
  if (job.state == State::kRecovering || job.state == State::kGathering) {
    for (const std::string& name : AbsentPlaces(job)) {
      if (view.missing_size() < kMaxMissingShown) view.add_missing(name);
    }
  }
  AddEnded(now, job.history, &view);
  *view.mutable_progress() = ProgressOf(now, job);
  *view.mutable_time() = job.time.ToMessage();
  AddOdd(now, job, &view);
  Shorten(&view);
  return view;
}

}  // namespace muster::rendezvous
