#include "rendezvous/core/hang.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/duration.h"
#include "base/picture/picture_message.h"
#include "base/picture/picture_text.h"
#include "base/picture/suspects.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

// Whether its host counts for how long its workers have been silent, and says so.
bool IsWatched(const Job& job, const Host& host) {
  return host.part.in_round && host.IsAttached() && job.Claims(host) && host.status.has_quiet_ms();
}

bool HasAnswered(const Job& job, const Host& host) {
  return job.hang.question != 0 && host.status.picture().number() == job.hang.question;
}

}  // namespace

void Hang::BeginRound() {
  judge.BeginRound();
  question = 0;
  is_said = false;
  sentence.reset();
}

Silence SilenceOf(const Job& job) {
  Silence silence{.shortest = absl::InfiniteDuration()};
  for (const auto& [id, host] : job.hosts) {
    if (!host.part.in_round) continue;
    if (job.Claims(host)) silence.signs = std::max(silence.signs, host.status.signs());
    if (host.part.succeeded || host.IsIdle()) continue;
    const bool watched = IsWatched(job, host);
    const absl::Duration quiet = watched ? absl::Milliseconds(host.status.quiet_ms()) : absl::ZeroDuration();
    silence.shortest = std::min(silence.shortest, quiet);
  }
  if (silence.shortest == absl::InfiniteDuration()) silence.shortest = absl::ZeroDuration();
  return silence;
}

std::string DescribeSilence(const Job& job) {
  return absl::StrCat("no worker has shown a sign of life for ", muster::FormatDuration(job.hang.judge.limit()),
                      " (--hang-timeout)");
}

bool AllHaveAnswered(const Job& job) {
  return std::all_of(job.hosts.begin(), job.hosts.end(), [&job](const auto& entry) {
    return !IsWatched(job, entry.second) || HasAnswered(job, entry.second);
  });
}

std::vector<RankPicture> PicturesOf(const Job& job) {
  std::map<int, RankPicture> by_rank;
  for (const auto& [id, host] : job.hosts) {
    if (!host.part.in_round || !HasAnswered(job, host)) continue;
    const int first = host.part.round.first_rank();
    for (RankPicture& rank : FromMessage(host.status.picture(), first)) {
      // A node speaks of its own ranks, and once of each.
      if (rank.rank < first + host.status.slots()) by_rank.emplace(rank.rank, std::move(rank));
    }
  }
  std::vector<RankPicture> all;
  for (auto& [number, rank] : by_rank) all.push_back(std::move(rank));
  return all;
}

Finding FindHung(const Job& job) {
  const std::vector<RankPicture> ranks = PicturesOf(job);
  Finding finding;
  finding.lines = PictureLines(ranks);
  const Suspects suspects = FindSuspects(ranks);
  if (suspects.ranks.empty()) {
    finding.why = absl::StrCat(DescribeSilence(job), "; no rank differs from the others");
    return finding;
  }
  finding.rank = suspects.ranks.front();
  const auto shown =
      std::find_if(ranks.begin(), ranks.end(), [&](const RankPicture& rank) { return rank.rank == finding.rank; });
  const bool stands = shown != ranks.end() && !shown->ended;
  finding.why = absl::StrCat(DescribeSilence(job), "; ", Describe(suspects), stands ? ", " : "",
                             stands ? WhereIs(*shown) : "");
  return finding;
}

}  // namespace muster::rendezvous
