#include "rendezvous/core/hung_ranks.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/stacks/places.h"
#include "base/stacks/snapshot_message.h"
#include "base/stacks/snapshot_text.h"
#include "base/stacks/suspects.h"
#include "base/text/duration.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

// Whether its host counts for how long its workers have been silent, and has said so lately.
bool IsWatched(BootTime now, absl::Duration freshness, const Job& job, const Host& host) {
  return host.IsAttached() && job.Claims(host) && host.status.has_quiet_ms() &&
         now <= host.last_status_at + freshness;
}

bool HasAnswered(const Job& job, const Host& host) {
  return job.hang.question != 0 && host.status.snapshot().number() == job.hang.question;
}

// Whether it is a rank of a member whose workers have not all ended.
bool MayBeEnded(const Job& job, int rank) {
  return std::any_of(job.hosts.begin(), job.hosts.end(), [rank](const auto& entry) {
    return RunsWorkers(entry.second) && entry.second.HasRank(rank);
  });
}

int LowestRunning(const Job& job) {
  const int most = job.greatest.round.world_size();
  int lowest = most;
  for (const auto& [id, host] : job.hosts) {
    if (RunsWorkers(host)) lowest = std::min(lowest, host.part.round.first_rank());
  }
  return lowest == most ? 0 : lowest;
}

const RankSnapshot* Find(const std::vector<RankSnapshot>& ranks, int rank) {
  const auto found =
      std::find_if(ranks.begin(), ranks.end(), [rank](const auto& one) { return one.rank == rank; });
  return found == ranks.end() ? nullptr : &*found;
}

// The first of them that lives, as far as snapshots show it.
std::optional<int> FirstLive(const Job& job, const std::vector<RankSnapshot>& ranks,
                             const std::vector<int>& among) {
  const auto live = std::find_if(among.begin(), among.end(), [&](int rank) {
    const RankSnapshot* const snapshot = Find(ranks, rank);
    return snapshot != nullptr && !snapshot->ended && MayBeEnded(job, rank);
  });
  return live == among.end() ? std::nullopt : std::optional(*live);
}

// Where the first suspect stands, after the words of why they are suspects.
std::string PlaceOf(const Suspects& suspects, const RankSnapshot* first) {
  if (first == nullptr) return "";
  return suspects.by_state ? WhereBesideState(*first) : absl::StrCat(", ", WhereIs(*first));
}

std::vector<int> NumbersOf(const std::vector<RankSnapshot>& ranks) {
  std::vector<int> numbers;
  for (const RankSnapshot& rank : ranks) numbers.push_back(rank.rank);
  return numbers;
}

}  // namespace

Silence SilenceOf(BootTime now, absl::Duration freshness, const Job& job) {
  Silence silence{.time = absl::InfiniteDuration()};
  for (const auto& [id, host] : job.hosts) {
    if (!host.part.in_round) continue;
    silence.learned = std::max(silence.learned, absl::Milliseconds(host.status.learned_silence_ms()));
    if (job.Claims(host)) {
      silence.signs = std::max(silence.signs, host.status.signs());
    } else if (!host.part.succeeded) {
      silence.time.reset();  // its workers have not started: the others may wait for them
    }
    if (!RunsWorkers(host)) continue;
    ++silence.running;
    if (!IsWatched(now, freshness, job, host)) {
      silence.time.reset();
    } else if (silence.time) {
      silence.time = std::min(*silence.time, absl::Milliseconds(host.status.quiet_ms()));
    }
  }
  if (silence.running == 0) silence.time = absl::ZeroDuration();
  return silence;
}

std::string DescribeSilence(const Job& job) {
  const StallJudge& judge = job.hang.judge;
  return absl::StrCat("no worker has shown a sign of life for ", muster::FormatDuration(judge.limit()),
                      judge.is_warm() ? " (--hang-timeout)" : " (--start-timeout)");
}

std::string DescribeColdSilence(const Job& job) {
  const StallJudge& judge = job.hang.judge;
  return absl::StrCat("no worker has shown a sign of life for ", muster::FormatDuration(judge.warm_limit()),
                      " (--hang-timeout), but this round is not warm yet: it takes ", kWarmUpSigns,
                      " separate tenths of that time with signs, and ", judge.signs(),
                      " have been seen; until then it may be silent for ", muster::FormatDuration(judge.limit()),
                      " (--start-timeout); muster stacks shows where its workers stand");
}

bool AllHaveAnswered(const Job& job) {
  return std::all_of(job.hosts.begin(), job.hosts.end(), [&job](const auto& entry) {
    return !RunsWorkers(entry.second) || HasAnswered(job, entry.second);
  });
}

bool RunsWorkers(const Host& host) { return host.part.in_round && !host.part.succeeded && !host.IsIdle(); }

std::vector<RankSnapshot> RanksIn(const Job& job, const AnswerOf& answer_of) {
  std::map<int, RankSnapshot> by_rank;
  for (const auto& [id, host] : job.hosts) {
    const v1::NodeSnapshot* const answer = host.part.in_round ? answer_of(host) : nullptr;
    if (answer == nullptr) continue;
    const int first = host.part.round.first_rank();
    for (RankSnapshot& rank : FromMessage(*answer, first)) {
      // A node speaks of its own ranks, and once of each.
      if (rank.rank < first + host.part.workers) by_rank.emplace(rank.rank, std::move(rank));
    }
  }
  std::vector<RankSnapshot> all;
  for (auto& [number, rank] : by_rank) all.push_back(std::move(rank));
  return all;
}

std::vector<RankSnapshot> SnapshotsOf(const Job& job) {
  return RanksIn(job,
                 [&job](const Host& host) { return HasAnswered(job, host) ? &host.status.snapshot() : nullptr; });
}

Finding FindHung(const Job& job) {
  const std::vector<RankSnapshot> ranks = SnapshotsOf(job);
  const Suspects suspects = FindSuspects(ranks);
  Finding finding;
  finding.lines = SnapshotLines(ranks);
  const std::optional<int> suspect = FirstLive(job, ranks, suspects.ranks);
  finding.is_sure = suspect && suspects.ranks.size() == 1 && !suspects.is_weak;
  finding.rank = suspect ? *suspect : FirstLive(job, ranks, NumbersOf(ranks)).value_or(LowestRunning(job));
  if (suspects.ranks.empty()) {
    finding.why = absl::StrCat(DescribeSilence(job), "; ", suspects.why);
    return finding;
  }
  finding.why = absl::StrCat(DescribeSilence(job), "; ", Describe(suspects),
                             PlaceOf(suspects, Find(ranks, suspects.ranks.front())));
  return finding;
}

std::optional<SeenFailure> FailureOfHang(const Job& job) {
  if (!job.hang.kill_order) return std::nullopt;
  const int rank = job.hang.kill_order->rank();
  SeenFailure seen;
  seen.at = job.hang.kill_ordered_at;
  seen.failure.set_hung(true);
  seen.failure.set_hung_for_all(!job.hang.kill_order->is_sure());
  *seen.failure.mutable_round() = job.hang.kill_order->round();
  seen.failure.set_rank(rank);
  seen.failure.set_signal(SIGKILL);
  seen.failure.set_error_text(job.hang.kill_order->why());
  for (const auto& [id, host] : job.hosts) {
    if (!host.HasRank(rank)) continue;
    seen.host_id = id;
    seen.failure.set_host(Foreign(host.status.hostname()));
    seen.failure.set_node_rank(host.part.round.node_rank());
    seen.failure.set_local_rank(rank - host.part.round.first_rank());
  }
  return seen;
}

}  // namespace muster::rendezvous
