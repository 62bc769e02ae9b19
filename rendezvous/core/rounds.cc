// The coordinator's decisions, one function for each state (draining and later states: draining.cc). After each
// event steps are taken until nothing changes.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "base/text.h"
#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {
namespace {

constexpr int kMaxSteps = 16;  // per event; the longest path is recovering -> draining -> gathering -> running

// "2 nodes"
std::string Count(int64_t count, const std::string& what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// "restart 2 of 3: "; empty before the first restart. Without "of 3" where --max-restarts does not bound the
// number: node losses do not count for it, and a restart window forgets.
std::string DescribeRestart(const v1::Round& round, const CoordinatorOptions& options) {
  if (round.restart_count() == 0) return "";
  const bool bounded = round.restart_count() == round.failures() && round.failures() <= options.max_restarts &&
                       options.restart_window == absl::InfiniteDuration();
  return absl::StrCat("restart ", round.restart_count(), bounded ? absl::StrCat(" of ", options.max_restarts) : "",
                      ": ");
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
  const bool open = state_ != State::kVerdict && state_ != State::kReleasing;
  if (open && (EndWithSuccess(now, out) || EndBeforeRound(now, out))) return true;
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

// ---- verdicts without a further round -----------------------------------------------------------------------

// In every state, a round has succeeded once all its nodes report success, even while it is drained or afterwards.
// This no longer holds when a later round has started, even one of fewer nodes: its workers have begun to
// overwrite what the others had finished.
bool Coordinator::EndWithSuccess(BootTime now, Effects* out) {
  if (!EveryNodeSucceeded()) return false;
  ConcludeWith(now, 0, "every worker exited 0", out);
  return true;
}

// A verdict before the first round waits for nodes that are still starting: they hear why the job ends, and one of
// them may know of a round that this coordinator does not.
bool Coordinator::EnoughAreHere(BootTime now) const {
  const auto is_here = [this](const auto& entry) { return IsTrainer(entry.second) && entry.second.stream != 0; };
  const auto here = std::count_if(hosts_.begin(), hosts_.end(), is_here);
  return here >= options_.max_nodes || now >= state_since_ + kLatecomers;
}

// While no round runs, a cancellation, or a node that cannot start its program before the first round, leads to a
// verdict. For the second one the coordinator must have left RECOVERING: until then a round may run that no node
// has reported yet.
bool Coordinator::EndBeforeRound(BootTime now, Effects* out) {
  if (farewell_) return false;
  if (state_ != State::kRecovering && state_ != State::kGathering) return false;
  const bool enough = state_ == State::kGathering && EnoughAreHere(now);
  for (const auto& [id, host] : hosts_) {
    if (enough && CannotStart(host)) {
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
  const std::vector<Candidate> ready = ReadyCandidates();
  last_why_ = WhyNoRoundYet(static_cast<int>(ready.size()));
  const bool all_are_here = static_cast<int>(ready.size()) + CannotStart() >= options_.max_nodes;
  const bool all = all_are_here && !SparesMayHideARound(now) && !PredecessorsRoundMayRun(now);
  if (hosts_.empty()) {  // only `muster coordinator`: inside an agent its own host is always attached
    if (now < epoch_start_ + options_.join_timeout) return false;
    ConcludeWith(now, kExitUnavailable,
                 absl::StrCat("no node joined within ", absl::FormatDuration(options_.join_timeout),
                              " (--join-timeout)", DescribeRefusals()),
                 out);
    return true;
  }
  if (!all && now < members_known_until_) return false;
  Enter(State::kGathering, now, all_are_here ? "all nodes are here" : "no node reported a round", out);
  return true;
}

// Enough spares for a round may be attached while a round that they have not heard of still runs, its members
// being about to reconnect. The coordinator's own host would know of such a round. A standalone coordinator has no
// such host and must wait until the lease of that round would have expired. Where every node has a place, no node
// can stand in for another. A node that cannot start its program counts like a spare.
bool Coordinator::SparesMayHideARound(BootTime now) const {
  if (!options_.leased()) return false;
  bool placed = true;
  bool own_is_heard = false;
  for (const auto& [id, host] : hosts_) {
    placed &= host.status.has_place() || !(IsTrainer(host) && (IsReady(host) || CannotStart(host)));
    own_is_heard |= host.status.at_primary();
  }
  if (!options_.in_agent) return !placed;
  return !own_is_heard || (!placed && now < epoch_start_ + options_.agents_return);
}

// Continues the greatest round if all its members are back and running; otherwise drains it.
bool Coordinator::RecoverRound(BootTime now, Effects* out) {
  std::set<int> running = succeeded_and_departed_;
  bool all_succeeded = true;
  int claims = 0, may_have_missed_it = 0;
  std::string broken;
  last_why_ = absl::StrCat("the coordinator is recovering round ", greatest_.id().number());
  for (const auto& [id, host] : hosts_) {
    if (!Fresh(host) || !IsTrainer(host)) continue;
    const v1::Phase phase = host.status.phase();
    if (!Claims(host)) {
      may_have_missed_it += host.in_older_round && host.stream != 0 ? 1 : 0;
      if (host.status.last().has_node_rank() && RunsSomething(host)) {
        broken = absl::StrCat(host.status.hostname(), " runs a different round");
      }
      continue;
    }
    ++claims;
    const bool succeeded = HasSucceeded(host);
    // A member that is stopping would end the round anyway once it is continued (WhyDrainFor); this is earlier.
    if (succeeded || LeavesAfterSuccess(host) || phase == v1::PHASE_STARTING || phase == v1::PHASE_RUNNING) {
      running.insert(host.round.node_rank());
      all_succeeded &= succeeded;
    } else {
      broken = absl::StrCat(NameOf(host), " no longer runs the round (", ToString(phase), ")");
    }
  }
  const bool all_run = static_cast<int>(running.size()) == greatest_.node_count();
  // A node that reports an older round may have been cut off when this round was made, and then the round is
  // healthy. Or it is a member that the RUN never reached, and the others wait for it in vain. The second is
  // certain once all nodes of the job are accounted for.
  if (claims > 0 && !all_run && claims + may_have_missed_it >= options_.max_nodes) {
    broken = "a member of the round was never told to start it";
  }
  if (!broken.empty() || PrimaryIsKnownEnded()) broken = HowPrimaryEnded().value_or(broken);
  if (broken.empty() && all_run) {
    round_owned_by_this_epoch_ = true;
    lost_failures_.clear();
    Enter(State::kRunning, now, "all members of the round are back", out);
    return true;
  }
  if (!broken.empty()) {
    Drain(now, broken, out);
    return true;
  }
  absl::Duration patience = options_.leased() ? options_.lease + options_.margin() : kUnleasedReturn;
  if (claims > 0 && all_succeeded) {
    // All may be done: the absent members may have succeeded, too, and return to report it. A new node in the
    // place of one means that it will not return.
    bool replaced = false;
    for (const auto& [id, host] : hosts_) {
      replaced |=
          IsTrainer(host) && !Claims(host) && host.stream != 0 && HoldsPlace(host) && StatusIsCurrent(host);
    }
    if (!replaced) patience = options_.rejoin_timeout;
  }
  if (now < last_attach_ + patience) return false;
  NoteLoss(WhenLost(epoch_start_), absl::StrCat(MissingNames(), " (of ", greatest_.node_count(),
                                                " nodes) did not reconnect to this coordinator"));
  Drain(now, loss_text_, out);
  return true;
}

// ---- gathering ----------------------------------------------------------------------------------------------

std::vector<Candidate> Coordinator::ReadyCandidates() const {
  std::vector<Candidate> candidates;
  for (const auto& [id, host] : hosts_) {
    if (!IsTrainer(host) || !IsReady(host) || !HoldsPlace(host)) continue;
    candidates.push_back({.host_id = id,
                          .hostname = host.status.hostname(),
                          .place = host.status.has_place() ? host.status.place() : -1,
                          .seat = host.seat,
                          .was_member = WasMember(host),
                          .at_primary = host.status.at_primary(),
                          .joined_at = host.joined_at,
                          .slots = host.status.slots(),
                          .role_name = host.status.role_name(),
                          .offer = host.status.offer()});
  }
  return candidates;
}

// Size of the next round given the ready nodes; below MIN no round can start.
int Coordinator::RoundSize(int ready) const {
  int most = options_.max_nodes;
  // This coordinator may have been started with a greater MIN than the one before it.
  if (options_.scale_up == ScaleUp::kNever && largest_ > 0)
    most = std::min(most, std::max(largest_, options_.min_nodes));
  const int size = std::min(ready, most);
  return size - size % options_.node_unit;
}

// Leaves out excluded nodes if the others suffice.
std::vector<Candidate> Coordinator::Chosen(std::vector<Candidate> ready, BootTime now) const {
  std::vector<Candidate> sound;
  for (const Candidate& c : ready) {
    if (!SetAside(c.host_id, now)) sound.push_back(c);
  }
  const bool suffice = RoundSize(static_cast<int>(sound.size())) >= options_.min_nodes;
  return suffice ? sound : ready;
}

// Counts the known nodes that are not ready. Running workers of any round must end before the next one starts.
Coordinator::Arriving Coordinator::WhoArrives(BootTime now) const {
  Arriving arriving;
  for (const auto& [id, host] : hosts_) {
    if (!IsTrainer(host) || Leaving(host) || Unusable(host) || !HoldsPlace(host)) continue;
    arriving.something_runs |= RunsSomething(host) && now <= host.lease_until;
    if (IsReady(host) || host.status.has_cannot_start()) continue;
    (host.was_ready || WasMember(host) ? arriving.known : arriving.newcomers) += 1;
    arriving.owner |= host.seat >= 0;
    arriving.owner_prepares |= WasMember(host) && host.stream != 0 && !host.status.preparing().empty();
  }
  return arriving;
}

// For MIN:MAX. A node that was ready before is waited for: it will most likely be ready again, and its own time
// limits apply. A newcomer that does not become ready delays the others for no longer than the last call.
bool Coordinator::EnoughCame(BootTime now, const Arriving& arriving) const {
  const bool called = now >= min_reached_ + options_.last_call;
  if (first_round_) return called;
  const bool newcomers_hold = arriving.newcomers > 0 && !called;
  return arriving.known == 0 && !newcomers_hold;
}

bool Coordinator::StepGathering(BootTime now, Effects* out) {
  std::vector<Candidate> ready = Chosen(ReadyCandidates(), now);
  const int count = static_cast<int>(ready.size());
  const Arriving arriving = WhoArrives(now);
  // StepDraining waited for these workers already, and none of them is granted a lease while gathering.
  if (arriving.something_runs) return false;
  if (primary_leaves_) {
    last_why_ = "the primary is leaving; the job continues once it is back";
    return false;
  }
  min_reached_ = count >= options_.min_nodes ? std::min(min_reached_, now) : absl::InfiniteFuture();
  last_why_ = HowManyAreReady(count);
  if (now < not_before_) {
    last_why_ = absl::StrCat("the last ", counts_.fast_failures, " rounds failed within ",
                             absl::FormatDuration(kFastFailure), " each; pausing ",
                             absl::FormatDuration(absl::Ceil(pause_, absl::Milliseconds(100))),
                             " before the next one (--restart-delay)");
    return false;
  }
  const int size = RoundSize(count);
  const bool suffice = size >= options_.min_nodes;
  const bool all = suffice && size == RoundSize(options_.max_nodes);
  // A spare is ready before the members, whose workers have just been stopped, and must not take their ranks. A
  // member that is preparing is waited for, because its own time limits apply.
  const bool owners_first =
      arriving.owner_prepares || (arriving.owner && now < state_since_ + options_.reconnect_grace);
  const bool enough = suffice && !options_.fixed_size() && EnoughCame(now, arriving);
  const absl::Duration timeout = first_round_ ? options_.join_timeout : options_.rejoin_timeout;
  const bool overdue = now >= gathering_since_ + timeout;
  if ((all && !owners_first) || enough || (overdue && suffice)) {
    MakeRound(now, AssignSeats(std::move(ready), size), last_why_, out);
    return true;
  }
  if (!overdue) return false;
  const std::vector<std::string> absent = AbsentPlaces();
  const std::string not_ready = WhoIsNotReady();
  const std::string claimed_twice = PlacesClaimedTwice();
  ConcludeWith(now, kExitUnavailable,
               absl::StrCat("too few nodes: ", count, " of ", options_.min_nodes, " ready within ",
                            absl::FormatDuration(absl::Trunc(now - gathering_since_, absl::Seconds(1))),
                            first_round_ ? " (--join-timeout)" : " (--rejoin-timeout)",
                            absent.empty() ? "" : "; missing: ", JoinAtMost(absent, kMaxAbsentNamed),
                            not_ready.empty() ? "" : "; ", not_ready, claimed_twice.empty() ? "" : "; ",
                            claimed_twice, DescribeRefusals()),
               out);
  return true;
}

void Coordinator::MakeRound(BootTime now, std::vector<Candidate> members, const std::string& why, Effects* out) {
  std::vector<v1::Round> rounds = AssignRanks(members);
  WarnOfMixedFamilies(members, out);
  WarnOfDifferences(members, out);
  refusals_.clear();
  more_refusals_ = false;
  v1::RoundId id;
  // The ledger may come from a round with a greater number than any seen here; the restart count bounds it from
  // below.
  const auto restarts = static_cast<uint64_t>(counts_.restart_count);
  id.set_number(1 + std::max({max_number_, greatest_.id().number(), restarts}));
  *id.mutable_epoch() = epoch_;
  max_number_ = std::max(max_number_, id.number());
  for (auto& [host_id, host] : hosts_) {
    // Normally cleared already: by StepDraining, or because without a drain no round was known.
    host.in_round = host.succeeded = false;
    host.run_seq = host.stop_seq = 0;
    host.lost_at = absl::InfiniteFuture();
  }
  for (size_t i = 0; i < members.size(); ++i) {
    Host& host = hosts_[members[i].host_id];
    v1::Round& round = rounds[i];
    *round.mutable_id() = id;
    counts_.WriteTo(now, &round);
    round.set_largest_node_count(std::max(largest_, round.node_count()));
    round.set_max_restarts(options_.max_restarts);
    host.in_round = true;
    host.seat = members[i].seat;
    host.round = round;
  }
  greatest_ = rounds.front();
  greatest_.clear_node_rank();
  round_owned_by_this_epoch_ = true;
  first_round_ = false;
  largest_ = std::max(largest_, greatest_.node_count());
  greatest_.set_largest_node_count(largest_);
  round_since_ = now;
  newcomers_since_ = absl::InfiniteFuture();
  ForgetRound();
  round_counts_ = counts_;
  predecessor_heard_at_ = absl::InfinitePast();
  MUSTER_CHECK(greatest_.node_count() >= options_.min_nodes && greatest_.node_count() <= options_.max_nodes,
               "round size outside MIN..MAX");
  Enter(State::kRunning, now,
        absl::StrCat(DescribeRestart(greatest_, options_), "starting ", Count(greatest_.world_size(), "worker"),
                     " on ", Count(greatest_.node_count(), "node"), ", round ", id.number(), ", master ",
                     ToString(greatest_.master()), " (", why, ")"),
        out);
}

// Differences between nodes are the first thing to look at when a job behaves strangely.
void Coordinator::WarnOfDifferences(const std::vector<Candidate>& members, Effects* out) {
  std::vector<NodeFacts> nodes;
  for (size_t i = 0; i < members.size(); ++i) {
    Host& host = hosts_[members[i].host_id];
    const v1::AgentStatus& s = host.status;
    host.facts["muster's version"] = s.version();
    const bool fixed = s.min_nodes() == s.max_nodes();
    host.facts["--nnodes"] = absl::StrCat(fixed ? "" : absl::StrCat(s.min_nodes(), ":"), s.max_nodes());
    nodes.push_back({absl::StrCat("node ", i, " (", s.hostname(), ")"),
                     s.has_place() ? absl::StrCat("place ", s.place()) : members[i].host_id, &host.facts});
  }
  for (const std::string& line : differences_.Of(nodes))
    Say(Severity::kWarning, line, out, {.event = events::kNodesDiffer});
}

// All nodes must reach the master address. A node that uses the other address family may not, and would hang
// without an explanation.
void Coordinator::WarnOfMixedFamilies(const std::vector<Candidate>& members, Effects* out) const {
  const auto is_ipv6 = [](const Candidate& c) { return c.offer.host().find(':') != std::string::npos; };
  const auto is_loopback = [](const Candidate& c) {
    return c.offer.host() == "::1" || absl::StartsWith(c.offer.host(), "127.");
  };
  for (const Candidate& c : members) {
    if (is_ipv6(c) == is_ipv6(members.front())) continue;
    if (is_loopback(c) && is_loopback(members.front())) continue;  // on one machine both are reached
    Say(Severity::kWarning,
        absl::StrCat(c.hostname, " reaches the primary over ", is_ipv6(c) ? "IPv6" : "IPv4", " (", c.offer.host(),
                     "), but the master address is ", is_ipv6(members.front()) ? "IPv6" : "IPv4", " (",
                     members.front().offer.host(), "); set --local-addr to addresses of one family on all nodes"),
        out);
    return;
  }
}

// ---- running ------------------------------------------------------------------------------------------------

bool Coordinator::StepRunning(BootTime now, Effects* out) {
  const std::optional<std::string> why = WhyDrain(now);
  if (!why) return false;
  Drain(now, *why, out);
  return true;
}

std::optional<std::string> Coordinator::WhyDrain(BootTime now) {
  if (loss_at_) return loss_text_.empty() ? "a node was lost" : loss_text_;
  if (!cancelled_on_.empty()) return absl::StrCat("cancelled on ", cancelled_on_);
  const bool absent_may_return = OnlyAbsentNodesRun();
  for (const auto& [id, host] : hosts_) {
    if (!host.in_round) continue;
    if (std::optional<std::string> why = WhyDrainFor(now, host, absent_may_return)) return why;
  }
  if (!succeeded_.empty()) return std::nullopt;
  return WhyGrow(now);
}

// New nodes justify a restart when join_settle has passed since the first of them was ready, or the group reaches
// its full size. So ten nodes that arrive together cost one restart.
std::optional<std::string> Coordinator::WhyGrow(BootTime now) {
  const bool may = options_.scale_up == ScaleUp::kImmediate;
  if (!may || greatest_.node_count() >= options_.max_nodes) return std::nullopt;
  if (!MayChangeMembers(now)) return std::nullopt;
  int newcomers = 0;
  for (const Candidate& c : ReadyCandidates()) {
    newcomers += hosts_.at(c.host_id).in_round || SetAside(c.host_id, now) ? 0 : 1;
  }
  const int size = RoundSize(greatest_.node_count() + newcomers);
  // This coordinator may have been started with a greater MIN than the one before it.
  if (size <= greatest_.node_count() || size < options_.min_nodes) {
    newcomers_since_ = absl::InfiniteFuture();
    return std::nullopt;
  }
  newcomers_since_ = std::min(newcomers_since_, now);
  const bool settled = now >= newcomers_since_ + options_.join_settle;
  if (size < RoundSize(options_.max_nodes) && !settled) return std::nullopt;
  return absl::StrCat(newcomers, newcomers == 1 ? " new node is" : " new nodes are", " ready to join");
}

// False if one more membership change would end the job for lack of progress.
bool Coordinator::MayChangeMembers(BootTime now) const {
  if (options_.max_membership_changes == 0 || counts_.idle_changes < options_.max_membership_changes) return true;
  RoundResult if_ended_now;
  if_ended_now.lasted = now - round_since_;
  if_ended_now.watched = ProgressWatched();
  if_ended_now.progressed = SomeProgressed();
  return MadeProgress(if_ended_now);
}

// absent_may_return: a disconnected member causes no drain until its lease ends and it is lost.
std::optional<std::string> Coordinator::WhyDrainFor(BootTime now, const Host& host, bool absent_may_return) const {
  if (host.succeeded) return std::nullopt;
  const v1::Phase phase = host.status.phase();
  const std::string name = NameOf(host);
  if (host.stream == 0 && now > host.closed_at + options_.reconnect_grace) {
    if (absent_may_return) return std::nullopt;
    return absl::StrCat(name, " disconnected and did not reconnect within ",
                        absl::FormatDuration(options_.reconnect_grace));
  }
  if (LeavesAfterSuccess(host)) return std::nullopt;
  if (phase == v1::PHASE_LEAVING || Unusable(host)) return HowLost(host);
  if (phase == v1::PHASE_FAILED && Claims(host)) {
    return host.status.has_failure() ? DescribeFailure(host.status.failure()) : absl::StrCat(name, " failed");
  }
  const bool applied = Fresh(host) && host.run_seq != 0 && host.status.applied().seq() >= host.run_seq;
  if (applied && (phase == v1::PHASE_READY || phase == v1::PHASE_STOPPING)) {
    const bool by_lease = host.status.outcome() == v1::OUTCOME_LEASE_ENDED;
    return absl::StrCat(name, " stopped its workers on its own",
                        by_lease ? absl::StrCat(": ", WhyLeaseEnded(host)) : "");
  }
  if (!applied && host.run_seq != 0 && now > host.run_sent_at + kRunLimit) {
    return absl::StrCat(name, " did not start the round within ", absl::FormatDuration(kRunLimit));
  }
  return std::nullopt;
}

}  // namespace muster::rendezvous
