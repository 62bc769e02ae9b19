#include "rendezvous/core/explain.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/next_round.h"

namespace muster::rendezvous {
namespace {

// "2 nodes"
std::string Count(int64_t count, const std::string& what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// "restart 2 of 3: "; empty before the first restart. Where --max-restarts does not bound the number, since node
// losses do not count for it and a restart window forgets: what --max-restarts and --max-node-losses leave.
std::string DescribeRestart(const Job& job) {
  const v1::Round& round = job.greatest.round;
  const CoordinatorOptions& options = job.options;
  if (round.restart_count() == 0) return "";
  const bool bounded = round.restart_count() == round.failures() && round.failures() <= options.max_restarts &&
                       options.restart_window == absl::InfiniteDuration();
  if (bounded) return absl::StrCat("restart ", round.restart_count(), " of ", options.max_restarts, ": ");
  const RestartLedger& counts = job.greatest.counts;
  const int failures = options.max_restarts - counts.FailuresInWindow(options);
  const int losses = options.max_node_losses - static_cast<int>(counts.losses.size());
  return absl::StrCat("restart ", round.restart_count(),
                      " (left: ", Count(std::max(0, failures), "worker failure"), ", ", std::max(0, losses),
                      losses == 1 ? " node loss" : " node losses", "): ");
}

std::string PlacesClaimedTwice(const Job& job) {
  std::vector<std::string> claims;
  for (const Hosts::Rivalry& rivalry : job.hosts.Rivalries()) claims.push_back(DescribeRivalry(job, rivalry));
  if (claims.empty()) return "";
  return absl::StrCat(JoinAtMost(claims, kMaxUnusableNamed), "; give each node its own --node-rank");
}

// A primary learns the address at which other nodes reach it from the first member's connection.
bool LacksOnlyItsAddress(const Host& host) {
  const v1::AgentStatus& s = host.status;
  const bool prepared = s.phase() == v1::PHASE_READY && s.preparing().empty() && !s.has_cannot_start();
  return host.IsAttached() && s.at_primary() && prepared && s.offer().host().empty() && s.offer().port() != 0;
}

// The primary that counts as ready, since it only waits for others as they do; nullptr: none. Where it would
// complete a round its address is what is missing, so it does not count.
const Host* PrimaryThatWaits(const Job& job, int ready) {
  const Host* const own = ready + 1 < job.options.min_nodes ? job.OwnHost() : nullptr;
  return own != nullptr && LacksOnlyItsAddress(*own) && job.hosts.HoldsPlace(*own) ? own : nullptr;
}

int CountWithPrimary(const Job& job, int ready) {
  return ready + (PrimaryThatWaits(job, ready) != nullptr ? 1 : 0);
}

// Empty: not known, or WhoIsNotReady reports it.
std::string WhyNotReady(const Host& host) {
  if (host.IsUnusable()) return "";
  if (host.IsLeaving()) return "leaving";
  if (!host.IsAttached()) return "disconnected";
  if (!host.IsIdle())
    return host.status.phase() == v1::PHASE_STOPPING ? "stopping its workers" : "its workers run";
  if (!host.status.preparing().empty()) return "";
  if (LacksOnlyItsAddress(host)) return "ready once another node has joined";
  const bool without_port = host.status.phase() == v1::PHASE_READY && host.status.offer().host().empty();
  return without_port ? "no port reserved for its workers, see its log" : "";
}

bool Prepares(const v1::AgentStatus& status) {
  return status.phase() == v1::PHASE_READY && !status.preparing().empty();
}

// True for hosts that WhoIsNotReady lists: connected, but unusable, preparing or unable to start.
bool IsThereButNotReady(const Host& host) {
  return host.IsTrainer() && host.IsAttached() &&
         (Prepares(host.status) || host.status.has_cannot_start() || host.IsUnusable());
}

// Who is not missing: by place, and the number of those that have none.
struct Present {
  std::set<int> places;
  int unplaced = 0;
  const Host* primary = nullptr;  // counts as ready

  void Add(std::optional<int> place) {
    if (place) {
      places.insert(*place);
    } else {
      ++unplaced;
    }
  }
};

Present WhoIsPresent(const Job& job) {
  Present present;
  const std::vector<Candidate> ready = ReadyCandidates(job);
  for (const Candidate& c : ready) {
    present.Add(c.place >= 0 ? std::optional<int>(c.place) : std::nullopt);
  }
  present.primary = PrimaryThatWaits(job, static_cast<int>(ready.size()));
  for (const auto& [id, host] : job.hosts) {
    if (&host != present.primary && (!IsThereButNotReady(host) || !job.hosts.HoldsPlace(host))) continue;
    present.Add(host.status.has_place() ? std::optional<int>(host.status.place()) : std::nullopt);
  }
  return present;
}

}  // namespace

// ---- why nodes wait -----------------------------------------------------------------------------------------

std::string Waiting(const Job& job) {
  if (job.state != State::kRecovering && job.state != State::kGathering) return "";
  const std::vector<std::string> absent = AbsentPlaces(job);
  return absl::StrCat(WhyWaiting(job), absent.empty() ? "" : "; missing: ", JoinAtMost(absent, kMaxAbsentNamed));
}

std::string WhyWaiting(const Job& job) { return absl::StrCat(job.why, job.refusals.Describe()); }

// The limit comes before the nodes, whose list may be long.
std::string HowManyAreReady(const Job& job, int ready, const std::string& limit) {
  const int all = job.options.max_nodes;
  std::string result = absl::StrCat(std::min(CountWithPrimary(job, ready), all), " of ", all,
                                    all == 1 ? " node ready" : " nodes ready");
  const char* const ends =
      job.CountCannotStart() > 0 ? "ends once the other nodes are here, or had time to come" : "";
  for (const std::string& more : {std::string(ends), limit, WhoIsNotReady(job), PlacesClaimedTwice(job)}) {
    if (!more.empty()) absl::StrAppend(&result, "; ", more);
  }
  return result;
}

// If nodes are missing they are the reason, because they delay the round for longer than the wait after a start.
std::string WhyNoRoundYet(const Job& job, int ready, const Arriving& arriving, absl::Duration wait) {
  if (ready < job.options.min_nodes)
    return HowManyAreReady(job, ready, HowGatheringEnds(job, ready, arriving, wait));
  if (!job.options.leased()) return "the coordinator has just started";
  return absl::StrCat("the coordinator has just started; allowing up to ", absl::FormatDuration(wait),
                      wait == job.options.lease ? " (--lease)" : " (--lease, --shutdown-timeout)",
                      " for workers of an earlier start to end");
}

std::string WhyRecovering(const Job& job, absl::Duration patience) {
  const bool by_lease = patience == job.options.lease + job.options.margin();
  const char* const option = by_lease ? " (--lease)" : patience == kUnleasedReturn ? "" : " (--rejoin-timeout)";
  return absl::StrCat("the coordinator is recovering round ", job.greatest.number(), "; its members have ",
                      absl::FormatDuration(patience), option, " to reconnect");
}

std::string WhyNoRoundRuns(const Job& job) {
  if (job.state == State::kRecovering && job.greatest.IsKnown())
    return "a new coordinator finds out what runs: ask again";
  if (job.state == State::kDraining) return absl::StrCat("round ", job.greatest.number(), " ends already");
  return job.state == State::kRunning ? "" : "no round runs";
}

std::string WhyPaused(const Job& job) {
  return absl::StrCat("the last ", job.counts.fast_failures, " rounds failed within ",
                      absl::FormatDuration(kFastFailure), " each; pausing ",
                      absl::FormatDuration(absl::Ceil(job.gathering.pause, absl::Milliseconds(100))),
                      " before the next one (--restart-delay)");
}

std::string TooFewNodes(BootTime now, const Job& job, int ready) {
  const std::vector<std::string> absent = AbsentPlaces(job);
  const std::string not_ready = WhoIsNotReady(job);
  const std::string claimed_twice = PlacesClaimedTwice(job);
  return absl::StrCat(
      "too few nodes: ", CountWithPrimary(job, ready), " of ", job.options.min_nodes, " ready within ",
      absl::FormatDuration(absl::Trunc(now - job.gathering.since, absl::Seconds(1))),
      job.gathering.first_round ? " (--join-timeout)" : " (--rejoin-timeout)",
      absent.empty() ? "" : "; missing: ", JoinAtMost(absent, kMaxAbsentNamed), not_ready.empty() ? "" : "; ",
      not_ready, claimed_twice.empty() ? "" : "; ", claimed_twice, job.refusals.Describe());
}

std::string WhoIsNotReady(const Job& job) {
  std::string text;
  int count = 0;
  for (const auto& [id, host] : job.hosts) {
    const v1::AgentStatus& s = host.status;
    if (!IsThereButNotReady(host)) continue;
    if (++count > kMaxUnusableNamed) continue;
    const std::string why =
        s.has_cannot_start()
            ? absl::StrCat(NodeName(job, host), " cannot start: ", Foreign(s.cannot_start().error_text()))
        : Prepares(s) ? absl::StrCat(NodeName(job, host), ": ", s.preparing())
                      : WhyUnusable(s);
    absl::StrAppend(&text, text.empty() ? "" : "; ", why);
  }
  if (count > kMaxUnusableNamed) absl::StrAppend(&text, "; and ", count - kMaxUnusableNamed, " more");
  return text;
}

std::vector<std::string> AbsentPlaces(const Job& job) {
  const Present present = WhoIsPresent(job);
  std::vector<std::string> absent;
  int missing = job.options.max_nodes - static_cast<int>(present.places.size()) - present.unplaced;
  for (const auto& [id, host] : job.hosts) {
    const bool is_named = host.IsTrainer() && !host.status.has_place() && &host != present.primary;
    const std::string why = is_named ? WhyNotReady(host) : "";
    if (why.empty() || missing <= 0) continue;
    absent.push_back(absl::StrCat(host.status.hostname(), " (", why, ")"));
    --missing;
  }
  const bool numbered =
      !job.options.place_names.empty() ||
      std::any_of(job.hosts.begin(), job.hosts.end(), [](const auto& h) { return h.second.status.has_place(); });
  // In front, because only the first entries are sent.
  if (!numbered && missing > 0)
    absent.insert(absent.begin(), absl::StrCat(missing, missing == 1 ? " more node" : " more nodes"));
  for (int place = 0; numbered && place < job.options.max_nodes && missing > 0; ++place) {
    if (present.places.count(place) > 0) continue;
    const Host* const holder = job.hosts.HolderOf(place);
    const std::string why = holder == nullptr ? "" : WhyNotReady(*holder);
    absent.push_back(PlaceName(
        job, place, holder == nullptr || why.empty() ? "" : absl::StrCat(holder->status.hostname(), ": ", why)));
    --missing;
  }
  return absent;
}

std::string PlaceName(const Job& job, int place, const std::string& detail) {
  std::vector<std::string> about;
  if (place < static_cast<int>(job.options.place_names.size())) {
    about.push_back(job.options.place_names[static_cast<size_t>(place)]);
  }
  if (!detail.empty()) about.push_back(detail);
  const std::string number = absl::StrCat("node ", place);
  return about.empty() ? number : absl::StrCat(number, " (", absl::StrJoin(about, "; "), ")");
}

std::string DescribeRivalry(const Job& job, const Hosts::Rivalry& rivalry) {
  const std::string &one = rivalry.holder->status.hostname(), &other = rivalry.other->status.hostname();
  return absl::StrCat(one == other ? absl::StrCat("two processes on ", one) : absl::StrCat(one, " and ", other),
                      " both claim ", PlaceName(job, rivalry.other->status.place()));
}

std::string NodeName(const Job& job, const Host& host) {
  if (job.WasMember(host)) return host.Name();
  const v1::AgentStatus& s = host.status;
  return s.has_place() ? absl::StrCat("node ", s.place(), " (", s.hostname(), ")") : s.hostname();
}

// From this status, or from an earlier one of the same host whose texts this status leaves out.
std::string WhyItCannotStart(const Job& job, const v1::AgentStatus& status) {
  const Host* const host = job.hosts.Find(status.host_id());
  const bool earlier = status.cannot_start().texts_left_out() && host != nullptr;
  const v1::Failure& failure = earlier ? host->status.cannot_start() : status.cannot_start();
  return failure.error_text().empty() ? "it cannot start its program" : Foreign(failure.error_text());
}

// ---- a round's beginning ------------------------------------------------------------------------------------

std::string DescribeStart(const Job& job, const std::string& why) {
  const v1::Round& round = job.greatest.round;
  return absl::StrCat(DescribeRestart(job), "starting ", Count(round.world_size(), "worker"), " on ",
                      Count(round.node_count(), "node"), ", round ", round.id().number(), ", master ",
                      ToString(round.master()), " (", why, ")");
}

std::string WhyPlaceIsTaken(BootTime now, absl::Duration beat, const Job& job, const Host& host,
                            const Host& holder) {
  const bool is_alive = job.hosts.RivalOf(host) != nullptr;
  const std::string& where = holder.status.hostname();
  // Two beats: one may be delayed.
  const BootTime silent_since = std::max(holder.silence_measured_from, host.attached_at + kRivalAfter);
  const bool is_open = holder.IsAttached() && now < silent_since + 2 * beat;
  if (!is_alive && is_open) {
    return absl::StrCat("another process on ", where, " has already joined as node ", host.status.place(),
                        "; finding out whether it is still alive");
  }
  if (is_alive) {
    return absl::StrCat("another process on ", where, " has already joined as node ", host.status.place(),
                        " and is running; unless this one is meant to stand by for it, check --node-rank here and "
                        "there");
  }
  const absl::Duration lease = job.options.leased() ? job.options.lease : absl::ZeroDuration();
  return absl::StrCat("node ", host.status.place(), " was a process on ", where,
                      " that does not answer any more; this one takes its place when ",
                      lease > absl::ZeroDuration()
                          ? absl::StrCat("its lease of ", absl::FormatDuration(lease), " (--lease) is surely over")
                          : "it is surely gone");
}

// Without the remaining time: the node logs each change of the reason.
std::string WhyExcluded(const Job& job) {
  return absl::StrCat("this node is excluded for ", absl::FormatDuration(job.options.exclude_for),
                      ": its workers were the root cause ", job.options.exclude_after,
                      job.options.exclude_after == 1 ? " time" : " times", " in a row (--exclude-after)");
}

std::string WhyHeldBack(BootTime now, const Job& job, const Host& host) {
  const std::string node = NodeFor(host, job.gathering.first_round);
  const absl::Duration left = absl::Ceil(job.crash_loops.HeldBackUntil(node) - now, absl::Seconds(1));
  return absl::StrCat(node == kNewNode ? node : "this node", " was lost ", job.crash_loops.LossesInARow(node),
                      " times in a row, soon after it had joined; it is held back for ",
                      absl::FormatDuration(left), " while the others suffice");
}

// ---- losses -------------------------------------------------------------------------------------------------

std::string HowLost(const Host& host) {
  switch (host.status.phase()) {
    case v1::PHASE_LEAVING:
      return absl::StrCat(host.Name(), " was ", host.WhyItLeft());
    case v1::PHASE_UNUSABLE:
      return absl::StrCat(host.Name(), " is unusable: ", host.status.trouble());
    default:
      return absl::StrCat(host.Name(), " was cut off: ", WhyLeaseEnded(host));
  }
}

// The primary's node always reaches the coordinator, so its lease depends on the answers of the other nodes.
std::string WhyLeaseEnded(const Host& host) {
  return host.status.at_primary() ? "its lease expired because no other node of the round answered"
                                  : "its lease expired";
}

std::string HowEnded(const Host& host) {
  const std::string& how = host.status.how_host_ended();
  return absl::StrCat(host.Name(), " was lost: ", how.empty() ? "its main process died" : how);
}

std::string HowVanished(BootTime now, const Job& job, const Host& host, const StartedLast& started) {
  std::string text = absl::StrCat(host.Name(), " was lost: no heartbeat for ",
                                  absl::FormatDuration(absl::Trunc(now - host.last_status_at, absl::Seconds(1))));
  if (const Host* again = started.After(host)) {
    const v1::Whereabouts& there = again->status.whereabouts();
    const bool same_kernel = there.machine() == host.status.whereabouts().machine();
    const bool same_container = there.container() == host.status.whereabouts().container();
    absl::StrAppend(
        &text,
        same_container ? "; its main process and agent died (restarted "
        : same_kernel  ? "; its container ended (a new one started "
                       : "; its machine ended (it or its replacement started ",
        absl::FormatDuration(absl::Trunc(again->joined_at - host.last_status_at, absl::Milliseconds(100))),
        " later)");
  }
  const v1::Failure& failure = host.status.failure();
  const bool told =
      host.status.has_failure() && !failure.after_our_signal() && Same(failure.round(), job.greatest.id());
  if (told) absl::StrAppend(&text, "; it last reported that ", DescribeFailure(failure));
  return text;
}

std::string HowPrimaryEnded(const Job& job) {
  const std::optional<int> rank = job.RankOfEndedPrimary();
  return rank ? absl::StrCat("node ", *rank, " was lost: its main process died") : "";
}

std::string WhoDidNotReturn(const Job& job) {
  return absl::StrCat(MissingNames(job), " (of ", job.greatest.node_count(),
                      " nodes) did not reconnect to this coordinator");
}

std::string MissingNames(const Job& job) {
  const std::set<int> accounted = job.AccountedFor();
  std::vector<std::string> names;
  for (int rank = 0; rank < job.greatest.node_count(); ++rank) {
    if (accounted.count(rank) == 0) names.push_back(absl::StrCat("node ", rank));
  }
  return JoinAtMost(names, kMaxAbsentNamed);
}

}  // namespace muster::rendezvous
