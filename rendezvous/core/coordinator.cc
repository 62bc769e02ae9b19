#include "rendezvous/core/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "base/text.h"

namespace muster::rendezvous {
namespace {

bool CountsAreSane(const v1::Round& round) {
  for (const int count : {round.restart_count(), round.failures(), round.fast_failures(), round.idle_failures(),
                          round.idle_changes(), round.culprit_streak()}) {
    if (count < 0 || count > kMaxCount) return false;
  }
  const v1::PrimaryEnded& ended = round.primary_ended();
  if (round.has_primary_ended() && (ended.node_rank() < 0 || ended.node_rank() >= round.node_count() ||
                                    ended.known_to() < 1 || ended.age_ms() < 0)) {
    return false;
  }
  return round.node_count() >= 0 && round.node_count() <= kMaxNodes && round.largest_node_count() >= 0 &&
         round.largest_node_count() <= kMaxNodes && round.loss_ages_ms_size() <= kMaxCount &&
         round.failure_ages_ms_size() <= kMaxFailureAges;
}

// A status with an unknown value is refused, because a drain would wait for such a host forever.
std::string UnknownValue(const v1::AgentStatus& status) {
  const auto unknown = [](const char* what, int value) {
    return absl::StrCat("invalid status: unknown ", what, " ", value, "; use one version of muster on all nodes");
  };
  if (!v1::Phase_IsValid(status.phase()) || status.phase() == v1::PHASE_UNSPECIFIED) {
    return unknown("phase", status.phase());
  }
  if (!v1::Outcome_IsValid(status.outcome())) return unknown("outcome", status.outcome());
  if (!v1::Role_IsValid(status.role())) return unknown("role", status.role());
  return "";
}

// Describes a value that no agent sends, or returns "". Counting up from such a number would overflow.
std::string Nonsense(const v1::AgentStatus& status) {
  if (status.epoch().number() > kMaxNumber || status.last().id().number() > kMaxNumber) {
    return "invalid status: epoch or round number out of range";
  }
  if (status.has_place() && (status.place() < 0 || status.place() >= kMaxNodes)) {
    return "invalid status: node number out of range";
  }
  if (!CountsAreSane(status.last())) return "invalid status: count out of range";
  if (status.slots() < 0 || status.slots() > kMaxSlots) {
    return "invalid status: number of workers out of range";
  }
  return UnknownValue(status);
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, BootTime now, uint64_t entropy)
    : options_(std::move(options)),
      entropy_(entropy),
      began_(now),
      epoch_start_(now),
      state_since_(now),
      last_event_(now),
      members_known_until_(now + options_.lease + options_.margin()),
      last_attach_(now),
      gathering_since_(now) {
  epoch_.set_number(1);
  epoch_.set_random(NextRandom());
  own_epochs_.push_back(epoch_);
}

std::string Coordinator::Foreign(const std::string& text) { return CutUtf8(OneLine(text), kMaxForeignText); }

std::string Coordinator::NameOf(const Host& host) {
  return absl::StrCat("node ", host.round.node_rank(), " (", host.status.hostname(), ")");
}

// ---- events -------------------------------------------------------------------------------------------------

void Coordinator::OnStatus(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out) {
  NoticeLateness(now);
  if (!Admit(now, stream, status, out)) return;
  const bool news = IsNews(stream, status);
  undecided_ |= news;
  Record(now, stream, status, out);
  const uint64_t sent_before = hosts_[status.host_id()].last_sent;
  if (undecided_ && !MayWait(now, status)) {
    DecideAndPush(now, out);
  } else if (status.phase() == v1::PHASE_HOST_GONE) {
    LoseSwept(now, status.host_id(), out);
  }
  const auto it = hosts_.find(status.host_id());
  if (it != hosts_.end() && it->second.stream == stream && it->second.last_sent == sent_before) {
    Send(now, it->second, out);
  }
}

// A heartbeat without news triggers no decision, which would look at all hosts: in a large job most statuses are
// such heartbeats. Changes that only time brings about are found by the next tick.
bool Coordinator::IsNews(StreamId stream, const v1::AgentStatus& status) const {
  const auto it = hosts_.find(status.host_id());
  if (it == hosts_.end() || it->second.stream != stream) return true;
  const Host& host = it->second;
  const v1::AgentStatus& known = host.status;
  const auto crosses = [&](uint64_t seq) {
    return seq != 0 && (known.applied().seq() >= seq) != (status.applied().seq() >= seq);
  };
  return known.phase() != status.phase() || known.live_workers() != status.live_workers() ||
         known.outcome() != status.outcome() || known.has_verdict() != status.has_verdict() ||
         known.has_failure() != status.has_failure() || known.cancelled() != status.cancelled() ||
         known.has_cannot_start() != status.has_cannot_start() ||
         known.preparing().empty() != status.preparing().empty() ||
         known.predecessor_dead() != status.predecessor_dead() || known.offer().host() != status.offer().host() ||
         known.offer().port() != status.offer().port() || !Same(known.last().id(), status.last().id()) ||
         known.last().has_primary_ended() != status.last().has_primary_ended() ||
         known.last().has_node_rank() != status.last().has_node_rank() || !Same(known.epoch(), status.epoch()) ||
         !Same(known.applied().epoch(), status.applied().epoch()) || crosses(host.counts_from) ||
         crosses(host.run_seq) || crosses(host.stop_seq);
}

// Every decision looks at all hosts. With very many hosts, a decision for each READY, STARTING and RUNNING of a
// round would take longer than a lease. So one decision serves for all statuses that arrived since the last one,
// unless a status is urgent.
bool Coordinator::MayWait(BootTime now, const v1::AgentStatus& status) const {
  const v1::Phase phase = status.phase();
  const bool gone = phase == v1::PHASE_HOST_GONE;
  const bool ends = phase == v1::PHASE_FAILED || phase == v1::PHASE_LEAVING || gone;
  const auto host = hosts_.find(status.host_id());
  const bool costs_the_round = host != hosts_.end() && CostsTheRound(host->second);
  if (ends && state_ == State::kRunning && (costs_the_round || status.at_primary())) return false;
  if (gone && status.at_primary()) return false;  // this coordinator ends with it, and sends its farewell first
  return DecidedJustNow(now);
}

bool Coordinator::DecidedJustNow(BootTime now) const {
  return hosts_.size() > options_.many_hosts &&
         now < decided_at_ + options_.decision_spacing * static_cast<int64_t>(hosts_.size());
}

void Coordinator::DecideAndPush(BootTime now, Effects* out) {
  decided_at_ = now;
  undecided_ = false;
  Decide(now, out);
  PushChanges(now, out);
  EndFarewell(now, out);
}

void Coordinator::OnClosed(BootTime now, StreamId stream, Effects* out) {
  NoticeLateness(now);
  refused_.erase(stream);
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  const auto host = hosts_.find(it->second);
  streams_.erase(it);
  if (host != hosts_.end() && host->second.stream == stream) {
    host->second.stream = 0;
    host->second.closed_at = now;
    // A host that has applied its RELEASE, or left with nothing alive, will not come back. If only its agent died
    // before that, the next agent reconnects and receives the order.
    const bool left = Leaving(host->second) && Idle(host->second);
    if (left || host->second.status.phase() == v1::PHASE_HOST_GONE || Released(host->second)) {
      if (left && host->second.in_round && !host->second.succeeded) {
        NoteLoss(std::min(now, host->second.lost_at), absl::StrCat(NameOf(host->second), " left the job"));
      }
      ForgetEnded(host->first, out);
    }
  }
  undecided_ = true;  // a network failure closes thousands of streams at once: one decision for all of them
  if (!DecidedJustNow(now)) DecideAndPush(now, out);
}

void Coordinator::OnTick(BootTime now, Effects* out) {
  NoticeLateness(now);
  WarnOfLease(out);
  DecideAndPush(now, out);
  SayWhoClaimsOnePlace(out);
  LogAwaitedNodes(now, out);
  LogLongDrain(now, out);
}

// After a pause of its own process the coordinator must not take hosts for silent: all deadlines move by the time
// missed, in total by at most one lease.
void Coordinator::NoticeLateness(BootTime now) {
  const absl::Duration late = now - last_event_ - kTick;
  last_event_ = now;
  if (late >= options_.lease / 2 && now - woke_at_ >= kLeasesBetweenPauses * options_.lease) woke_at_ = now;
  if (late < kLateness || lateness_ >= options_.lease) return;
  const absl::Duration shift = std::min(late, options_.lease - lateness_);
  lateness_ += shift;
  for (auto& [id, host] : hosts_) {
    host.silence_measured_from += shift;
    host.closed_at += shift;
    host.lease_until += shift;
    host.run_sent_at += shift;
  }
}

// Checks the run id, the protocol, the values and the order of statuses, and follows epochs. False: the status is
// ignored.
bool Coordinator::Admit(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out) {
  if (status.run_id() != options_.run_id) {
    Refuse(stream, status,
           absl::StrCat("run id '", Foreign(status.run_id()), "' differs from this job's '", options_.run_id,
                        "'; set the same --rdzv-id on all nodes"),
           out);
    return false;
  }
  if (status.protocol() != kProtocol) {
    Refuse(
        stream, status,
        absl::StrCat("protocol ", status.protocol(), " (muster ", Foreign(status.version()),
                     ") differs from this job's protocol ", kProtocol, "; use one version of muster on all nodes"),
        out);
    return false;
  }
  if (status.host_id().empty()) return false;
  if (const std::string nonsense = Nonsense(status); !nonsense.empty()) {
    Refuse(stream, status, nonsense, out);
    return false;
  }
  // The other nodes run or ran without it, so the fault is in this node alone, and it exits with its own error.
  if (status.has_cannot_start() && !first_round_ && !ServesOn(now, status)) {
    Refuse(stream, status, WhyItCannotStart(status), out, ExitCodeOf(status.cannot_start()));
    return false;
  }
  const auto it = hosts_.find(status.host_id());
  if (it != hosts_.end()) {
    const v1::StatusId& known = it->second.status.id();
    if (status.id().agent_number() < known.agent_number()) {
      out->push_back(CloseStream{stream, "superseded by a newer agent of this host"});
      return false;
    }
    if (Compare(status.id(), known) <= 0) return false;
  }
  had_predecessor_ |= status.epoch().number() > 0 && !Same(status.epoch(), epoch_);
  const auto is_it = [&status](const v1::Epoch& own) { return Same(own, status.epoch()); };
  if (IsSet(status.epoch()) && std::none_of(own_epochs_.begin(), own_epochs_.end(), is_it)) {
    predecessors_differ_ |= IsSet(predecessor_) && !Same(predecessor_, status.epoch());
    predecessor_ = status.epoch();
  }
  if (Compare(status.epoch(), epoch_) > 0) NewEpoch(now, status.epoch().number(), out);
  return true;
}

// Without this process the other nodes would have no coordinator, and they may continue without the primary's own
// workers. Where no other node can replace those, the primary's node exits, to be started again, once the others
// have had kLatecomers to hear why they wait.
bool Coordinator::ServesOn(BootTime now, const v1::AgentStatus& status) const {
  const bool needed = options_.fixed_size() && status.has_place() && state_ == State::kGathering;
  return status.at_primary() && (!needed || now < state_since_ + kLatecomers);
}

void Coordinator::Refuse(StreamId stream, const v1::AgentStatus& status, const std::string& reason, Effects* out,
                         int exit_code) {
  if (refused_.insert(stream).second) {
    NoteRefusal(Foreign(status.hostname()), reason, &refused_nodes_, out);
  }
  v1::Directive directive = NextDirective(status.id());
  directive.mutable_refused()->set_exit_code(exit_code);
  directive.mutable_refused()->set_reason(reason);
  out->push_back(SendDirective{stream, std::move(directive)});
}

// A refused node may retry forever, and there may be many of them, so each one is logged once. The waiting reason
// of every node names the first few and then stays the same, because every node logs each change of it.
void Coordinator::NoteRefusal(const std::string& name, const std::string& reason, LoggedRefusals* logged,
                              Effects* out) {
  const std::string whom = absl::StrCat(name, " (", reason, ")");
  const bool named = std::find(refusals_.begin(), refusals_.end(), whom) != refusals_.end();
  if (!named && refusals_.size() < kMaxRefusalsNamed) {
    refusals_.push_back(whom);
  } else if (!named) {
    more_refusals_ = true;
  }
  if (logged->size() >= kMaxRefusalsLogged || !logged->insert(whom).second) return;
  Say(Severity::kWarning, absl::StrCat("refused ", name, ": ", reason), out, {.event = events::kNodeRefused});
  if (logged->size() == kMaxRefusalsLogged) {
    Say(Severity::kWarning,
        absl::StrCat(kMaxRefusalsLogged, " refusals of this kind were logged; further ones are not logged"), out);
  }
}

void Coordinator::OnTurnedAway(BootTime, const std::string& address, const std::string& reason, Effects* out) {
  NoteRefusal(absl::StrCat("a node at ", address.empty() ? "an unknown address" : address), reason, &turned_away_,
              out);
}

void Coordinator::Record(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out) {
  Host& host = hosts_[status.host_id()];
  if (host.stream != stream) {
    if (host.stream != 0) {
      out->push_back(CloseStream{host.stream, "superseded by a newer stream of this host"});
      streams_.erase(host.stream);
    }
    out->push_back(AdmitStream{stream});
    host.stream = stream;
    host.attached_at = now;
    host.order_sent = -1;
    streams_[stream] = status.host_id();
    if (status.has_place()) places_seen_.insert(status.place());
  }
  NoteUse(host.status, status, out);
  StoreStatus(status, &host);
  if (status.facts_size() > 0) LearnFacts(&host);
  if (status.cancelled()) cancelled_on_ = host.status.hostname();
  host.silence_measured_from = now;
  const BootTime heard_before = std::exchange(host.last_status_at, now);
  if (status.coordinator_silent_ms() > 0 && !Same(status.epoch(), epoch_)) {
    predecessor_heard_at_ =
        std::max(predecessor_heard_at_, now - absl::Milliseconds(status.coordinator_silent_ms()));
  }
  host.joined_at = now - absl::Milliseconds(status.in_job_ms());
  // Ignore the reported gathering time when this coordinator started the gathering itself.
  if (status.gathering_ms() > 0 && !gathering_is_ours_) {
    gathering_since_ = std::min(gathering_since_, now - absl::Milliseconds(status.gathering_ms()));
  }
  if (status.has_place() && IsTrainer(host)) {
    contenders_.emplace(status.place(), status.host_id());
    const auto holder = holders_.find(status.place());
    if (holder == holders_.end() || hosts_.count(holder->second) == 0) holders_[status.place()] = status.host_id();
    if (const Host* owner = HolderOf(status.place()); owner != nullptr && Unusable(*owner)) PassPlaceOn(*owner);
  }
  const bool ending = Leaving(host) || status.phase() == v1::PHASE_HOST_GONE;
  primary_leaves_ |= status.at_primary() && ending;
  LearnRounds(now, host, out);
  LearnFarewell(host);
  LearnLoss(now, heard_before, host);
  LearnFailure(now, host);
  LearnEcho(host);
  if (!status.predecessor_dead().empty()) LearnProvedDeath(now, status, out);
  if (status.has_verdict()) LearnVerdict(now, status.verdict(), out);
}

// Clears everything that was recorded about one round.
void Coordinator::ForgetRound() {
  progressed_ = progress_watched_ = false;
  loss_at_.reset();
  loss_text_.clear();
  succeeded_.clear();
  succeeded_and_departed_.clear();
  succeeded_and_confirmed_dead_.clear();
  lost_failures_.clear();
  word_left_.reset();
  primary_ended_at_ = absl::InfiniteFuture();
  strayed_ = false;
}

// Learns from the newest round that this host knows. While recovering, the greatest round of all is the one to
// continue from.
void Coordinator::LearnRounds(BootTime now, Host& host, Effects* out) {
  const v1::Round& last = host.status.last();
  if (!IsSet(last.id())) return;
  first_round_ = false;
  max_number_ = std::max(max_number_, last.id().number());
  if (Compare(last.id(), greatest_.id()) > 0) {
    if (!round_owned_by_this_epoch_) {
      // While gathering, the end of that round has not been counted yet, so it is recovered first. While draining
      // an older round, whose members have moved on, the greater round may be healthy.
      const bool turns_back = state_ == State::kGathering || state_ == State::kDraining;
      if (turns_back) Enter(State::kRecovering, now, "an agent reported a later round", out);
      greatest_ = last;
      greatest_.clear_node_rank();
      greatest_.clear_primary_ended();
      ForgetRound();
      round_since_ = last_attach_ = now;
      for (auto& [id, other] : hosts_) {
        other.in_older_round |= other.in_round;
        other.in_round = other.succeeded = other.told_by_predecessor = false;
        other.lost_at = absl::InfiniteFuture();
      }
    }
    RestartLedger seen = RestartLedger::ReadFrom(last, now);
    round_counts_ = round_counts_.Learning(seen);
    // The greater round is another coordinator's; the next round of this one follows it.
    seen.restart_count += round_owned_by_this_epoch_ ? 1 : 0;
    counts_ = counts_.Learning(seen);
    largest_ = std::max(largest_, last.largest_node_count());
  }
  // Members hear of a round when it starts, a spare perhaps an hour later: the earliest time is the right one.
  if (!round_owned_by_this_epoch_ && Same(last.id(), greatest_.id())) {
    round_since_ = std::min(round_since_, now - absl::Milliseconds(last.age_ms()));
  }
  if (last.has_node_rank() && host.seat < 0) host.seat = last.seat();
  host.in_older_round |= last.has_node_rank() && Compare(last.id(), greatest_.id()) < 0;
  if (!host.in_round && !round_owned_by_this_epoch_ && Claims(host)) {
    host.in_round = true;
    host.in_older_round = false;
    host.round = last;
    host.seat = last.seat();
    last_attach_ = now;
    // A member of the greatest round has precedence for its place.
    if (host.status.has_place()) holders_[host.status.place()] = host.status.host_id();
  }
  if (HasSucceeded(host)) {
    if (last.node_rank() >= 0 && last.node_rank() < greatest_.node_count()) succeeded_.insert(last.node_rank());
    host.succeeded |= host.in_round;
  }
  host.was_ready |= IsReady(host);
}

// The successor, on the same machine, found no process of the dead host alive. The loss is dated at the dead
// host's last status, so that failures of its peers count as echoes.
void Coordinator::LearnProvedDeath(BootTime now, const v1::AgentStatus& successor, Effects* out) {
  const auto dead = hosts_.find(successor.predecessor_dead());
  if (dead == hosts_.end() || dead->second.stream != 0) return;
  const Host& host = dead->second;
  Say(Severity::kInfo, absl::StrCat(host.status.hostname(), ": its previous main process is confirmed dead"), out);
  if (host.in_round && !host.succeeded) {
    const absl::Duration after = absl::Trunc(now - host.last_status_at, absl::Milliseconds(100));
    NoteLoss(host.last_status_at,
             absl::StrCat(NameOf(host), " was lost: its main process and agent died; restarted ",
                          absl::FormatDuration(after), " after its last heartbeat"));
  }
  ForgetEnded(successor.predecessor_dead(), out);
  if (successor.has_place()) holders_[successor.place()] = successor.host_id();
}

// Dates the loss at its first sign, so that failures of peers count as echoes however long the node takes to end
// or to return.
void Coordinator::LearnLoss(BootTime now, BootTime heard_before, Host& host) {
  if (!host.in_round) return;
  // A node that turns out unfit after its workers have ended did not cost this round anything.
  if (Leaving(host) || (Unusable(host) && !Idle(host))) host.lost_at = std::min(host.lost_at, now);
  if (Claims(host) && host.status.outcome() == v1::OUTCOME_LEASE_ENDED) {
    host.lost_at = std::min(host.lost_at, heard_before == absl::InfinitePast() ? WhenLost(now) : heard_before);
  }
}

// Facts arrive once in each session, so they are stored apart from the newest status.
void Coordinator::LearnFacts(Host* host) {
  host->facts.clear();
  for (const auto& [name, value] : host->status.facts()) {
    if (host->facts.size() >= kMaxFacts) break;
    host->facts[CutUtf8(name, kMaxFactBytes)] = CutUtf8(value, kMaxFactBytes);
  }
  host->status.clear_facts();
}

// A delayed status makes its failure look later than it was, never earlier: the earliest estimate is kept.
void Coordinator::LearnFailure(BootTime now, Host& host) {
  if (!host.status.has_failure()) return;
  const v1::Failure& failure = host.status.failure();
  const BootTime at = now - absl::Milliseconds(std::max<int64_t>(0, failure.age_ms()));
  host.failed_at = Same(host.failed_round, failure.round()) ? std::min(host.failed_at, at) : at;
  host.failed_round = failure.round();
  for (SeenFailure& seen : lost_failures_) {  // a host that was taken for lost has returned
    if (seen.host_id == host.status.host_id() && Same(seen.failure.round(), failure.round())) {
      seen.at = std::min(seen.at, host.failed_at);
    }
  }
}

// Finds when the directive that this host has applied was sent. This bounds the lease of the primary's own node.
void Coordinator::LearnEcho(Host& host) {
  if (!Fresh(host)) return;
  const uint64_t applied = host.status.applied().seq();
  while (!host.sent.empty() && host.sent.front().first < applied) host.sent.pop_front();
  if (!host.sent.empty() && host.sent.front().first == applied) host.echoed_sent_at = host.sent.front().second;
}

void Coordinator::NewEpoch(BootTime now, uint64_t above, Effects* out) {
  epoch_.set_number(above + 1);
  epoch_.set_random(NextRandom());
  own_epochs_.push_back(epoch_);
  Say(Severity::kInfo,
      absl::StrCat("an agent has followed a newer coordinator; recovering as epoch ", ToString(epoch_)), out);
  epoch_start_ = last_attach_ = now;
  members_known_until_ = now + options_.lease + options_.margin();
  round_owned_by_this_epoch_ = false;
  loss_at_.reset();
  loss_text_.clear();
  succeeded_and_confirmed_dead_.clear();
  for (auto& [id, host] : hosts_) {
    host.echoed_sent_at = absl::InfinitePast();
    host.counts_from = host.run_seq = host.stop_seq = host.release_seq = 0;
    host.order_sent = -1;
    host.sent.clear();
  }
  if (!verdict_ && state_ != State::kRecovering) Enter(State::kRecovering, now, "a newer epoch", out);
}

}  // namespace muster::rendezvous
