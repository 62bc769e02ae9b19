// Builds the directive for each host: one order, the settings, and the lease.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/duration.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "base/takeover.h"
#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {
v1::Directive::OrderCase Coordinator::OrderFor(const Host& host) const {
  const bool active = !Idle(host);
  if (host.status.phase() == v1::PHASE_HOST_GONE) return v1::Directive::kRelease;
  if (state_ == State::kVerdict)
    return host.status.at_primary() || verdict_kept_ ? v1::Directive::kVerdict : v1::Directive::kWait;
  if (state_ == State::kReleasing) {
    const bool may = Acknowledged(host) && (!host.status.at_primary() || !OthersAttached(host));
    return may ? v1::Directive::kRelease : v1::Directive::kVerdict;
  }
  if (Leaving(host) && !active && !host.status.cancelled()) {
    const bool last = host.status.at_primary() && OthersAttached(host) && state_ == State::kDraining;
    if (!last) return v1::Directive::kRelease;
  }
  if (state_ == State::kRecovering) return v1::Directive::kWait;
  if (state_ == State::kRunning && host.in_round) return v1::Directive::kRun;
  if (state_ == State::kDraining && host.in_round) return v1::Directive::kStop;
  // Whatever the host runs is not part of the present round. STOP also clears SUCCEEDED and FAILED of an old
  // round.
  if (active || host.status.phase() == v1::PHASE_SUCCEEDED || host.status.phase() == v1::PHASE_FAILED) {
    return v1::Directive::kStop;
  }
  return v1::Directive::kWait;
}

void Coordinator::PushChanges(BootTime now, Effects* out) {
  LookWhetherTheVerdictIsKept();
  for (auto& [id, host] : hosts_) {
    if (host.stream == 0) continue;
    const bool newly_in_round = state_ == State::kRunning && host.in_round && host.run_seq == 0;
    if (newly_in_round || host.order_sent != OrderFor(host)) Send(now, host, out);
  }
}

v1::Directive Coordinator::NextDirective(const v1::StatusId& echo) {
  v1::Directive directive;
  directive.set_protocol(kProtocol);
  *directive.mutable_id()->mutable_epoch() = epoch_;
  directive.mutable_id()->set_seq(++seq_);
  *directive.mutable_echo() = echo;
  return directive;
}

void Coordinator::Send(BootTime now, Host& host, Effects* out) {
  v1::Directive directive = NextDirective(host.status.id());
  v1::Settings* settings = directive.mutable_settings();
  settings->set_min_nodes(options_.min_nodes);
  settings->set_max_nodes(options_.max_nodes);
  settings->set_max_restarts(options_.max_restarts);
  settings->set_max_node_losses(options_.max_node_losses);
  settings->set_beat_ms(absl::ToInt64Milliseconds(Beat()));
  settings->set_lease_ms(absl::ToInt64Milliseconds(options_.lease));
  if (IsSet(greatest_.id())) *directive.mutable_greatest() = GreatestForTelling(now, host);
  SetHeldDigests(host, &directive);
  FillOrder(now, host, &directive);
  GrantLease(host, &directive);
  host.last_sent = seq_;
  host.order_sent = directive.order_case();
  if (host.counts_from == 0) host.counts_from = seq_;
  host.sent.emplace_back(seq_, now);
  if (host.sent.size() > kMaxRememberedSends) host.sent.pop_front();
  out->push_back(SendDirective{host.stream, std::move(directive)});
}

void Coordinator::FillOrder(BootTime now, Host& host, v1::Directive* directive) {
  switch (OrderFor(host)) {
    case v1::Directive::kRun: {
      if (host.run_seq == 0) {
        host.run_seq = seq_;
        host.run_sent_at = now;
      }
      v1::Round* run = directive->mutable_run();
      *run = host.round;
      round_counts_.WriteAgesTo(now, run);
      break;
    }
    case v1::Directive::kStop: {
      if (host.stop_seq == 0) {
        host.stop_seq = seq_;
        host.counts_from = seq_;
      }
      v1::Stop* stop = directive->mutable_stop();
      *stop->mutable_round() = host.in_round ? greatest_.id() : host.status.last().id();
      stop->set_cause(host.in_round ? drain_cause_ : "this round is over");
      stop->set_grace_ms(absl::ToInt64Milliseconds(options_.shutdown_grace));
      break;
    }
    case v1::Directive::kVerdict:
      *directive->mutable_verdict() = VerdictFor(host);
      break;
    case v1::Directive::kRelease: {
      if (host.release_seq == 0) host.release_seq = seq_;
      v1::Release* release = directive->mutable_release();
      const bool left = !verdict_ || state_ != State::kReleasing;
      release->set_exit_code(left ? kExitLeft : IsTrainer(host) ? verdict_->exit_code() : 0);
      release->set_reason(left ? WhyLeft(host) : verdict_->reason());
      break;
    }
    default:
      FillWait(now, host, directive->mutable_wait());
      break;
  }
}

void Coordinator::FillWait(BootTime now, const Host& host, v1::Wait* wait) {
  wait->set_reason(WhyWaiting());
  wait->set_gathering(state_ == State::kRecovering || state_ == State::kGathering);
  if (!IsTrainer(host)) {
    wait->set_reason("this node does not train; it exits when the job ends");
    return;
  }
  if (const Host* holder = host.status.has_place() ? HolderOf(host.status.place()) : nullptr;
      holder != nullptr && holder != &host) {
    const bool is_alive = RivalOf(host) != nullptr;
    wait->set_reason(absl::StrCat(
        "another process on ", holder->status.hostname(), " has already joined as node ", host.status.place(),
        is_alive
            ? " and is running; unless this one is meant to stand by for it, check --node-rank here and there"
            : "; this one waits until that is gone; if both are meant to run, check --node-rank here and there"));
    v1::Predecessor* held_by = wait->mutable_held_by();
    held_by->set_host_id(holder->status.host_id());
    held_by->set_hostname(holder->status.hostname());
    held_by->set_boot_id(holder->status.boot_id());
    held_by->set_pid_namespace(holder->status.pid_namespace());
    held_by->set_host_pid(holder->status.host_pid());
  }
  if (host.status.has_cannot_start() && !first_round_) {
    wait->set_reason(absl::StrCat("this node cannot start its program (",
                                  Foreign(host.status.cannot_start().error_text()),
                                  "); it only serves as the coordinator"));
    return;
  }
  if (Unusable(host)) {
    wait->set_reason(WhyUnusable(host.status));
    return;
  }
  if (SetAside(host.status.host_id(), now)) {
    // No remaining time: the node logs each change of the reason.
    wait->set_reason(absl::StrCat("this node is excluded for ", absl::FormatDuration(options_.exclude_for),
                                  ": its workers were the root cause ", options_.exclude_after,
                                  options_.exclude_after == 1 ? " time" : " times",
                                  " in a row (--exclude-after)"));
    return;
  }
  if (state_ == State::kRunning && !wait->has_held_by()) wait->set_place_in_line(PlaceInLine(now, host));
  if (state_ == State::kRunning || state_ == State::kDraining) return;
  if (now >= absent_since_ + kTick || now < absent_since_) {  // one list serves all nodes for a tick
    absent_ = AbsentPlaces();
    absent_since_ = now;
  }
  wait->set_absent_count(static_cast<int>(absent_.size()));
  for (size_t i = 0; i < absent_.size() && i < kMaxAbsentNamed; ++i) wait->add_absent(absent_[i]);
}

// Position among the spares while a round runs, from 1, in the order in which they would join. It is computed for
// each status of each spare. With very many hosts the list is up to a tick old, and a spare that came since is put
// last.
int Coordinator::PlaceInLine(BootTime now, const Host& host) {
  const bool few = hosts_.size() <= options_.many_hosts;
  if (few || now >= line_since_ + kTick || now < line_since_) {
    using Order = std::tuple<bool, int, BootTime, std::string>;
    std::vector<Order> spares;
    for (const auto& [id, spare] : hosts_) {
      if (spare.in_round || spare.stream == 0 || !IsTrainer(spare)) continue;
      if (!HoldsPlace(spare) || Unusable(spare) || SetAside(id, now) || spare.status.has_cannot_start()) continue;
      spares.emplace_back(spare.seat < 0, spare.seat, spare.joined_at, id);
    }
    std::sort(spares.begin(), spares.end());
    line_.clear();
    for (const Order& spare : spares)
      line_.emplace(std::get<std::string>(spare), static_cast<int>(line_.size()) + 1);
    line_since_ = now;
  }
  const auto it = line_.find(host.status.host_id());
  return it == line_.end() ? static_cast<int>(line_.size()) + 1 : it->second;
}

// Warns once, as early as the number of nodes is known, because a lease cannot be changed while the job runs.
void Coordinator::WarnOfLease(Effects* out) {
  if (lease_is_checked_ || !options_.leased()) return;
  const int nodes = std::max(options_.max_nodes, static_cast<int>(hosts_.size()));
  const absl::Duration needed = LeaseForNodes(nodes);
  if (options_.lease >= needed || needed <= kDefaultLease) return;
  lease_is_checked_ = true;
  Say(Severity::kWarning,
      absl::StrCat(nodes, " nodes cannot all reconnect to a restarted coordinator within a lease of ",
                   muster::FormatDuration(options_.lease), ", so their workers would be restarted; set --lease ",
                   muster::FormatDuration(needed), " on all nodes"),
      out);
}

// When the newest directive was sent that another member of the round has applied.
BootTime Coordinator::EchoedByOthers() const {
  BootTime newest = absl::InfinitePast();
  for (const auto& [id, host] : hosts_) {
    if (host.in_round && !host.status.at_primary()) newest = std::max(newest, host.echoed_sent_at);
  }
  return newest;
}

// All other members have succeeded and are known to have ended, so no node could continue elsewhere without the
// primary.
bool Coordinator::IsLastMember() const {
  return greatest_.node_count() <= 1 + static_cast<int>(succeeded_and_confirmed_dead_.size());
}

// A lease is granted with RUN; while recovering, with WAIT to hosts that report the greatest round; and with STOP
// while workers use their grace period, which may be longer than the lease. The drain waits until these workers
// have stopped or their lease has ended.
void Coordinator::GrantLease(Host& host, v1::Directive* directive) {
  if (!options_.leased()) return;
  const bool recovering = state_ == State::kRecovering && host.in_round && Claims(host);
  const bool ending = directive->has_stop() && host.in_round && !Idle(host);
  if (!directive->has_run() && !ending && !(recovering && directive->has_wait())) return;
  v1::Lease lease;
  lease.set_duration_ms(absl::ToInt64Milliseconds(options_.lease));
  if (host.status.at_primary() && !IsLastMember()) {
    const BootTime echoed = EchoedByOthers();
    if (echoed == absl::InfinitePast()) return;  // no other member has applied a directive yet
    lease.set_not_after_boot_ns(ToBootNanos(echoed + options_.lease));
  }
  *directive->mutable_lease() = lease;
  host.lease_until = std::max(host.lease_until, host.silence_measured_from + options_.lease + options_.margin());
}

v1::Round Coordinator::GreatestForTelling(BootTime now, const Host& host) const {
  v1::Round round = greatest_;
  round.clear_node_rank();
  round_counts_.WriteTo(now, &round);
  if (farewell_ && host.in_farewell_audience && Same(farewell_->word.by(), epoch_)) {
    *round.mutable_primary_ended() = farewell_->word;
    const absl::Duration age = absl::Ceil(now - farewell_->ended_at, absl::Milliseconds(1));
    round.mutable_primary_ended()->set_age_ms(absl::ToInt64Milliseconds(age));
  }
  return round;
}

absl::Duration Coordinator::Beat() const {
  absl::Duration beat = options_.beat;
  if (beat == absl::ZeroDuration()) {
    beat = std::max(kMinBeat, absl::Seconds(static_cast<double>(hosts_.size()) / kBeatsPerSecond));
  }
  // A sixth: renewing the primary's own lease takes a directive, its echo and one more beat, and must be done in
  // time.
  return options_.leased() ? std::min(beat, options_.lease / 6) : beat;
}

void Coordinator::Say(Severity severity, std::string text, Effects* out, const NoteSubject& subject) const {
  out->push_back(Note{severity, std::move(text), subject});
}

}  // namespace muster::rendezvous
