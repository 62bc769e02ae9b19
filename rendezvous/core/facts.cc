// Queries about hosts that all decisions share, the texts about waiting, and the transition between states.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/ids.h"
#include "base/text.h"
#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {
namespace {

bool IsActive(v1::Phase phase) {
  return phase == v1::PHASE_STARTING || phase == v1::PHASE_RUNNING || phase == v1::PHASE_STOPPING;
}

const char* EventOf(State entered) {
  if (entered == State::kRunning) return events::kRoundStarted;
  if (entered == State::kDraining) return events::kRoundStopping;
  return entered == State::kVerdict ? events::kVerdict : "";
}

}  // namespace

void Coordinator::Enter(State state, BootTime now, const std::string& why, Effects* out) {
  MUSTER_CHECK(IsListed(state_, state), "state transition not in the table");
  // Starts and stops of rounds are logged for users; other transitions are logged elsewhere, or only for
  // debugging.
  const bool news = state == State::kRunning || state == State::kDraining;
  Say(news ? Severity::kInfo : Severity::kDebug, why, out, {.event = EventOf(state)});
  // The reason for nodes that wait meanwhile.
  const uint64_t number = greatest_.id().number();
  if (state == State::kRunning) {
    last_why_ = absl::StrCat("round ", number, " runs with ", greatest_.node_count(),
                             greatest_.node_count() == 1 ? " node" : " nodes");
  } else if (state == State::kDraining) {
    last_why_ = absl::StrCat("round ", number, " is stopping: ", why);
  }
  state_ = state;
  state_since_ = now;
  if (state == State::kGathering) gathering_since_ = std::min(gathering_since_, now);
}

// One step of splitmix64. Epochs and pauses need random numbers, and the core has no source but the given entropy.
uint64_t Coordinator::NextRandom() {
  uint64_t z = (entropy_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

bool Coordinator::Fresh(const Host& host) const {
  return Same(host.status.applied().epoch(), epoch_) && host.counts_from != 0;
}

bool Coordinator::StatusIsCurrent(const Host& host) const {
  return Fresh(host) && host.status.applied().seq() >= host.counts_from;
}

bool Coordinator::Claims(const Host& host) const {
  const v1::Round& last = host.status.last();
  return IsSet(greatest_.id()) && last.has_node_rank() && Same(last.id(), greatest_.id());
}

std::string Coordinator::WhyLeft(const Host& host) const {
  const bool says = Leaving(host) && !host.status.trouble().empty();
  return says ? absl::StrCat("asked to leave: ", host.status.trouble()) : "asked to leave";
}

bool Coordinator::WasMember(const Host& host) const {
  return Claims(host) || (IsSet(greatest_.id()) && Same(host.round.id(), greatest_.id()));
}

// A node that was asked to leave after its success may report both at once, and processes that its workers left
// behind may still be ending.
bool Coordinator::LeavesAfterSuccess(const Host& host) const {
  return Claims(host) && Leaving(host) && host.status.outcome() == v1::OUTCOME_SUCCEEDED;
}

// The outcome decides, not the phase: the node may have applied a STOP since, be leaving, have lost its main
// process, or have a process that cannot be ended. Processes that its workers left behind must have ended, unless
// they cannot be ended.
bool Coordinator::HasSucceeded(const Host& host) const {
  if (!Claims(host)) return false;
  return host.status.outcome() == v1::OUTCOME_SUCCEEDED && (Idle(host) || Unusable(host));
}

// A reported success stays valid wherever its node is now. While recovering, all attached members must follow this
// epoch: until then another coordinator may have a later round for them.
bool Coordinator::EveryNodeSucceeded() const {
  if (!IsSet(greatest_.id()) || static_cast<int>(succeeded_.size()) != greatest_.node_count()) return false;
  if (state_ != State::kRecovering) return true;
  return std::all_of(hosts_.begin(), hosts_.end(), [this](const auto& entry) {
    const Host& host = entry.second;
    return host.stream == 0 || !Claims(host) || Fresh(host);
  });
}

// A drain because of a disconnected member stops the others early. If all attached members have succeeded there
// are no workers to stop, and the disconnected one may return within its lease, finished or still running.
bool Coordinator::OnlyAbsentNodesRun() const {
  if (succeeded_.empty()) return false;
  return std::all_of(hosts_.begin(), hosts_.end(), [](const auto& entry) {
    const Host& host = entry.second;
    return !host.in_round || host.stream == 0 || host.succeeded;
  });
}

const Coordinator::Host* Coordinator::HolderOf(int place) const {
  const auto it = holders_.find(place);
  if (it == holders_.end()) return nullptr;
  const auto host = hosts_.find(it->second);
  return host == hosts_.end() ? nullptr : &host->second;
}

bool Coordinator::CannotStart(const Host& host) const {
  return host.status.has_cannot_start() && IsTrainer(host) && first_round_;
}

int Coordinator::CannotStart() const {
  return static_cast<int>(std::count_if(hosts_.begin(), hosts_.end(), [this](const auto& entry) {
    const Host& host = entry.second;
    return host.stream != 0 && HoldsPlace(host) && CannotStart(host);
  }));
}

bool Coordinator::IsReady(const Host& host) const {
  return host.stream != 0 && !host.status.has_cannot_start() && host.status.phase() == v1::PHASE_READY &&
         StatusIsCurrent(host) && !host.status.offer().host().empty();
}

bool Coordinator::HoldsPlace(const Host& host) const {
  return !host.status.has_place() || HolderOf(host.status.place()) == &host;
}

bool Coordinator::RunsSomething(const Host& host) const { return !Idle(host) && !Unusable(host); }

bool Coordinator::Idle(const Host& host) const {
  return !IsActive(host.status.phase()) && host.status.live_workers() == 0;
}

bool Coordinator::Progressed(const Host& host) const { return Claims(host) && host.status.progressed(); }

bool Coordinator::SomeProgressed() const {
  const auto progressed = [this](const auto& entry) { return Progressed(entry.second); };
  return progressed_ || std::any_of(hosts_.begin(), hosts_.end(), progressed);
}

bool Coordinator::WatchesProgress(const Host& host) const {
  return Claims(host) && host.status.watches_progress();
}

bool Coordinator::ProgressWatched() const {
  const auto watches = [this](const auto& entry) { return WatchesProgress(entry.second); };
  return progress_watched_ || std::any_of(hosts_.begin(), hosts_.end(), watches);
}

bool Coordinator::SetAside(const std::string& host_id, BootTime now) const {
  const auto it = counts_.excluded.find(host_id);
  return it != counts_.excluded.end() && now < it->second;
}

// With no live worker the node is not fit, and its report already contains its hostname; otherwise old workers
// cannot be ended.
std::string Coordinator::WhyUnusable(const v1::AgentStatus& status) {
  const std::string why = CutUtf8(status.trouble(), kMaxTroubleText);
  return status.live_workers() == 0 ? why : absl::StrCat(status.hostname(), " is unusable: ", why);
}

std::string Coordinator::WhoIsNotReady() const {
  std::string text;
  int count = 0;
  for (const auto& [id, host] : hosts_) {
    const v1::AgentStatus& s = host.status;
    const bool prepares = s.phase() == v1::PHASE_READY && !s.preparing().empty();
    const bool broken = s.has_cannot_start();
    if (!IsTrainer(host) || host.stream == 0 || !(prepares || broken || Unusable(host))) continue;
    if (++count > kMaxUnusableNamed) continue;
    const std::string why =
        broken     ? absl::StrCat(s.hostname(), " cannot start: ", Foreign(s.cannot_start().error_text()))
        : prepares ? absl::StrCat(s.hostname(), ": ", CutUtf8(s.preparing(), kMaxTroubleText))
                   : WhyUnusable(s);
    absl::StrAppend(&text, text.empty() ? "" : "; ", why);
  }
  if (count > kMaxUnusableNamed) absl::StrAppend(&text, "; and ", count - kMaxUnusableNamed, " more");
  return text;
}

// The primary leaves last: it waits, at most kReleaseLimit, for the other nodes to apply RELEASE and close their
// streams, or to reconnect and do so.
bool Coordinator::OthersAttached(const Host& host) const {
  if (state_ == State::kReleasing && last_event_ > state_since_ + kReleaseLimit) return false;
  for (const auto& [id, other] : hosts_) {
    if (&other == &host) continue;
    if (state_ == State::kReleasing || (other.stream != 0 && !Idle(other))) return true;
  }
  return AwaitsLatecomers();
}

// The nodes of a job start at about the same time, but a job of MIN:MAX nodes may be over before the last node has
// connected. That node would find no coordinator and wait for --join-timeout, so the primary stays until
// kLatecomers after its own start. A job that took longer, was cancelled or asked to leave, or never had a round
// ends at once. So does one whose coordinator had a predecessor: it does not know which nodes were there before.
bool Coordinator::AwaitsLatecomers() const {
  if (state_ != State::kReleasing || had_predecessor_ || primary_leaves_ || !cancelled_on_.empty()) return false;
  if (!IsSet(greatest_.id())) return false;
  return last_event_ < began_ + kLatecomers && places_seen_.size() < options_.place_names.size();
}

// Most of these nodes connect within moments: only a noticeable wait is logged.
void Coordinator::LogAwaitedNodes(BootTime now, Effects* out) {
  if (awaited_nodes_logged_ || !AwaitsLatecomers() || now < state_since_ + kNoticeableWait) return;
  awaited_nodes_logged_ = true;
  std::vector<std::string> absent;
  for (int place = 0; place < static_cast<int>(options_.place_names.size()); ++place) {
    if (places_seen_.count(place) == 0) absent.push_back(PlaceName(place));
  }
  Say(Severity::kInfo,
      absl::StrCat("the job is over; waiting up to ",
                   absl::FormatDuration(absl::Ceil(began_ + kLatecomers - now, absl::Seconds(1))),
                   " to tell nodes that have not joined yet: ", JoinAtMost(absent, kMaxAbsentNamed)),
      out);
}

std::set<int> Coordinator::AccountedFor() const {
  std::set<int> accounted = succeeded_and_departed_;
  for (const auto& [id, host] : hosts_) {
    if (host.in_round) accounted.insert(host.round.node_rank());
  }
  return accounted;
}

int Coordinator::MembersMissing() const {
  return greatest_.node_count() - static_cast<int>(AccountedFor().size());
}

std::string Coordinator::MissingNames() const {
  const std::set<int> accounted = AccountedFor();
  std::vector<std::string> names;
  for (int rank = 0; rank < greatest_.node_count(); ++rank) {
    if (accounted.count(rank) == 0) names.push_back(absl::StrCat("node ", rank));
  }
  return JoinAtMost(names, kMaxAbsentNamed);
}

std::string Coordinator::PlaceName(int place, const std::string& detail) const {
  std::vector<std::string> about;
  if (place < static_cast<int>(options_.place_names.size())) {
    about.push_back(options_.place_names[static_cast<size_t>(place)]);
  }
  if (!detail.empty()) about.push_back(detail);
  const std::string number = absl::StrCat("node ", place);
  return about.empty() ? number : absl::StrCat(number, " (", absl::StrJoin(about, "; "), ")");
}

std::string Coordinator::WhyNotReady(const Host& host) const {
  if (Unusable(host)) return "";  // WhoIsNotReady reports it
  if (Leaving(host)) return "leaving";
  if (host.stream == 0) return "disconnected";
  if (!Idle(host)) return "stopping its workers";
  if (!host.status.preparing().empty()) return "";  // WhoIsNotReady reports it
  if (host.status.phase() == v1::PHASE_READY && host.status.offer().host().empty()) {
    // A primary learns the address at which other nodes reach it from the first member's connection.
    return host.status.at_primary() ? "ready once another node has joined"
                                    : "no port reserved for its workers, see its log";
  }
  return "";
}

std::string Coordinator::HowManyAreReady(int ready) const {
  std::string result = absl::StrCat(std::min(ready, options_.max_nodes), " of ", options_.max_nodes,
                                    options_.max_nodes == 1 ? " node ready" : " nodes ready");
  for (const std::string& more : {WhoIsNotReady(), PlacesClaimedTwice()}) {
    if (!more.empty()) absl::StrAppend(&result, "; ", more);
  }
  return result;
}

// A replacement for a dead node stands by, too, until that node is confirmed dead or its lease has ended. Only a
// holder that still sends statuses well after the other node attached is alive.
const Coordinator::Host* Coordinator::RivalOf(const Host& host) const {
  if (host.stream == 0 || !host.status.has_place() || !IsTrainer(host)) return nullptr;
  const Host* const holder = HolderOf(host.status.place());
  if (holder == nullptr || holder == &host || holder->stream == 0) return nullptr;
  if (Leaving(*holder) || Unusable(*holder)) return nullptr;
  return holder->last_status_at >= host.attached_at + kRivalAfter ? holder : nullptr;
}

std::string Coordinator::DescribeRivals(const Host& holder, const Host& host) const {
  const std::string &one = holder.status.hostname(), &other = host.status.hostname();
  return absl::StrCat(one == other ? absl::StrCat("two processes on ", one) : absl::StrCat(one, " and ", other),
                      " both claim ", PlaceName(host.status.place()));
}

std::string Coordinator::PlacesClaimedTwice() const {
  if (contenders_.size() == holders_.size()) return "";  // the usual case, without a loop
  std::vector<std::string> claims;
  for (const auto& [place, id] : contenders_) {
    const auto host = hosts_.find(id);
    const Host* const holder = host == hosts_.end() ? nullptr : RivalOf(host->second);
    if (holder != nullptr) claims.push_back(DescribeRivals(*holder, host->second));
  }
  if (claims.empty()) return "";
  return absl::StrCat(JoinAtMost(claims, kMaxUnusableNamed), "; give each node its own --node-rank");
}

// The node that stands by hears it in its WAIT; this puts it into the primary's log, too.
void Coordinator::SayWhoClaimsOnePlace(Effects* out) {
  if (contenders_.size() == holders_.size()) return;
  for (const auto& claim : contenders_) {
    const auto host = hosts_.find(claim.second);
    const Host* const holder = host == hosts_.end() ? nullptr : RivalOf(host->second);
    if (holder == nullptr || rivals_told_.size() >= kMaxRivalsTold || !rivals_told_.insert(claim).second) continue;
    Say(Severity::kWarning,
        absl::StrCat(DescribeRivals(*holder, host->second), "; the later one, on ", host->second.status.hostname(),
                     ", stands by; unless that is intended, give each node its own --node-rank"),
        out);
  }
}

// If nodes are missing they are the reason, because they delay the round for longer than the wait after a start.
std::string Coordinator::WhyNoRoundYet(int ready) const {
  if (ready < options_.min_nodes) return HowManyAreReady(ready);
  if (!options_.leased()) return "the coordinator has just started";
  return absl::StrCat("the coordinator has just started; allowing up to ", absl::FormatDuration(options_.lease),
                      " for workers of an earlier start to end");
}

std::string Coordinator::WhyWaiting() const { return absl::StrCat(last_why_, DescribeRefusals()); }

std::string Coordinator::DescribeRefusals() const {
  if (refusals_.empty()) return "";
  return absl::StrCat("; refused: ", absl::StrJoin(refusals_, ", "), more_refusals_ ? " and others" : "");
}

std::string Coordinator::Waiting() const {
  if (state_ != State::kRecovering && state_ != State::kGathering) return "";
  const std::vector<std::string> absent = AbsentPlaces();
  return absl::StrCat(WhyWaiting(), absent.empty() ? "" : "; missing: ", JoinAtMost(absent, kMaxAbsentNamed));
}

// Places, and hosts without a place, that are not ready, with the reason where it is known. Where no node has a
// number the remaining ones are only counted.
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
  for (const auto& [id, host] : hosts_) {  // attached nodes that WhoIsNotReady reports
    const bool told = Unusable(host) || host.status.has_cannot_start();
    if (!IsTrainer(host) || host.stream == 0 || !told || !HoldsPlace(host)) continue;
    if (host.status.has_place()) {
      present.insert(host.status.place());
    } else {
      ++unplaced;
    }
  }
  int missing = options_.max_nodes - static_cast<int>(present.size()) - unplaced;
  for (const auto& [id, host] : hosts_) {
    const std::string why = IsTrainer(host) && !host.status.has_place() ? WhyNotReady(host) : "";
    if (why.empty() || missing <= 0) continue;
    absent.push_back(absl::StrCat(host.status.hostname(), " (", why, ")"));
    --missing;
  }
  const bool numbered =
      !options_.place_names.empty() ||
      std::any_of(hosts_.begin(), hosts_.end(), [](const auto& h) { return h.second.status.has_place(); });
  // In front, because only the first entries are sent.
  if (!numbered && missing > 0)
    absent.insert(absent.begin(), absl::StrCat(missing, missing == 1 ? " more node" : " more nodes"));
  for (int place = 0; numbered && place < options_.max_nodes && missing > 0; ++place) {
    if (present.count(place) > 0) continue;
    const Host* const holder = HolderOf(place);
    const std::string why = holder == nullptr ? "" : WhyNotReady(*holder);
    absent.push_back(PlaceName(place, why.empty() ? "" : absl::StrCat(holder->status.hostname(), ": ", why)));
    --missing;
  }
  return absent;
}

}  // namespace muster::rendezvous
