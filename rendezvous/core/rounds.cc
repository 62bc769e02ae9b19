// What the coordinator decides, a function for each state. Steps are taken until nothing changes any more.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/check.h"
#include "proto/base/ids.h"
#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {
namespace {

constexpr int kExitUnavailable = 69;
constexpr int kExitCancelled = 130;
constexpr int kMaxSteps = 16;  // of one event: the longest way is recovering -> draining -> gathering -> running

// "; the one restart is spent", "; all 3 restarts are spent"
std::string Spent(int budget, const std::string& what) {
  if (budget == 0) return absl::StrCat("; no ", what, " is allowed");
  if (budget == 1) return absl::StrCat("; the one ", what, " is spent");
  return absl::StrCat("; all ", budget, " ", what, what.back() == 's' ? "es" : "s", " are spent");
}

bool IsActive(v1::Phase phase) {
  return phase == v1::PHASE_STARTING || phase == v1::PHASE_RUNNING || phase == v1::PHASE_STOPPING;
}

}  // namespace

void Coordinator::Decide(BootTime now, Effects* out) {
  absent_since_ = absl::InfinitePast();
  for (int i = 0; i < kMaxSteps; ++i) {
    ExpireHosts(now, out);
    if (!Step(now, out)) return;
  }
}

bool Coordinator::Step(BootTime now, Effects* out) {
  if (state_ != State::kVerdict && state_ != State::kReleasing && EndBeforeRound(now, out)) return true;
  switch (state_) {
    case State::kRecovering:
      return StepRecovering(now, out);
    case State::kGathering:
      return StepGathering(now, out);
    case State::kRunning:
      return StepRunning(now, out);
    case State::kDraining:
      return StepDraining(now, out);
    case State::kVerdict:
      return StepVerdict(out);
    case State::kReleasing:
      return false;
  }
  return false;
}

// ---- ends that need no round --------------------------------------------------------------------------------

// A node that cannot start its program, or a Ctrl-C: with nobody running it is the verdict at once.
bool Coordinator::EndBeforeRound(BootTime now, Effects* out) {
  if (state_ != State::kRecovering && state_ != State::kGathering) return false;
  for (const auto& [id, host] : hosts_) {
    if (host.status.has_cannot_start() && IsTrainer(host)) {
      v1::Verdict verdict;
      verdict.set_exit_code(ExitCodeOf(host.status.cannot_start()));
      verdict.set_origin("muster");
      verdict.set_reason(
          absl::StrCat(host.status.hostname(), " cannot start: ", host.status.cannot_start().error_text()));
      *verdict.mutable_root_cause() = host.status.cannot_start();
      Conclude(now, verdict, out);
      return true;
    }
  }
  if (!cancelled_on_.empty()) {
    ConcludeWith(now, kExitCancelled, absl::StrCat("cancelled on ", cancelled_on_), out);
    return true;
  }
  return false;
}

// ---- recovering ---------------------------------------------------------------------------------------------

bool Coordinator::StepRecovering(BootTime now, Effects* out) {
  if (IsSet(greatest_.id())) return RecoverRound(now, out);
  last_why_ = "the coordinator has just started";
  int ready = 0;
  for (const Candidate& c : ReadyCandidates()) ready += c.host_id.empty() ? 0 : 1;
  const bool all = ready >= options_.max_nodes && !PredecessorsRoundMayRun(now);
  if (hosts_.empty() || (!all && now < members_known_until_)) return false;
  Enter(State::kGathering, now, ready >= options_.max_nodes ? "everybody is here" : "no round is named", out);
  return true;
}

// Continue the greatest round if all of it is back and running, else drain what is there.
bool Coordinator::RecoverRound(BootTime now, Effects* out) {
  std::set<int> running;
  bool all_succeeded = true;
  int claims = 0;
  std::string broken;
  last_why_ = absl::StrCat("the coordinator is recovering round ", ToString(greatest_.id()));
  for (const auto& [id, host] : hosts_) {
    if (!Fresh(host) || !IsTrainer(host)) continue;
    const v1::Phase phase = host.status.phase();
    if (!Claims(host)) {
      if (host.status.last().has_node_rank() && IsSet(host.status.last().id()))
        broken = "a node claims another round";
      continue;
    }
    ++claims;
    if (phase == v1::PHASE_STARTING || phase == v1::PHASE_RUNNING || phase == v1::PHASE_SUCCEEDED) {
      running.insert(host.round.node_rank());
      all_succeeded &= phase == v1::PHASE_SUCCEEDED;
    } else {
      broken = absl::StrCat("node ", host.round.node_rank(), " is ", ToString(phase));
    }
  }
  if (broken.empty() && static_cast<int>(running.size()) == greatest_.node_count()) {
    ours_ = true;
    lost_failures_.clear();
    Enter(State::kRunning, now, "all members of the round are back", out);
    return true;
  }
  if (!broken.empty()) {
    Drain(now, broken, out);
    return true;
  }
  absl::Duration patience = options_.lease + options_.margin();
  if (claims > 0 && all_succeeded) {
    // They may all be done; the absent may have succeeded, too, or somebody else stands in its place by now.
    bool replaced = false;
    for (const auto& [id, host] : hosts_) {
      replaced |= IsTrainer(host) && !Claims(host) && host.stream != 0 && HoldsPlace(host) && Counts(host);
    }
    if (!replaced) patience = options_.rejoin_timeout;
  }
  if (now < last_attach_ + patience) return false;
  loss_at_ = epoch_start_;
  loss_text_ = absl::StrCat(greatest_.node_count() - claims, " of ", greatest_.node_count(),
                            " nodes of the round did not come back");
  Drain(now, loss_text_, out);
  return true;
}

// ---- gathering ----------------------------------------------------------------------------------------------

std::vector<Candidate> Coordinator::ReadyCandidates() const {
  std::vector<Candidate> candidates;
  for (const auto& [id, host] : hosts_) {
    if (!IsTrainer(host) || host.stream == 0 || host.status.phase() != v1::PHASE_READY) continue;
    if (!Counts(host) || !HoldsPlace(host) || host.status.offer().host().empty()) continue;
    candidates.push_back({.host_id = id,
                          .hostname = host.status.hostname(),
                          .place = host.status.has_place() ? host.status.place() : -1,
                          .seat = host.seat,
                          .at_primary = host.status.at_primary(),
                          .joined_at = host.joined_at,
                          .slots = host.status.slots(),
                          .role_name = host.status.role_name(),
                          .offer = host.status.offer()});
  }
  return candidates;
}

bool Coordinator::StepGathering(BootTime now, Effects* out) {
  std::vector<Candidate> ready = ReadyCandidates();
  const int count = static_cast<int>(ready.size());
  int on_the_way = 0;
  for (const auto& [id, host] : hosts_) {
    if (!IsTrainer(host) || Leaving(host) || host.status.phase() == v1::PHASE_UNUSABLE || !HoldsPlace(host))
      continue;
    const bool is_ready = host.status.phase() == v1::PHASE_READY && Counts(host) && host.stream != 0 &&
                          !host.status.offer().host().empty();
    on_the_way += is_ready ? 0 : 1;
    // Whatever still executes must end first, whichever round it is of.
    if (RunsSomething(host) && now <= host.lease_until) return false;
  }
  if (primary_leaves_) {
    last_why_ = "the primary leaves and is to come back";
    return false;
  }
  min_reached_ = count >= options_.min_nodes ? std::min(min_reached_, now) : absl::InfiniteFuture();
  last_why_ = absl::StrCat(count, " of ", options_.max_nodes,
                           options_.max_nodes == 1 ? " node is ready" : " nodes are ready");
  const bool all = count >= options_.max_nodes;
  const bool enough = count >= options_.min_nodes && !options_.fixed_size() &&
                      (first_round_ ? now >= min_reached_ + options_.last_call : on_the_way == 0);
  if (all || enough) {
    MakeRound(now, AssignSeats(std::move(ready), options_.max_nodes), last_why_, out);
    return true;
  }
  const absl::Duration timeout = first_round_ ? options_.join_timeout : options_.rejoin_timeout;
  if (now < gathering_since_ + timeout) return false;
  const std::vector<std::string> absent = AbsentPlaces();
  std::string names =
      absl::StrJoin(absent.begin(),
                    absent.begin() + static_cast<int64_t>(std::min<size_t>(absent.size(), kMaxAbsentNamed)), ", ");
  if (absent.size() > kMaxAbsentNamed) absl::StrAppend(&names, " and ", absent.size() - kMaxAbsentNamed, " more");
  ConcludeWith(now, kExitUnavailable,
               absl::StrCat("too few nodes: ", count, " of ", options_.min_nodes, " were ready within ",
                            absl::FormatDuration(absl::Trunc(now - gathering_since_, absl::Seconds(1))),
                            "; absent: ", names),
               out);
  return true;
}

void Coordinator::MakeRound(BootTime now, std::vector<Candidate> members, const std::string& why, Effects* out) {
  std::vector<v1::Round> rounds = AssignRanks(members);
  WarnOfMixedFamilies(members, out);
  v1::RoundId id;
  id.set_number(1 + std::max(max_number_, greatest_.id().number()));
  if (options_.planted_bug == "round_id_repeats") id.set_number(1 + greatest_.id().number());
  *id.mutable_epoch() = epoch_;
  if (options_.planted_bug == "round_id_repeats") id.clear_epoch();
  max_number_ = std::max(max_number_, id.number());
  for (auto& [host_id, host] : hosts_) {
    host.in_round = host.succeeded = false;
    host.run_seq = host.stop_seq = 0;
    host.lost_at = absl::InfiniteFuture();
  }
  for (size_t i = 0; i < members.size(); ++i) {
    Host& host = hosts_[members[i].host_id];
    v1::Round& round = rounds[i];
    *round.mutable_id() = id;
    round.set_restart_count(counts_.restart_count);
    round.set_failures(counts_.failures);
    round.set_max_restarts(options_.max_restarts);
    host.in_round = true;
    host.seat = members[i].seat;
    host.round = round;
  }
  greatest_ = rounds.front();
  greatest_.clear_node_rank();
  ours_ = true;
  first_round_ = false;
  round_counts_ = counts_;
  loss_at_.reset();
  loss_text_.clear();
  done_and_gone_.clear();
  done_and_ended_.clear();
  lost_failures_.clear();
  MUSTER_CHECK(greatest_.node_count() >= options_.min_nodes && greatest_.node_count() <= options_.max_nodes,
               "a round of a size that nobody asked for");
  Enter(State::kRunning, now,
        absl::StrCat("round ", id.number(), ": ", greatest_.node_count(),
                     greatest_.node_count() == 1 ? " node" : " nodes", ", world size ", greatest_.world_size(),
                     ", master ", ToString(greatest_.master()), " (", why, ")"),
        out);
}

// Everybody must reach the master's address: one reached by the other family only is worth a word before it hangs.
void Coordinator::WarnOfMixedFamilies(const std::vector<Candidate>& members, Effects* out) const {
  const auto is_ipv6 = [](const Candidate& c) { return c.offer.host().find(':') != std::string::npos; };
  const auto is_loopback = [](const Candidate& c) {
    return c.offer.host() == "::1" || absl::StartsWith(c.offer.host(), "127.");
  };
  for (const Candidate& c : members) {
    if (is_ipv6(c) == is_ipv6(members.front())) continue;
    if (is_loopback(c) && is_loopback(members.front())) continue;  // on one machine both are reached
    Say(Severity::kWarning,
        absl::StrCat(c.hostname, " reaches the primary by another address family (", c.offer.host(),
                     ") than the master's (", members.front().offer.host(), "): give --local-addr on each node"),
        out);
    return;
  }
}

// ---- running ------------------------------------------------------------------------------------------------

bool Coordinator::StepRunning(BootTime now, Effects* out) {
  const int missing = MembersMissing();
  bool all_succeeded = missing == 0;
  for (const auto& [id, host] : hosts_) {
    if (host.in_round) all_succeeded &= host.succeeded;
  }
  if (all_succeeded) {
    ConcludeWith(now, 0, "every worker exited 0", out);
    return true;
  }
  const std::optional<std::string> why = WhyDrain(now);
  if (!why) return false;
  Drain(now, *why, out);
  return true;
}

std::optional<std::string> Coordinator::WhyDrain(BootTime now) {
  if (loss_at_) return loss_text_.empty() ? "a node was lost" : loss_text_;
  if (!cancelled_on_.empty()) return absl::StrCat("cancelled on ", cancelled_on_);
  bool any_succeeded = !done_and_gone_.empty();
  int newcomers = 0;
  for (const auto& [id, host] : hosts_) {
    if (!host.in_round) continue;
    any_succeeded |= host.succeeded;
    if (std::optional<std::string> why = WhyDrainFor(now, host)) return why;
  }
  for (const Candidate& c : ReadyCandidates()) newcomers += hosts_.at(c.host_id).in_round ? 0 : 1;
  if (newcomers > 0 && !any_succeeded && greatest_.node_count() < options_.max_nodes) {
    return absl::StrCat(newcomers, " more nodes are ready");
  }
  return std::nullopt;
}

std::optional<std::string> Coordinator::WhyDrainFor(BootTime now, const Host& host) const {
  if (host.succeeded) return std::nullopt;
  const v1::Phase phase = host.status.phase();
  const std::string name = NameOf(host);
  if (host.stream == 0 && now > host.closed_at + options_.reconnect_grace) return absl::StrCat(name, " is away");
  if (phase == v1::PHASE_LEAVING) return absl::StrCat(name, " was asked to leave");
  if (phase == v1::PHASE_UNUSABLE) return absl::StrCat(name, " is unusable: ", host.status.trouble());
  if (phase == v1::PHASE_FAILED && Claims(host)) {
    return host.status.has_failure() ? DescribeFailure(host.status.failure()) : absl::StrCat(name, " failed");
  }
  const bool applied = Fresh(host) && host.run_seq != 0 && host.status.applied().seq() >= host.run_seq;
  if (applied && (phase == v1::PHASE_READY || phase == v1::PHASE_STOPPING)) {
    return absl::StrCat(name, " stopped by itself",
                        host.status.outcome() == v1::OUTCOME_LEASE_ENDED ? ": its lease ended" : "");
  }
  if (!applied && host.run_seq != 0 && now > host.run_sent_at + kRunLimit) {
    return absl::StrCat(name, " did not take up the round");
  }
  return std::nullopt;
}

// ---- draining -----------------------------------------------------------------------------------------------

void Coordinator::Drain(BootTime now, const std::string& why, Effects* out) {
  drain_cause_ = why;
  for (auto& [id, host] : hosts_) host.stop_seq = 0;
  Enter(State::kDraining, now, why, out);
}

// Whom nobody has seen since this coordinator started may hold a lease of the one before: a member of the round
// that is named, and also the member of a later one that nobody here has heard of. Its RUN may have reached that
// host alone, and others may stand in its place by now.
bool Coordinator::PredecessorsRoundMayRun(BootTime now) const {
  if (ours_ || now >= members_known_until_) return false;
  if (options_.planted_bug == "unheard_round") return MembersMissing() > 0;
  return MembersMissing() > 0 || (options_.leased() && had_predecessor_);
}

bool Coordinator::IsDrained(BootTime now, const Host& host) const {
  if (now > host.lease_until && host.stream == 0 && now > host.closed_at + options_.reconnect_grace) return true;
  const v1::Phase phase = host.status.phase();
  if (phase == v1::PHASE_LEAVING) return Idle(host);
  const bool counted = host.stop_seq != 0 && Fresh(host) &&
                       (host.status.applied().seq() >= host.stop_seq || options_.planted_bug == "stale_ready");
  return counted && (phase == v1::PHASE_READY || phase == v1::PHASE_UNUSABLE);
}

bool Coordinator::StepDraining(BootTime now, Effects* out) {
  const int missing = MembersMissing();
  if (PredecessorsRoundMayRun(now)) return false;
  for (const auto& [id, host] : hosts_) {
    if (host.in_round && !IsDrained(now, host)) return false;
    if (!host.in_round && RunsSomething(host) && now <= host.lease_until) return false;
  }
  for (const auto& [id, host] : hosts_) {
    const bool lost = host.in_round && !host.succeeded && host.lost_at != absl::InfiniteFuture();
    if (lost && (!loss_at_ || host.lost_at < *loss_at_)) loss_at_ = host.lost_at;
  }
  if (missing > 0 && !loss_at_) loss_at_ = now;
  const std::optional<SeenFailure> cause = FirstCause(Failures());
  const RoundEnd end = EndOfRound(cause);
  counts_ = round_counts_.After(end, now, options_.node_loss_window);
  if (options_.planted_bug == "budget_twice" && end == RoundEnd::kWorkerFailure) ++counts_.failures;
  if (!cancelled_on_.empty()) {
    ConcludeWith(now, kExitCancelled, absl::StrCat("cancelled on ", cancelled_on_), out);
    return true;
  }
  if (end == RoundEnd::kWorkerFailure && counts_.failures > options_.max_restarts) {
    v1::Verdict verdict;
    verdict.set_exit_code(ExitCodeOf(cause->failure));
    verdict.set_origin("worker");
    verdict.set_reason(absl::StrCat(DescribeFailure(cause->failure),
                                    options_.max_restarts > 0 ? Spent(options_.max_restarts, "restart") : ""));
    SetRootCause(*cause, Failures(), &verdict);
    Conclude(now, verdict, out);
    return true;
  }
  if (static_cast<int>(counts_.losses.size()) > options_.max_node_losses && end == RoundEnd::kNodeLoss) {
    ConcludeWith(
        now, kExitUnavailable,
        absl::StrCat(loss_text_.empty() ? drain_cause_ : loss_text_, Spent(options_.max_node_losses, "node loss")),
        out);
    return true;
  }
  gathering_since_ = now;
  min_reached_ = absl::InfiniteFuture();
  for (auto& [id, host] : hosts_) host.in_round = host.succeeded = false;
  ours_ = true;
  Enter(State::kGathering, now, absl::StrCat("drained: ", drain_cause_), out);
  return true;
}

std::vector<SeenFailure> Coordinator::Failures() const {
  std::vector<SeenFailure> failures = lost_failures_;
  for (const auto& [id, host] : hosts_) {
    if (!host.in_round || !host.status.has_failure()) continue;
    if (!Same(host.status.failure().round(), greatest_.id())) continue;
    failures.push_back(
        {host.status.failure(), host.received_at - absl::Milliseconds(host.status.failure().age_ms())});
  }
  return failures;
}

// The loss of a node makes its peers' workers fail: they are its echo unless they came well before it.
RoundEnd Coordinator::EndOfRound(const std::optional<SeenFailure>& cause) const {
  if (loss_at_ && (!cause || *loss_at_ <= cause->at + kEchoWindow)) return RoundEnd::kNodeLoss;
  return cause ? RoundEnd::kWorkerFailure : RoundEnd::kMembership;
}

// ---- verdict ------------------------------------------------------------------------------------------------

void Coordinator::ConcludeWith(BootTime now, int exit_code, const std::string& reason, Effects* out) {
  v1::Verdict verdict;
  verdict.set_exit_code(exit_code);
  verdict.set_origin("muster");
  verdict.set_reason(reason);
  Conclude(now, std::move(verdict), out);
}

void Coordinator::Conclude(BootTime now, v1::Verdict verdict, Effects* out) {
  verdict_ = std::move(verdict);
  Enter(State::kVerdict, now, absl::StrCat("verdict ", verdict_->exit_code(), ": ", verdict_->reason()), out);
}

bool Coordinator::Acknowledged(const Host& host) const {
  if (options_.planted_bug == "verdict_unacknowledged") return true;
  // One that is unusable can hear the verdict like any other; its workers are not waited for.
  return host.status.has_verdict() && (Idle(host) || host.status.phase() == v1::PHASE_UNUSABLE);
}

bool Coordinator::Released(const Host& host) const {
  return host.release_seq != 0 && Fresh(host) && host.status.applied().seq() >= host.release_seq;
}

// Others are told only once the primary's own host has stored the verdict: if this coordinator dies now and its
// successor is cut off from everybody who knows, it must not come to another one.
void Coordinator::LookWhetherTheVerdictIsKept() {
  verdict_kept_ = true;
  if (options_.planted_bug == "verdict_unacknowledged") return;
  for (const auto& [id, host] : hosts_) {
    if (host.status.at_primary() && host.stream != 0 && !host.status.has_verdict()) verdict_kept_ = false;
  }
}

bool Coordinator::StepVerdict(Effects* out) {
  // A program that cannot start is often found before everybody is here: whoever comes at once is to hear why.
  const bool early = first_round_ && verdict_->has_root_cause();
  if (early && static_cast<int>(hosts_.size()) < options_.min_nodes && last_event_ < state_since_ + kLatecomers) {
    return false;
  }
  // A verdict adopted from an agent: the others of its round are on their way back, and are to hear it, too.
  if (!ours_ && MembersMissing() > 0 && last_event_ < members_known_until_) return false;
  for (const auto& [id, host] : hosts_) {
    if (!Acknowledged(host)) return false;
  }
  Enter(State::kReleasing, last_event_, "everybody has acknowledged the verdict", out);
  return true;
}

// ---- facts --------------------------------------------------------------------------------------------------

void Coordinator::Enter(State state, BootTime now, const std::string& why, Effects* out) {
  MUSTER_CHECK(IsListed(state_, state), "a transition that is not in the table");
  // What starts and what stops is everybody's business; the rest is told where it matters, or for those who debug.
  const bool news = state == State::kRunning || state == State::kDraining;
  Say(news ? Severity::kInfo : Severity::kDebug, why, out);
  // What those are told who wait meanwhile.
  const uint64_t number = greatest_.id().number();
  if (state == State::kRunning) {
    last_why_ = absl::StrCat("round ", number, " runs with ", greatest_.node_count(), " nodes");
  } else if (state == State::kDraining) {
    last_why_ = absl::StrCat("round ", number, " is being ended: ", why);
  }
  state_ = state;
  state_since_ = now;
  if (state == State::kGathering) gathering_since_ = std::min(gathering_since_, now);
}

bool Coordinator::Fresh(const Host& host) const {
  return Same(host.status.applied().epoch(), epoch_) && host.counts_from != 0;
}

bool Coordinator::Counts(const Host& host) const {
  return Fresh(host) && host.status.applied().seq() >= host.counts_from;
}

bool Coordinator::Claims(const Host& host) const {
  const v1::Round& last = host.status.last();
  return IsSet(greatest_.id()) && last.has_node_rank() && Same(last.id(), greatest_.id());
}

const Coordinator::Host* Coordinator::HolderOf(int place) const {
  const auto it = holders_.find(place);
  if (it == holders_.end()) return nullptr;
  const auto host = hosts_.find(it->second);
  return host == hosts_.end() ? nullptr : &host->second;
}

bool Coordinator::HoldsPlace(const Host& host) const {
  return !host.status.has_place() || HolderOf(host.status.place()) == &host;
}

bool Coordinator::RunsSomething(const Host& host) const {
  return !Idle(host) && host.status.phase() != v1::PHASE_UNUSABLE;
}

bool Coordinator::Idle(const Host& host) const {
  return !IsActive(host.status.phase()) && host.status.live_workers() == 0;
}

// The primary leaves last: it waits for the others to close their streams with RELEASE applied, or to come back
// for it, but not for ever.
bool Coordinator::OthersAttached(const Host& host) const {
  if (state_ == State::kReleasing && last_event_ > state_since_ + kReleaseLimit) return false;
  for (const auto& [id, other] : hosts_) {
    if (&other == &host) continue;
    if (state_ == State::kReleasing || (other.stream != 0 && !Idle(other))) return true;
  }
  return false;
}

int Coordinator::MembersMissing() const {
  std::set<int> accounted = done_and_gone_;
  for (const auto& [id, host] : hosts_) {
    if (host.in_round) accounted.insert(host.round.node_rank());
  }
  return greatest_.node_count() - static_cast<int>(accounted.size());
}

std::string Coordinator::PlaceName(int place) const {
  if (place < static_cast<int>(options_.place_names.size())) {
    return absl::StrCat(options_.place_names[static_cast<size_t>(place)], " (place ", place, ")");
  }
  return absl::StrCat("place ", place);
}

std::vector<std::string> Coordinator::AbsentPlaces() const {
  std::set<int> present;
  int unplaced = 0;
  for (const Candidate& c : ReadyCandidates()) {
    if (c.place >= 0) {
      present.insert(c.place);
    } else {
      ++unplaced;
    }
  }
  std::vector<std::string> absent;
  int missing = options_.max_nodes - static_cast<int>(present.size()) - unplaced;
  for (int place = 0; place < options_.max_nodes && missing > 0; ++place) {
    if (present.count(place) > 0) continue;
    absent.push_back(PlaceName(place));
    --missing;
  }
  return absent;
}

}  // namespace muster::rendezvous
