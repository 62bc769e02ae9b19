#include "rendezvous/core/conditions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/progress.h"
#include "rendezvous/core/snapshot.h"

namespace muster::rendezvous {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);

std::string InSeconds(absl::Duration time) { return absl::FormatDuration(absl::Trunc(time, absl::Seconds(1))); }

std::string RestartStorm(BootTime now, const Job& job) {
  int count = 0;
  std::string last;
  for (const EndedRound& round : job.history.newest()) {
    const bool failed =
        round.end == EndCause::kWorkerFailure || (round.end == EndCause::kNodeLoss && !round.was_ordered);
    if (!failed || round.trouble <= now - kStormWindow) continue;
    ++count;
    last = round.cause;
  }
  if (count < kStormRestarts) return "";
  return absl::StrCat(count, " rounds have failed within ", absl::FormatDuration(kStormWindow),
                      "; the last one: ", last);
}

std::string BudgetLow(BootTime now, const Job& job) {
  return absl::StrJoin(UsedUpBudgets(BudgetsLeft(now, job)), "; ");
}

const Host* Suspect(const Job& job) {
  const RestartLedger& counts = job.greatest.counts;
  return counts.culprit_streak < kSuspectStreak ? nullptr : job.hosts.Find(counts.culprit);
}

}  // namespace

void Conditions::Tell(BootTime now, const char* name, const std::string& text, const NoteSubject& about,
                      Effects* out) {
  if (text.empty()) return;
  const auto [told, is_first] = told_.emplace(name, now);
  if (!is_first && now < told->second + kTellAgain) return;
  told->second = now;
  NoteSubject subject = about;
  subject.event = name;
  Say(Severity::kWarning, text, out, subject);
}

// Once the last of them has taken a lost node's place. Nodes that come while a job grows wait as spares, too.
std::string Conditions::SparesGone(BootTime now, const Job& job) {
  if (job.state != State::kRunning) return "";
  const bool has_spares = std::any_of(job.hosts.begin(), job.hosts.end(),
                                      [&](const auto& entry) { return IsSpare(now, job, entry.second); });
  if (has_spares) spares_in_round_ = job.greatest.number();
  const uint64_t had_spares_in = has_spares ? 0 : std::exchange(spares_in_round_, 0);
  if (had_spares_in == 0 || had_spares_in == job.greatest.number()) return "";
  const auto& ended = job.history.newest();
  if (ended.empty() || ended.back().end != EndCause::kNodeLoss) return "";
  return "no spare node is left to take a lost node's rank";
}

std::string Conditions::WaitsLong(BootTime now, const Job& job) {
  if (job.state == State::kRunning) ran_at_ = now;
  const BootTime since = std::max(ran_at_, job.began);
  if (now < since + kLongWait) return "";
  const std::string why = Waiting(job);
  return absl::StrCat("no round has run for ", InSeconds(now - since), why.empty() ? "" : ": ", why);
}

void Conditions::OnTick(BootTime now, const Job& job, Effects* out) {
  if (job.IsOver() || now < looked_at_ + kLookEvery) return;
  looked_at_ = now;
  const NoteSubject round{.round = job.greatest.IsKnown() ? static_cast<int64_t>(job.greatest.number()) : -1};
  Tell(now, events::kStalled, DescribeOddSilence(now, job), round, out);
  Tell(now, events::kRestartStorm, RestartStorm(now, job), round, out);
  Tell(now, events::kBudgetLow, BudgetLow(now, job), round, out);
  Tell(now, events::kSparesExhausted, SparesGone(now, job), round, out);
  Tell(now, events::kWaitingLong, WaitsLong(now, job), round, out);
  const Host* const suspect = Suspect(job);
  if (suspect == nullptr) return;
  Tell(now, events::kNodeSuspect,
       absl::StrCat(suspect->Name(), " was the root cause of the last ", job.greatest.counts.culprit_streak,
                    " failures in a row"),
       {.node_rank = suspect->part.round.node_rank(), .round = round.round, .host = suspect->status.hostname()},
       out);
}

}  // namespace muster::rendezvous
