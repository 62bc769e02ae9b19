#include "rendezvous/core/directives.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/crypto/held.h"
#include "base/exit_codes.h"
#include "base/wire/ids.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/lease.h"

namespace muster::rendezvous {

absl::Duration Beat(const Job& job) {
  absl::Duration beat = job.options.beat;
  if (beat == absl::ZeroDuration()) {
    beat = std::max(kMinBeat, absl::Seconds(static_cast<double>(job.hosts.size()) / kBeatsPerSecond));
  }
  // A sixth: renewing the primary's own lease takes a directive, its echo and one more beat, and must be done in
  // time.
  return job.options.leased() ? std::min(beat, job.options.lease / 6) : beat;
}

namespace {

void FillSettings(const Job& job, v1::Settings* settings) {
  settings->set_min_nodes(job.options.min_nodes);
  settings->set_max_nodes(job.options.max_nodes);
  settings->set_max_restarts(job.options.max_restarts);
  settings->set_max_node_losses(job.options.max_node_losses);
  settings->set_beat_ms(absl::ToInt64Milliseconds(Beat(job)));
  settings->set_lease_ms(absl::ToInt64Milliseconds(job.options.lease));
}

v1::Round GreatestForTelling(BootTime now, const Job& job, const Host& host) {
  v1::Round round = job.greatest.round;
  job.greatest.counts.WriteTo(now, &round);
  if (job.farewell && host.in_farewell_audience && Same(job.farewell->word.by(), job.epoch())) {
    *round.mutable_primary_ended() = job.farewell->WordAt(now);
  }
  return round;
}

// Texts that need not travel again: those of a failure, and a verdict's details. They have many KiB, belong to
// every heartbeat until the next round or the end of the job, and come from thousands of nodes at once.
void SetHeldDigests(const Job& job, const Host& host, v1::Directive* directive) {
  const v1::Failure& failure = host.status.failure();
  if (!failure.texts_left_out()) directive->set_held_failure_texts(failure.texts_digest());
  const v1::Failure& cannot_start = host.status.cannot_start();
  if (!cannot_start.texts_left_out()) directive->set_held_cannot_start_texts(cannot_start.texts_digest());
  if (job.verdict && !job.verdict->brief()) directive->set_held_verdict(job.verdict->digest());
}

// What people ask of workers that run, also while their round ends.
void FillQuestions(const Job& job, const Host& host, v1::Directive* directive) {
  if (!host.part.in_round) return;
  if (job.stacks.round() == job.greatest.number())
    directive->set_stacks(job.stacks.NumberFor(host.status.host_id()));
  const RankQuestions::Asked* const one = job.ranks.For(host.status.host_id(), job.greatest.number());
  if (directive->stacks() != 0 || one == nullptr) return;
  directive->set_stacks(one->number);
  directive->set_stacks_of(one->local_rank);
}

// A signal that people want workers to have, and what is done about a hang: the question goes to all members, the
// order to end it to the one that runs the rank.
void FillSignals(BootTime now, const Job& job, const Host& host, v1::Directive* directive) {
  if (const auto signal = job.signalling.For(now, host.status.host_id())) *directive->mutable_signal() = *signal;
  directive->set_snapshot(job.hang.question);
  if (job.hang.judge.learns())
    directive->set_learned_silence_ms(absl::ToInt64Milliseconds(job.hang.judge.learned()));
  if (!job.hang.kill_order) return;
  const int first = host.part.round.first_rank(), rank = job.hang.kill_order->rank();
  if (rank >= first && rank < first + host.part.workers) *directive->mutable_hang() = *job.hang.kill_order;
}

// To a few members in other processes: they outlive this coordinator. Repeated until the host has applied a
// directive that had them, since one that is not written yet gives way to the next.
void FillEvents(BootTime now, const Job& job, Host* host, v1::Directive* directive) {
  if (!job.WasMember(*host) || host->part.round.node_rank() >= kEventHolders || IsLocal(host->stream)) return;
  Exchange& exchange = host->exchange;
  // It holds no more than the newest (agent/process/core/held_events.h).
  const uint64_t newest = job.events.last(),
                 oldest_sent = newest > kMaxEventsCopied ? newest - kMaxEventsCopied : 0;
  const uint64_t last = job.events.CopyAfter(now, std::max(exchange.events_held, oldest_sent), kEventsPerDirective,
                                             directive->mutable_events());
  if (directive->events().empty() || exchange.events_seq != 0) return;
  exchange.events_sent = last;
  exchange.events_seq = directive->id().seq();
}

v1::Verdict VerdictFor(const Job& job, const Host& host) {
  const bool held = host.status.has_verdict() && host.status.verdict().digest() == job.verdict->digest();
  return held ? Brief(*job.verdict) : *job.verdict;
}

v1::Stop StopFor(const Job& job, const Host& host) {
  v1::Stop stop;
  *stop.mutable_round() = host.part.in_round ? job.greatest.id() : host.status.last().id();
  stop.set_cause(host.part.in_round ? job.greatest.drain.cause : "this round is over");
  stop.set_grace_ms(absl::ToInt64Milliseconds(job.options.shutdown_grace));
  return stop;
}

v1::Release ReleaseFor(const Job& job, const Host& host) {
  v1::Release release;
  const bool left = job.state != State::kReleasing;
  release.set_exit_code(left ? kExitLeft : host.IsTrainer() ? job.verdict->exit_code() : 0);
  release.set_reason(left ? host.WhyItLeft() : job.verdict->reason());
  return release;
}

// A node that claims a place learns nothing of its holder that helps elsewhere than in the holder's own container.
void SetHolder(const Host& holder, const Host& claimant, v1::Wait* wait) {
  v1::Holder* held_by = wait->mutable_held_by();
  held_by->set_hostname(holder.status.hostname());
  const v1::Whereabouts& whereabouts = holder.status.whereabouts();
  const bool same = !whereabouts.user().empty() && whereabouts.user() == claimant.status.whereabouts().user();
  if (same) held_by->set_process(whereabouts.process());
}

// Whether a host that is leaving, with nothing alive, may go: the primary stays for others that still drain.
bool MayLeave(BootTime now, const Job& job, const Host& host) {
  if (!host.IsLeaving() || !host.IsIdle() || host.status.cancelled()) return false;
  return !(host.status.at_primary() && job.OthersAttached(now, host) && job.state == State::kDraining);
}

}  // namespace

v1::Directive::OrderCase OrderFor(BootTime now, const Job& job, const Host& host) {
  if (host.IsGone()) return v1::Directive::kRelease;
  if (job.state == State::kVerdict)
    return host.status.at_primary() || job.verdict_kept ? v1::Directive::kVerdict : v1::Directive::kWait;
  if (job.state == State::kReleasing) {
    const bool may =
        host.HasAcknowledged(*job.verdict) && (!host.status.at_primary() || !job.OthersAttached(now, host));
    return may ? v1::Directive::kRelease : v1::Directive::kVerdict;
  }
  if (MayLeave(now, job, host)) return v1::Directive::kRelease;
  if (job.state == State::kRecovering) return v1::Directive::kWait;
  if (job.state == State::kRunning && host.part.in_round) return v1::Directive::kRun;
  if (job.state == State::kDraining && host.part.in_round) return v1::Directive::kStop;
  // Whatever the host runs is not part of the present round. STOP also clears SUCCEEDED and FAILED of an old
  // round.
  const v1::Phase phase = host.status.phase();
  if (!host.IsIdle() || phase == v1::PHASE_SUCCEEDED || phase == v1::PHASE_FAILED) return v1::Directive::kStop;
  return v1::Directive::kWait;
}

v1::Directive Directives::Next(const Job& job, const v1::StatusId& echo) {
  v1::Directive directive;
  directive.set_protocol(kProtocol);
  *directive.mutable_id()->mutable_epoch() = job.epoch();
  directive.mutable_id()->set_seq(++seq_);
  *directive.mutable_echo() = echo;
  return directive;
}

v1::Directive Directives::For(BootTime now, const Job& job, Host* host) {
  v1::Directive directive = Next(job, host->status.id());
  FillSettings(job, directive.mutable_settings());
  if (job.greatest.IsKnown()) *directive.mutable_greatest() = GreatestForTelling(now, job, *host);
  SetHeldDigests(job, *host, &directive);
  FillOrder(now, job, host, &directive);
  if (directive.has_run()) FillSignals(now, job, *host, &directive);
  if (directive.has_run() || directive.has_stop()) FillQuestions(job, *host, &directive);
  directive.set_leave(host->leave_order);
  FillEvents(now, job, host, &directive);
  if (const std::optional<v1::Lease> lease = LeaseFor(job, *host, directive)) {
    *directive.mutable_lease() = *lease;
    host->lease_until = LeaseEnd(job, *host);
  }
  host->exchange.NoteSent(seq_, now, directive.order_case());
  return directive;
}

void Directives::FillOrder(BootTime now, const Job& job, Host* host, v1::Directive* directive) {
  Exchange& exchange = host->exchange;
  switch (OrderFor(now, job, *host)) {
    case v1::Directive::kRun:
      if (exchange.run_seq == 0) {
        exchange.run_seq = seq_;
        exchange.run_sent_at = now;
      }
      *directive->mutable_run() = host->part.round;
      job.greatest.counts.WriteAgesTo(now, directive->mutable_run());
      break;
    case v1::Directive::kStop:
      if (exchange.stop_seq == 0) {
        exchange.stop_seq = seq_;
        exchange.counts_from = seq_;
      }
      *directive->mutable_stop() = StopFor(job, *host);
      break;
    case v1::Directive::kVerdict:
      *directive->mutable_verdict() = VerdictFor(job, *host);
      break;
    case v1::Directive::kRelease:
      if (exchange.release_seq == 0) exchange.release_seq = seq_;
      *directive->mutable_release() = ReleaseFor(job, *host);
      break;
    default:
      FillWait(now, job, *host, directive->mutable_wait());
      break;
  }
}

// Nothing is waited for once the end is decided: the verdict follows.
void Directives::FillWait(BootTime now, const Job& job, const Host& host, v1::Wait* wait) {
  if (job.IsOver()) return;
  wait->set_reason(WhyWaiting(job));
  wait->set_gathering(job.state == State::kRecovering || job.state == State::kGathering);
  if (!host.IsTrainer()) return wait->set_reason("this node does not train; it exits when the job ends");
  const Host* const holder = host.status.has_place() ? job.hosts.HolderOf(host.status.place()) : nullptr;
  if (holder != nullptr && holder != &host) {
    wait->set_reason(WhyPlaceIsTaken(now, Beat(job), job, host, *holder));
    SetHolder(*holder, host, wait);
  }
  if (host.status.has_cannot_start() && !job.gathering.first_round) {
    return wait->set_reason(absl::StrCat("this node cannot start its program (",
                                         Foreign(host.status.cannot_start().error_text()),
                                         "); it only serves as the coordinator"));
  }
  if (host.IsUnusable()) return wait->set_reason(WhyUnusable(host.status));
  if (job.IsHeldBack(host, now)) return wait->set_reason(WhyHeldBack(now, job, host));
  if (job.IsExcluded(host.status.host_id(), now)) return wait->set_reason(WhyExcluded(job));
  if (job.state == State::kRunning && !wait->has_held_by()) {
    wait->set_place_in_line(spares_.PlaceOf(now, job, host));
  }
  if (job.state == State::kRunning || job.state == State::kDraining) return;
  if (now >= absent_since_ + kTick || now < absent_since_) {
    absent_ = AbsentPlaces(job);
    absent_since_ = now;
  }
  wait->set_absent_count(static_cast<int>(absent_.size()));
  for (size_t i = 0; i < absent_.size() && i < kMaxAbsentNamed; ++i) wait->add_absent(absent_[i]);
}

int SpareLine::PlaceOf(BootTime now, const Job& job, const Host& host) {
  const bool few = job.hosts.size() <= job.options.many_hosts;
  if (few || now >= since_ + kTick || now < since_) {
    using Order = std::tuple<bool, int, BootTime, std::string>;
    std::vector<Order> spares;
    for (const auto& [id, spare] : job.hosts) {
      if (spare.part.in_round || !spare.IsAttached() || !spare.IsTrainer()) continue;
      if (!job.hosts.HoldsPlace(spare) || spare.IsUnusable() || job.IsExcluded(id, now) ||
          job.IsHeldBack(spare, now))
        continue;
      if (spare.status.has_cannot_start()) continue;
      spares.emplace_back(spare.seat < 0, spare.seat, spare.joined_at, id);
    }
    std::sort(spares.begin(), spares.end());
    places_.clear();
    for (const Order& spare : spares)
      places_.emplace(std::get<std::string>(spare), static_cast<int>(places_.size()) + 1);
    since_ = now;
  }
  const auto it = places_.find(host.status.host_id());
  return it == places_.end() ? static_cast<int>(places_.size()) + 1 : it->second;
}

}  // namespace muster::rendezvous
