#include "rendezvous/core/round_history.h"

#include <algorithm>

#include "base/core/note.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "base/wire/ranges.h"

namespace muster::rendezvous {
namespace {

EndCause EndCauseOf(int kind) {
  if (kind == v1::EndedRound::KIND_WORKER_FAILURE) return EndCause::kWorkerFailure;
  if (kind == v1::EndedRound::KIND_ASKED) return EndCause::kAsked;
  return kind == v1::EndedRound::KIND_NODE_LOSS ? EndCause::kNodeLoss : EndCause::kMembership;
}

// A member may tell anything.
absl::Duration Time(int64_t ms) { return absl::Milliseconds(std::max<int64_t>(0, ms)); }

EndedRound EndedRoundFrom(const v1::Recovery& told, BootTime next_began) {
  EndedRound round;
  round.number = told.ended_round();
  round.end = EndCauseOf(told.ended_kind());
  round.cause = CutUtf8(OneLine(told.cause()), kMaxEndCauseBytes);
  round.detecting = Time(told.detecting_ms());
  round.draining = Time(told.draining_ms());
  round.gathering = Time(told.gathering_ms());
  round.lost = round.detecting + round.draining + round.gathering;
  round.trouble = next_began - round.lost;
  if (told.has_ran_ms()) round.ran = Time(told.ran_ms());
  return round;
}

}  // namespace

v1::EndedRound::Kind KindOf(EndCause end) {
  switch (end) {
    case EndCause::kMembership:
      return v1::EndedRound::KIND_MEMBERSHIP;
    case EndCause::kWorkerFailure:
      return v1::EndedRound::KIND_WORKER_FAILURE;
    case EndCause::kNodeLoss:
      return v1::EndedRound::KIND_NODE_LOSS;
    case EndCause::kAsked:
      return v1::EndedRound::KIND_ASKED;
  }
  return v1::EndedRound::KIND_UNKNOWN;
}

v1::Recovery RecoveryFrom(const EndedRound& ended) {
  v1::Recovery told;
  told.set_detecting_ms(WireMilliseconds(ended.detecting));
  told.set_draining_ms(WireMilliseconds(ended.draining));
  told.set_gathering_ms(WireMilliseconds(ended.gathering));
  told.set_ended_round(ended.number);
  told.set_ended_kind(KindOf(ended.end));
  told.set_cause(CutUtf8(OneLine(ended.cause), kMaxEndCauseBytes));
  if (ended.ran) told.set_ran_ms(WireMilliseconds(*ended.ran));
  return told;
}

v1::Recovery StartAfter(const EndedRound& ended) {
  v1::Recovery told;
  told.set_ended_round(ended.number);
  if (ended.starting) told.set_starting_ms(WireMilliseconds(*ended.starting));
  return told;
}

void RoundHistory::OnEnd(const EndedRound& round) {
  if (is_open_ && newest_.back().number == round.number)
    newest_.pop_back();
  else
    (void)OnStart(round.trouble);
  newest_.push_back(round);
  first_here_ = std::min(first_here_, round.number);
  is_open_ = true;
  shows_nothing_since_.reset();
  if (newest_.size() <= kMaxRoundsKept) return;
  newest_.pop_front();
  ++earlier_;
}

bool RoundHistory::OnStart(BootTime now) {
  if (!is_open_) return false;
  is_open_ = false;
  EndedRound& ended = newest_.back();
  ended.lost = now - ended.trouble;
  ended.gathering = std::max(absl::ZeroDuration(), ended.lost - ended.detecting - ended.draining);
  lost_ += ended.lost;
  shows_nothing_since_ = now;
  ++restarts_[static_cast<size_t>(ended.end)];
  for (const std::string& node : ended.culprits) {
    if (caused_.size() < kMaxCulprits || caused_.count(node) > 0) ++caused_[node];
  }
  recoveries_.Add(RecoveryPhase::kDetect, ended.detecting);
  recoveries_.Add(RecoveryPhase::kDrain, ended.draining);
  recoveries_.Add(RecoveryPhase::kGather, ended.gathering);
  return true;
}

int64_t RoundHistory::RestartsCausedBy(const std::string& node) const {
  const auto found = caused_.find(node);
  return found == caused_.end() ? 0 : found->second;
}

EndedRound* RoundHistory::Find(uint64_t number) {
  const auto found = std::find_if(newest_.begin(), newest_.end(),
                                  [number](const EndedRound& round) { return round.number == number; });
  return found == newest_.end() ? nullptr : &*found;
}

void RoundHistory::Adopt(BootTime now, const google::protobuf::RepeatedPtrField<v1::Event>& held) {
  for (const v1::Event& event : held) {
    const v1::Recovery& told = event.recovery();
    if (told.ended_round() == 0 || told.ended_round() >= first_here_) continue;
    EndedRound* known = Find(told.ended_round());
    if (known == nullptr && event.name() == events::kRecovered && newest_.size() < kMaxRoundsKept) {
      const BootTime next_began = now - absl::Milliseconds(std::max<int64_t>(0, event.age_ms()));
      const EndedRound round = EndedRoundFrom(told, next_began);
      const auto after = std::find_if(newest_.begin(), newest_.end(),
                                      [&round](const EndedRound& other) { return other.number > round.number; });
      known = &*newest_.insert(after, round);
      lost_ += round.lost;
    }
    if (known != nullptr && !known->starting && told.has_starting_ms()) known->starting = Time(told.starting_ms());
  }
}

bool RoundHistory::OnSignOfLife(BootTime at) {
  if (!shows_nothing_since_ || newest_.empty()) return false;
  newest_.back().starting = std::max(absl::ZeroDuration(), at - *shows_nothing_since_);
  recoveries_.Add(RecoveryPhase::kStart, *newest_.back().starting);
  shows_nothing_since_.reset();
  return true;
}

absl::Duration RoundHistory::LostBy(BootTime now) const {
  return is_open_ ? lost_ + (now - newest_.back().trouble) : lost_;
}

}  // namespace muster::rendezvous
