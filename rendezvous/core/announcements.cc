#include "rendezvous/core/announcements.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/duration.h"
#include "base/text/text.h"
#include "base/wire/takeover.h"
#include "rendezvous/core/drain.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/progress.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kMaxSlowNamed = 8;  // ranks

// All nodes must reach the master address. A node that uses the other address family may not, and would hang
// without an explanation.
void NameMixedFamilies(const std::vector<Candidate>& members, Effects* out) {
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

// "; the last lease ends in 8s (--lease)"; empty if that is over.
std::string Until(const std::string& what, BootTime at, BootTime now, const std::string& option) {
  if (at <= now) return "";
  return absl::StrCat("; ", what, " in ", absl::FormatDuration(absl::Ceil(at - now, absl::Seconds(1))), " (",
                      option, ")");
}

// "12 steps a minute"
std::string DescribeRate(int64_t rate, const char* what) {
  constexpr int64_t kPerMinute = 60;
  const int64_t tenths = rate * kPerMinute / 100;
  const std::string fraction = tenths < 100 ? absl::StrCat(".", tenths % 10) : "";
  return absl::StrCat(tenths / 10, fraction, " ", what, " a minute");
}

}  // namespace

void Announcements::OnTick(BootTime now, const Job& job, Effects* out) {
  NameRivals(job, out);
  NameAwaitedNodes(now, job, out);
  NameWhatHoldsUpDrain(now, job, out);
  NameSlowRanks(now, job, out);
}

// As early as the number of nodes is known, because a lease cannot be changed while the job runs.
void Announcements::OnLeaseCheck(const Job& job, Effects* out) {
  if (lease_is_checked_ || !job.options.leased()) return;
  const int nodes = std::max(job.options.max_nodes, static_cast<int>(job.hosts.size()));
  const absl::Duration needed = LeaseForNodes(nodes);
  if (job.options.lease >= needed || needed <= kDefaultLease) return;
  lease_is_checked_ = true;
  Say(Severity::kWarning,
      absl::StrCat(nodes, " nodes cannot all reconnect to a restarted coordinator within a lease of ",
                   muster::FormatDuration(job.options.lease),
                   ", so their workers would be restarted; set --lease ", muster::FormatDuration(needed),
                   " on all nodes"),
      out);
}

void Announcements::OnMembers(const Job& job, const std::vector<Candidate>& members, Effects* out) {
  NameMixedFamilies(members, out);
  NameDifferences(job, members, out);
}

void Announcements::OnExcluded(const Job& job, Effects* out) const {
  for (const auto& [host_id, until] : job.counts.excluded) {
    const Host* const host = job.hosts.Find(host_id);
    if (host == nullptr || job.greatest.counts.excluded.count(host_id) > 0) continue;
    Say(Severity::kWarning,
        absl::StrCat(host->Name(), " was the root cause ", job.options.exclude_after,
                     job.options.exclude_after == 1 ? " time" : " times",
                     " in a row (--exclude-after); excluding it for ",
                     absl::FormatDuration(job.options.exclude_for), " unless too few other nodes are ready"),
        out,
        {.event = events::kNodeSetAside,
         .node_rank = host->part.round.node_rank(),
         .host = host->status.hostname()});
  }
}

// The node that stands by hears it in its WAIT; this puts it into the primary's log, too.
void Announcements::NameRivals(const Job& job, Effects* out) {
  for (const Hosts::Rivalry& rivalry : job.hosts.Rivalries()) {
    const v1::AgentStatus& other = rivalry.other->status;
    if (rivals_told_.size() >= kMaxRivalsTold || !rivals_told_.emplace(other.place(), other.host_id()).second) {
      continue;
    }
    Say(Severity::kWarning,
        absl::StrCat(DescribeRivalry(job, rivalry), "; the later one, on ", other.hostname(),
                     ", stands by; unless that is intended, give each node its own --node-rank"),
        out);
  }
}

void Announcements::NameSlowRanks(BootTime now, const Job& job, Effects* out) {
  if (job.state != State::kRunning) {
    compared_round_ = 0;
  } else if (std::exchange(compared_round_, job.greatest.number()) != job.greatest.number()) {
    by_lines_.BeginRound(now);
    by_touches_.BeginRound(now);
  }
  if (compared_round_ == 0 || !by_lines_.IsDue(now)) return;
  if (const auto found = by_lines_.Compare(now, StepRates(now, job))) SayWhoIsSlow(*found, "steps", job, out);
  if (const auto found = by_touches_.Compare(now, TouchRates(now, job)))
    SayWhoIsSlow(*found, "heartbeats", job, out);
}

void Announcements::SayWhoIsSlow(const Stragglers::Finding& found, const char* what, const Job& job,
                                 Effects* out) {
  std::vector<std::string> slow;
  for (const auto& [rank, rate] : found.slow) {
    if (slow.size() == kMaxSlowNamed) break;
    const Host* const host = job.HostOf(rank);
    slow.push_back(absl::StrCat("rank ", rank, host == nullptr ? "" : absl::StrCat(" on ", host->Name()), " with ",
                                DescribeRate(rate, what)));
  }
  const size_t more = found.slow.size() - slow.size();
  Say(Severity::kWarning,
      absl::StrCat("slower than the others: ", absl::StrJoin(slow, ", "),
                   more > 0 ? absl::StrCat(" and ", more, " more") : "", "; the median rank makes ",
                   DescribeRate(found.median, what)),
      out, {.event = events::kSlowRanks, .rank = found.slow.front().rank});
}

// Most of these nodes connect within moments: only a noticeable wait is logged.
void Announcements::NameAwaitedNodes(BootTime now, const Job& job, Effects* out) {
  if (awaited_nodes_logged_ || !job.AwaitsLatecomers(now) || now < job.state_since + kNoticeableWait) return;
  awaited_nodes_logged_ = true;
  std::vector<std::string> absent;
  for (int place = 0; place < static_cast<int>(job.options.place_names.size()); ++place) {
    if (job.hosts.places_seen().count(place) == 0) absent.push_back(PlaceName(job, place));
  }
  Say(Severity::kInfo,
      absl::StrCat("the job is over; waiting up to ",
                   absl::FormatDuration(absl::Ceil(job.began + kLatecomers - now, absl::Seconds(1))),
                   " to tell nodes that have not joined yet: ", JoinAtMost(absent, kMaxAbsentNamed)),
      out);
}

// Most drains are over within moments: only a noticeable one is logged.
void Announcements::NameWhatHoldsUpDrain(BootTime now, const Job& job, Effects* out) {
  if (long_drain_logged_ || job.state != State::kDraining || now < job.state_since + kNoticeableWait) return;
  long_drain_logged_ = true;
  const std::string round = absl::StrCat("round ", job.greatest.number(), " ends");
  if (PredecessorsRoundMayRun(now, job)) {
    const absl::Duration left = absl::Ceil(PredecessorsLeasesEnd(job) - now, absl::Seconds(1));
    return Say(
        Severity::kInfo,
        absl::StrCat(round, "; waiting up to ", absl::FormatDuration(left),
                     " (--lease) before the next one: this coordinator has just started, and a node that has not "
                     "reached it may still run an earlier round"),
        out);
  }
  std::vector<std::string> names;
  BootTime kill_at = absl::InfinitePast(), leases_end = absl::InfinitePast();
  for (const auto& [id, host] : job.hosts) {
    if (!HoldsUpDrain(now, job, host)) continue;
    names.push_back(host.Name());
    const bool hears = host.IsAttached() && (host.IsLeaving() || HasAppliedStop(job, host));
    if (!hears) leases_end = std::max(leases_end, host.lease_until);
    // The grace period of a node that leaves is its own option (--termination-grace).
    if (host.IsAttached() && !host.IsLeaving()) kill_at = job.state_since + job.options.shutdown_grace;
  }
  if (names.empty()) return;
  Say(Severity::kInfo,
      absl::StrCat(
          round, "; waiting for workers to ", leases_end > now ? "stop or leases to expire on " : "end on ",
          JoinAtMost(names, kMaxAbsentNamed), Until("SIGKILL follows", kill_at, now, "--shutdown-timeout"),
          Until("the last lease ends", leases_end, now, "--lease")),
      out);
}

// Differences between nodes are the first thing to look at when a job behaves strangely.
void Announcements::NameDifferences(const Job& job, const std::vector<Candidate>& members, Effects* out) {
  std::vector<NodeFacts> nodes;
  std::vector<Facts> sizes(members.size());
  nodes.reserve(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    const Host& host = *job.hosts.Find(members[i].host_id);
    const v1::AgentStatus& s = host.status;
    nodes.push_back({absl::StrCat("node ", i, " (", s.hostname(), ")"),
                     s.has_place() ? absl::StrCat("place ", s.place()) : members[i].host_id, &host.facts});
    sizes[i]["the number of workers (--nproc-per-node)"] = absl::StrCat(s.slots());
  }
  for (const std::string& line : differences_.Of(nodes))
    Say(Severity::kWarning, line, out, {.event = events::kNodesDiffer});
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].facts = &sizes[i];
  // A hostfile may mean it so: no event, which would be an alert.
  for (const std::string& line : sizes_.Of(nodes)) Say(Severity::kInfo, line, out);
}

}  // namespace muster::rendezvous
