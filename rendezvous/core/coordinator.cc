#include "rendezvous/core/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/check.h"
#include "proto/base/ids.h"

namespace muster::rendezvous {
namespace {

constexpr int kExitRefused = 77;
constexpr int kExitLeft = 75;

// A step of splitmix64: epochs need random numbers, the core none of its own.
uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Numbers that no agent of ours sends; what counts up from them would overflow.
std::string Nonsense(const v1::AgentStatus& status) {
  if (status.epoch().number() > kMaxNumber || status.last().id().number() > kMaxNumber)
    return "a number out of range";
  if (status.has_place() && (status.place() < 0 || status.place() >= kMaxNodes)) return "a place out of range";
  if (status.slots() < 0 || status.slots() > kMaxSlots) return "a count of workers out of range";
  return "";
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, BootTime now, uint64_t entropy)
    : options_(std::move(options)),
      entropy_(entropy),
      epoch_start_(now),
      state_since_(now),
      last_event_(now),
      members_known_until_(now + options_.lease + options_.margin()),
      last_attach_(now),
      gathering_since_(now) {
  epoch_.set_number(1);
  epoch_.set_random(NextRandom(&entropy_));
}

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
  if (undecided_ && !MayWait(now, status)) DecideAndPush(now, out);
  const auto it = hosts_.find(status.host_id());
  if (it != hosts_.end() && it->second.stream == stream && it->second.last_sent == sent_before) {
    Send(now, it->second, out);
  }
}

// A beat that says what is known already costs no look at all the others: most statuses of a large job are such.
// What time alone changes is found by the next tick.
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
         known.predecessor_dead() != status.predecessor_dead() || known.offer().host() != status.offer().host() ||
         known.offer().port() != status.offer().port() || !Same(known.last().id(), status.last().id()) ||
         known.last().has_node_rank() != status.last().has_node_rank() || !Same(known.epoch(), status.epoch()) ||
         !Same(known.applied().epoch(), status.applied().epoch()) || crosses(host.counts_from) ||
         crosses(host.run_seq) || crosses(host.stop_seq);
}

// Every decision looks at all hosts. Where there are very many, a round in which each says READY, STARTING and
// RUNNING would keep us busy for longer than a lease: one decision then serves for all that spoke meanwhile.
bool Coordinator::MayWait(BootTime now, const v1::AgentStatus& status) const {
  const v1::Phase phase = status.phase();
  const bool ends_the_round = phase == v1::PHASE_FAILED || phase == v1::PHASE_LEAVING;
  if (phase == v1::PHASE_HOST_GONE || (ends_the_round && state_ == State::kRunning)) return false;
  return DecidedJustNow(now);
}

bool Coordinator::DecidedJustNow(BootTime now) const {
  return hosts_.size() > kManyHosts && now < decided_at_ + kDecisionSpacing * static_cast<int64_t>(hosts_.size());
}

void Coordinator::DecideAndPush(BootTime now, Effects* out) {
  decided_at_ = now;
  undecided_ = false;
  Decide(now, out);
  PushChanges(now, out);
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
    // A host that has applied its RELEASE, or left with nothing alive, has said its last word. Of one whose agent
    // died before that the next agent comes to hear it.
    const bool left = Leaving(host->second) && Idle(host->second);
    if (left || host->second.status.phase() == v1::PHASE_HOST_GONE || Released(host->second) ||
        options_.planted_bug == "close_is_death") {
      if (options_.planted_bug == "close_is_death") host->second.lease_until = now;
      if (left && host->second.in_round && !host->second.succeeded && !loss_at_) {
        loss_at_ = std::min(now, host->second.lost_at);
        loss_text_ = absl::StrCat(NameOf(host->second), " has left");
      }
      ForgetEnded(host->first, out);
    }
  }
  undecided_ = true;  // a cut closes thousands at once: one decision for all of them
  if (!DecidedJustNow(now)) DecideAndPush(now, out);
}

void Coordinator::OnTick(BootTime now, Effects* out) {
  NoticeLateness(now);
  DecideAndPush(now, out);
}

// Who was late himself suspects nobody: all deadlines move by what we missed, at most one lease in all.
void Coordinator::NoticeLateness(BootTime now) {
  const absl::Duration late = now - last_event_ - kTick;
  last_event_ = now;
  if (late < kLateness || lateness_ >= options_.lease) return;
  const absl::Duration shift = std::min(late, options_.lease - lateness_);
  lateness_ += shift;
  for (auto& [id, host] : hosts_) {
    host.received_at += shift;
    host.closed_at += shift;
    host.lease_until += shift;
    host.run_sent_at += shift;
  }
}

// Run id, order among statuses, epochs. False: the status is not to be looked at.
bool Coordinator::Admit(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out) {
  if (status.run_id() != options_.run_id) {
    Refuse(stream, status,
           absl::StrCat("run id '", status.run_id(), "' is not this job's ('", options_.run_id, "')"), out);
    return false;
  }
  if (status.protocol() != kProtocol) {
    Refuse(stream, status,
           absl::StrCat("it speaks protocol ", status.protocol(), " (muster ", status.version(), "), this job ",
                        kProtocol, ": use one version of muster on all nodes"),
           out);
    return false;
  }
  if (status.host_id().empty()) return false;
  if (const std::string nonsense = Nonsense(status); !nonsense.empty()) {
    Refuse(stream, status, nonsense, out);
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
  if (Compare(status.epoch(), epoch_) > 0) NewEpoch(now, status.epoch().number(), out);
  return true;
}

void Coordinator::Refuse(StreamId stream, const v1::AgentStatus& status, const std::string& reason, Effects* out) {
  if (refused_.insert(stream).second) {
    Say(Severity::kWarning, absl::StrCat("refused ", status.hostname(), ": ", reason), out);
  }
  v1::Directive directive;
  *directive.mutable_id()->mutable_epoch() = epoch_;
  directive.mutable_id()->set_seq(++seq_);
  *directive.mutable_echo() = status.id();
  directive.mutable_refused()->set_exit_code(kExitRefused);
  directive.mutable_refused()->set_reason(reason);
  out->push_back(SendDirective{stream, std::move(directive)});
}

void Coordinator::Record(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out) {
  Host& host = hosts_[status.host_id()];
  if (host.stream != stream) {
    if (host.stream != 0) {
      out->push_back(CloseStream{host.stream, "superseded by a newer stream of this host"});
      streams_.erase(host.stream);
    }
    host.stream = stream;
    host.order_sent = -1;
    streams_[stream] = status.host_id();
  }
  host.status = status;
  if (status.cancelled()) cancelled_on_ = status.hostname();
  const BootTime heard_before = std::exchange(host.received_at, now);
  host.joined_at = now - absl::Milliseconds(status.in_job_ms());
  if (status.gathering_ms() > 0) {
    gathering_since_ = std::min(gathering_since_, now - absl::Milliseconds(status.gathering_ms()));
  }
  if (status.has_place() && IsTrainer(host)) {
    contenders_.emplace(status.place(), status.host_id());
    const auto holder = holders_.find(status.place());
    if (holder == holders_.end() || hosts_.count(holder->second) == 0) holders_[status.place()] = status.host_id();
  }
  const bool ending = Leaving(host) || status.phase() == v1::PHASE_HOST_GONE;
  primary_leaves_ |= status.at_primary() && ending;
  LearnRounds(now, host, out);
  LearnLoss(now, heard_before, host);
  LearnEcho(host);
  if (!status.predecessor_dead().empty()) {
    const auto dead = hosts_.find(status.predecessor_dead());
    if (dead != hosts_.end() && dead->second.stream == 0) {
      Say(Severity::kInfo, absl::StrCat(dead->second.status.hostname(), ": its former host is proved dead"), out);
      if (dead->second.in_round && !dead->second.succeeded && !loss_at_) {
        loss_at_ = now;
        loss_text_ = absl::StrCat(NameOf(dead->second), " was lost");
      }
      ForgetEnded(status.predecessor_dead(), out);
      if (status.has_place()) holders_[status.place()] = status.host_id();
    }
  }
  if (status.has_verdict() && !verdict_) Conclude(now, status.verdict(), out);
}

// Rounds that this host was told of. While recovering the greatest is what we go on from.
void Coordinator::LearnRounds(BootTime now, Host& host, Effects* out) {
  const v1::Round& last = host.status.last();
  if (!IsSet(last.id())) return;
  first_round_ = false;
  max_number_ = std::max(max_number_, last.id().number());
  if (Compare(last.id(), greatest_.id()) > 0 && options_.planted_bug != "round_id_repeats") {
    if (!ours_) {  // and if we gather already, what was lost with our predecessor is to be made up for first
      if (state_ == State::kGathering) Enter(State::kRecovering, now, "an agent names a round", out);
      greatest_ = last;
      greatest_.clear_node_rank();
      for (auto& [id, other] : hosts_) {
        other.in_round = other.succeeded = false;
        other.lost_at = absl::InfiniteFuture();
      }
    }
    struct Counts seen;
    seen.restart_count = last.restart_count();
    seen.failures = last.failures();
    for (int64_t age : last.loss_ages_ms()) seen.losses.push_back(now - absl::Milliseconds(age));
    round_counts_ = round_counts_.AtLeast(seen);
    seen.restart_count += ours_ ? 1 : 0;  // somebody else's round: the next of ours comes after it
    counts_ = counts_.AtLeast(seen);
  }
  if (last.has_node_rank() && host.seat < 0) host.seat = last.seat();
  if (!host.in_round && !ours_ && Claims(host)) {
    host.in_round = true;
    host.round = last;
    host.seat = last.seat();
    last_attach_ = now;
    // Whoever claims the greatest round has its place before any other.
    if (host.status.has_place()) holders_[host.status.place()] = host.status.host_id();
  }
  if (host.in_round && Claims(host) && host.status.phase() == v1::PHASE_SUCCEEDED) host.succeeded = true;
}

// What its peers fail of comes later than this, however long the node then takes to end or to come back.
void Coordinator::LearnLoss(BootTime now, BootTime heard_before, Host& host) {
  if (!host.in_round) return;
  if (Leaving(host) || host.status.phase() == v1::PHASE_UNUSABLE) host.lost_at = std::min(host.lost_at, now);
  if (Claims(host) && host.status.outcome() == v1::OUTCOME_LEASE_ENDED) {
    host.lost_at = std::min(host.lost_at, heard_before == absl::InfinitePast() ? now : heard_before);
  }
}

// When did we send what this host has applied: bounds the lease of the primary's own node.
void Coordinator::LearnEcho(Host& host) {
  if (!Fresh(host)) return;
  const uint64_t applied = host.status.applied().seq();
  while (!host.sent.empty() && host.sent.front().first < applied) host.sent.pop_front();
  if (!host.sent.empty() && host.sent.front().first == applied) host.echoed_sent_at = host.sent.front().second;
}

// When we sent the newest directive that another member of the round has echoed.
BootTime Coordinator::EchoedByOthers() const {
  BootTime newest = absl::InfinitePast();
  for (const auto& [id, host] : hosts_) {
    if (host.in_round && !host.status.at_primary()) newest = std::max(newest, host.echoed_sent_at);
  }
  return newest;
}

void Coordinator::NewEpoch(BootTime now, uint64_t above, Effects* out) {
  epoch_.set_number(above + 1);
  epoch_.set_random(NextRandom(&entropy_));
  Say(Severity::kInfo,
      absl::StrCat("an agent follows a later coordinator: recovering as epoch ", ToString(epoch_)), out);
  epoch_start_ = last_attach_ = now;
  members_known_until_ = now + options_.lease + options_.margin();
  ours_ = false;
  loss_at_.reset();
  loss_text_.clear();
  done_and_gone_.clear();
  done_and_ended_.clear();
  for (auto& [id, host] : hosts_) {
    host.echoed_sent_at = absl::InfinitePast();
    host.counts_from = host.run_seq = host.stop_seq = host.release_seq = 0;
    host.order_sent = -1;
    host.sent.clear();
  }
  if (!verdict_ && state_ != State::kRecovering) Enter(State::kRecovering, now, "a greater epoch", out);
}

// ---- who is gone --------------------------------------------------------------------------------------------

// A host is dead to us when its stream has been closed for the reconnect grace, or silent for lease and margin,
// and no lease that we granted can still run.
void Coordinator::ExpireHosts(BootTime now, Effects* out) {
  std::vector<std::string> gone;
  for (auto& [id, host] : hosts_) {
    const v1::Phase phase = host.status.phase();
    if (phase == v1::PHASE_HOST_GONE) {
      gone.push_back(id);
      continue;
    }
    const bool attached = host.stream != 0;
    if (attached && !options_.leased()) continue;
    const BootTime deaf = attached ? host.received_at + options_.lease + options_.margin()
                                   : host.closed_at + options_.reconnect_grace;
    if (now > deaf && (now > host.lease_until || state_ == State::kReleasing)) gone.push_back(id);
  }
  for (const std::string& id : gone) {
    Host& host = hosts_[id];
    if (host.in_round && !host.succeeded && state_ != State::kVerdict && state_ != State::kReleasing) {
      const bool swept = host.status.phase() == v1::PHASE_HOST_GONE;
      if (!loss_at_) loss_at_ = swept ? host.received_at : std::max(host.received_at, host.closed_at);
      loss_text_ = absl::StrCat(NameOf(host), " was lost");
      Say(Severity::kWarning,
          absl::StrCat(loss_text_, swept ? ": its main process died" : ": not heard of any more"), out);
    }
    if (host.status.phase() == v1::PHASE_HOST_GONE && host.stream != 0) {
      Send(now, host, out);  // so that its agent knows that we know, and ends by itself
      streams_.erase(host.stream);
      host.stream = 0;
    }
    if (host.status.phase() == v1::PHASE_HOST_GONE) {
      ForgetEnded(id, out);
    } else {
      Forget(id, out);
    }
  }
}

void Coordinator::ForgetEnded(const std::string& host_id, Effects* out) {
  const auto it = hosts_.find(host_id);
  if (it != hosts_.end() && it->second.in_round && it->second.succeeded) {
    done_and_ended_.insert(it->second.round.node_rank());
  }
  Forget(host_id, out);
}

void Coordinator::Forget(const std::string& host_id, Effects* out) {
  const auto it = hosts_.find(host_id);
  if (it == hosts_.end()) return;
  Host& host = it->second;
  if (host.stream != 0) {
    out->push_back(CloseStream{host.stream, "not heard of for too long"});
    streams_.erase(host.stream);
  }
  if (host.in_round && host.succeeded) done_and_gone_.insert(host.round.node_rank());
  if (host.in_round && host.status.has_failure() && Same(host.status.failure().round(), greatest_.id())) {
    lost_failures_.push_back(
        {host.status.failure(), host.received_at - absl::Milliseconds(host.status.failure().age_ms())});
  }
  if (host.status.has_place()) GiveUpPlace(host.status.place(), host_id);
  hosts_.erase(it);
}

// Who stood by for it has it at once. All leave at the end, so nobody looks through all hosts here.
void Coordinator::GiveUpPlace(int place, const std::string& host_id) {
  contenders_.erase({place, host_id});
  const auto holder = holders_.find(place);
  if (holder == holders_.end() || holder->second != host_id) return;
  const auto next = contenders_.lower_bound({place, ""});
  if (next != contenders_.end() && next->first == place) {
    holder->second = next->second;
  } else {
    holders_.erase(holder);
  }
}

// ---- sending ------------------------------------------------------------------------------------------------

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
  // Whatever it runs, it is not what this job runs. SUCCEEDED and FAILED of an old round are cleared by it, too.
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

void Coordinator::Send(BootTime now, Host& host, Effects* out) {
  v1::Directive directive;
  *directive.mutable_id()->mutable_epoch() = epoch_;
  directive.mutable_id()->set_seq(++seq_);
  *directive.mutable_echo() = host.status.id();
  v1::Settings* settings = directive.mutable_settings();
  settings->set_min_nodes(options_.min_nodes);
  settings->set_max_nodes(options_.max_nodes);
  settings->set_max_restarts(options_.max_restarts);
  settings->set_max_node_losses(options_.max_node_losses);
  settings->set_beat_ms(absl::ToInt64Milliseconds(Beat()));
  settings->set_lease_ms(absl::ToInt64Milliseconds(options_.lease));
  if (IsSet(greatest_.id())) *directive.mutable_greatest() = GreatestForTelling(now);
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
      *run->mutable_loss_ages_ms() = directive->greatest().loss_ages_ms();
      break;
    }
    case v1::Directive::kStop: {
      if (host.stop_seq == 0) {
        host.stop_seq = seq_;
        if (options_.planted_bug != "stale_ready") host.counts_from = seq_;
      }
      v1::Stop* stop = directive->mutable_stop();
      *stop->mutable_round() = host.in_round ? greatest_.id() : host.status.last().id();
      stop->set_cause(host.in_round ? drain_cause_ : "this round is over");
      stop->set_grace_ms(absl::ToInt64Milliseconds(options_.shutdown_grace));
      break;
    }
    case v1::Directive::kVerdict:
      *directive->mutable_verdict() = *verdict_;
      break;
    case v1::Directive::kRelease: {
      if (host.release_seq == 0) host.release_seq = seq_;
      v1::Release* release = directive->mutable_release();
      const bool left = !verdict_ || state_ != State::kReleasing;
      release->set_exit_code(left ? kExitLeft : IsTrainer(host) ? verdict_->exit_code() : 0);
      release->set_reason(left ? "asked to leave" : verdict_->reason());
      break;
    }
    default:
      FillWait(now, host, directive->mutable_wait());
      break;
  }
}

void Coordinator::FillWait(BootTime now, const Host& host, v1::Wait* wait) {
  wait->set_reason(last_why_);
  if (!IsTrainer(host)) {
    wait->set_reason("observing");
    return;
  }
  if (const Host* holder = host.status.has_place() ? HolderOf(host.status.place()) : nullptr;
      holder != nullptr && holder != &host) {
    wait->set_reason(absl::StrCat("place ", host.status.place(), " is held by ", holder->status.hostname()));
    v1::Predecessor* held_by = wait->mutable_held_by();
    held_by->set_host_id(holder->status.host_id());
    held_by->set_hostname(holder->status.hostname());
    held_by->set_boot_id(holder->status.boot_id());
    held_by->set_pid_namespace(holder->status.pid_namespace());
    held_by->set_host_pid(holder->status.host_pid());
  }
  if (state_ == State::kRunning || state_ == State::kDraining) return;
  if (now >= absent_since_ + kTick || now < absent_since_) {  // everybody asks, and a tick's age harms nobody
    absent_ = AbsentPlaces();
    absent_since_ = now;
  }
  wait->set_absent_count(static_cast<int>(absent_.size()));
  for (size_t i = 0; i < absent_.size() && i < kMaxAbsentNamed; ++i) wait->add_absent(absent_[i]);
  wait->set_present(options_.max_nodes - static_cast<int>(absent_.size()));
}

// All others are done and known to have ended: there is nobody who could go on elsewhere without the primary.
bool Coordinator::IsLastMember() const {
  return greatest_.node_count() <= 1 + static_cast<int>(done_and_ended_.size());
}

// RUN grants the lease, and so does WAIT, while recovering, to hosts that claim the greatest round; and STOP for
// as long as workers are using their grace, which may be longer than the lease: the drain waits for them or for
// its end.
void Coordinator::GrantLease(Host& host, v1::Directive* directive) {
  if (!options_.leased()) return;
  const bool recovering = state_ == State::kRecovering && host.in_round && Claims(host);
  const bool ending = directive->has_stop() && host.in_round && !Idle(host);
  if (!directive->has_run() && !ending && !(recovering && directive->has_wait())) return;
  v1::Lease lease;
  lease.set_duration_ms(absl::ToInt64Milliseconds(options_.lease));
  if (host.status.at_primary() && !IsLastMember()) {
    const BootTime echoed = EchoedByOthers();
    if (echoed == absl::InfinitePast()) return;  // no other member has heard of us yet
    lease.set_not_after_boot_ns(ToBootNanos(echoed + options_.lease));
  }
  *directive->mutable_lease() = lease;
  host.lease_until = std::max(host.lease_until, host.received_at + options_.lease + options_.margin());
}

v1::Round Coordinator::GreatestForTelling(BootTime now) const {
  v1::Round round = greatest_;
  round.clear_node_rank();
  round.set_restart_count(round_counts_.restart_count);
  round.set_failures(round_counts_.failures);
  round.clear_loss_ages_ms();
  for (BootTime loss : round_counts_.losses) round.add_loss_ages_ms(absl::ToInt64Milliseconds(now - loss));
  return round;
}

absl::Duration Coordinator::Beat() const {
  absl::Duration beat = options_.beat;
  if (beat == absl::ZeroDuration()) {
    beat = std::max(kMinBeat, absl::Seconds(static_cast<double>(hosts_.size()) / kBeatsPerSecond));
  }
  // A sixth: the primary's own lease hangs on a directive, its echo and one more beat, and must outlast the three.
  return options_.leased() ? std::min(beat, options_.lease / 6) : beat;
}

void Coordinator::Say(Severity severity, std::string text, Effects* out) const {
  out->push_back(Note{severity, std::move(text)});
}

}  // namespace muster::rendezvous
