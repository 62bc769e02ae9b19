#include "agent/host/core/hang_watch.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/note.h"
#include "base/stacks/snapshot_message.h"
#include "base/stacks/snapshot_text.h"
#include "base/stacks/warm_up.h"
#include "base/text/duration.h"
#include "base/text/text.h"
#include "base/wire/ids.h"

namespace muster::host {

HangWatch::HangWatch(int64_t timeout_ms) : timeout_ms_(timeout_ms), clock_(LeastHang(timeout_ms) / kWarmUpSigns) {}

void HangWatch::BeginRound(BootTime now, const v1::Round& round, int workers) {
  round_ = round.id();
  first_rank_ = round.first_rank();
  sentence_.reset();
  due_.reset();
  signs_since_asked_ = signs_in_snapshot_ = false;
  stragglers_.clear();
  snapshot_.Clear();
  stacks_.Clear();
  if (timeout_ms_ != 0) clock_.BeginRound(now, workers);
}

void HangWatch::EndRound() {
  clock_.EndRound();
  snapshot_.Clear();
  stacks_.Clear();
}

void HangWatch::OnTick(BootTime now, Effects* out) {
  clock_.OnTick(now);
  const absl::Duration limit = LeastHang(timeout_ms_);
  for (const int local_rank : clock_.Stragglers(limit)) {
    if (!stragglers_.insert(local_rank).second) continue;
    Say(Severity::kWarning,
        absl::StrCat("worker rank ", first_rank_ + local_rank, " has shown no sign of life for ",
                     muster::FormatDuration(limit), "; others of this node have"),
        out, {.event = events::kHang, .rank = first_rank_ + local_rank});
  }
}

void HangWatch::OnSigns(const std::set<int>& local_ranks) {
  if (local_ranks.empty()) return;
  if (is_taken_ && with_recorders_) {
    signs_in_snapshot_ = true;
    return;
  }
  clock_.OnSigns(local_ranks);
  signs_since_asked_ = true;
}

Ending HangWatch::OnEnded(int local_rank, Ending ending) {
  clock_.OnEnded(local_rank);
  if (!sentence_ || sentence_->local_rank != local_rank) return ending;
  // The worker may handle SIGABRT and exit 0, or hang in its own exit after its work is done.
  if (ending.ok()) ending.by_signal = true;
  if (ending.number == 0) ending.number = SIGABRT;
  ending.done = false;
  if (ending.error_text.empty()) ending.error_text = CutUtf8(sentence_->why, kMaxErrorText);
  ending.hung = sentence_->is_sure ? Ending::Hung::kSuspect : Ending::Hung::kForAll;
  return ending;
}

void HangWatch::AskedBySignal(Effects* out) {
  by_signal_ = true;
  Take(true, std::nullopt, out);
}

void HangWatch::Take(bool with_recorders, std::optional<int> only, Effects* out) {
  if (std::exchange(is_taken_, true)) return;
  with_recorders_ = with_recorders;
  only_ = only;
  taken_of_ = round_;
  out->push_back(TakeSnapshot{first_rank_, with_recorders, only});
}

// Nothing is decided by it, so it must not count as a hang's question does: neither may signs of life be ignored
// meanwhile, however often people ask, nor may a flight recorder be written each time.
void HangWatch::TakeForPeople(const PeoplesQuestion& question, Effects* out) {
  people_ask_ = question;
  if (people_ask_.number == stacks_.number()) return;
  stacks_.Clear();
  if (people_ask_.number != 0) Take(false, people_ask_.only, out);
}

void HangWatch::OnDirective(BootTime now, const v1::HostDirective& directive, bool is_stopping, Effects* out) {
  learned_ = std::max(learned_, absl::Milliseconds(directive.learned_silence_ms()));
  const bool is_new = std::exchange(asked_, directive.snapshot()) != asked_ && asked_ != 0;
  if (is_new) signs_since_asked_ = signs_in_snapshot_ = false;
  if (asked_ != snapshot_.number()) snapshot_.Clear();
  if (asked_ != snapshot_.number()) Take(true, std::nullopt, out);
  TakeForPeople(
      {directive.stacks(), directive.has_stacks_of() ? std::optional<int>(directive.stacks_of()) : std::nullopt},
      out);
  const bool is_for_us = directive.has_hang() && Same(directive.hang().round(), round_);
  if (!is_for_us || is_stopping || signs_since_asked_ || sentence_) return due_.reset();
  if (!due_) due_ = signs_in_snapshot_ ? now + kSecondThought : now;
  if (now >= *due_) EndHung(directive.hang(), out);
}

// The coordinator names a worker of this node. If that one has ended meanwhile, the round is made to fail by
// another.
void HangWatch::EndHung(const v1::Hang& hang, Effects* out) {
  const std::optional<int> ended = clock_.LiveOne(hang.rank() - first_rank_);
  if (!ended) return;
  sentence_ = Sentence{*ended, hang.is_sure() && *ended == hang.rank() - first_rank_, hang.why()};
  out->push_back(EndHungWorker{*ended, hang.why()});
}

bool HangWatch::OnSnapshot(std::vector<RankSnapshot> ranks, Effects* out) {
  is_taken_ = false;
  if (!Same(taken_of_, round_)) {  // the ranks of a round that has ended meanwhile
    TakeAgainIfAsked(out);
    return false;
  }
  for (RankSnapshot& rank : ranks) {
    rank.idle = clock_.Of(rank.rank - first_rank_);
    rank.silent_so_far = clock_.IsSilentSoFar(rank.rank - first_rank_);
  }
  if (only_) {  // it answers nobody else
    const bool is_answered = AnswerPeople(ranks);
    TakeAgainIfAsked(out);
    return is_answered;
  }
  const bool is_news = AnswerPeople(ranks) || asked_ != snapshot_.number();
  // A hang is answered by what is there, since the coordinator does not wait for long; the flight recorders
  // follow.
  const bool lacks_recorders = !with_recorders_ && (by_signal_ || asked_ != snapshot_.number());
  if (asked_ != 0) snapshot_ = ToMessage(asked_, first_rank_, ranks);
  if (lacks_recorders) Take(true, std::nullopt, out);
  if (!with_recorders_ || lacks_recorders) {
    TakeAgainIfAsked(out);
    return is_news;
  }
  if (std::exchange(by_signal_, false)) {
    Say(Severity::kInfo, "stacks of this node's workers:", out, {.event = events::kStacks});
    for (const std::string& line : SnapshotLines(ranks))
      Say(Severity::kInfo, line, out, {.event = events::kStacks});
  }
  out->push_back(KeepSnapshot{SnapshotText(ranks)});
  TakeAgainIfAsked(out);
  return is_news;
}

// Returns whether these are what they asked for, and had not got.
bool HangWatch::AnswerPeople(const std::vector<RankSnapshot>& ranks) {
  if (people_ask_.number == 0 || people_ask_.only != only_) return false;
  const bool is_news = people_ask_.number != stacks_.number();
  stacks_ = ToMessage(people_ask_.number, first_rank_, ranks);
  return is_news;
}

void HangWatch::TakeAgainIfAsked(Effects* out) {
  if (by_signal_ || asked_ != snapshot_.number()) return Take(true, std::nullopt, out);
  if (people_ask_.number != stacks_.number()) Take(false, people_ask_.only, out);
}

void HangWatch::Describe(v1::HostStatus* status) const {
  if (const auto quiet = clock_.Silence()) status->set_quiet_ms(absl::ToInt64Milliseconds(*quiet));
  status->set_signs(clock_.signs());
  status->set_learned_silence_ms(absl::ToInt64Milliseconds(learned_));
  if (snapshot_.number() != 0) *status->mutable_snapshot() = snapshot_;
  if (snapshot_.number() == 0 && stacks_.number() != 0) *status->mutable_stacks() = stacks_;
}

}  // namespace muster::host
