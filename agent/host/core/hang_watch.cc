#include "agent/host/core/hang_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/ids.h"
#include "base/note.h"
#include "base/picture/picture_message.h"
#include "base/picture/picture_text.h"

namespace muster::host {

void HangWatch::BeginRound(BootTime now, const v1::Round& round, int workers) {
  round_ = round.id();
  first_rank_ = round.first_rank();
  hang_is_ended_ = false;
  live_.clear();
  for (int local_rank = 0; local_rank < workers; ++local_rank) live_.insert(local_rank);
  if (watches_) clock_.BeginRound(now, workers);
}

void HangWatch::EndRound() {
  clock_.EndRound();
  picture_.Clear();
}

void HangWatch::OnEnded(int local_rank) {
  live_.erase(local_rank);
  clock_.OnEnded(local_rank);
}

void HangWatch::AskedBySignal(Effects* out) {
  by_signal_ = true;
  Take(out);
}

void HangWatch::Take(Effects* out) {
  if (std::exchange(is_taken_, true)) return;
  out->push_back(TakePicture{first_rank_});
}

void HangWatch::OnDirective(const v1::HostDirective& directive, Effects* out) {
  asked_ = directive.picture();
  if (asked_ != picture_.number()) picture_.Clear();
  if (asked_ != 0 && asked_ != taken_for_ && !is_taken_) {
    taken_for_ = asked_;
    Take(out);
  }
  if (directive.has_hang() && Same(directive.hang().round(), round_)) EndHung(directive.hang(), out);
}

// The coordinator names a worker of this node. If that one has ended already, as the others wait for in vain, the
// round is made to fail by another one.
void HangWatch::EndHung(const v1::Hang& hang, Effects* out) {
  if (live_.empty() || std::exchange(hang_is_ended_, true)) return;
  const int named = hang.rank() - first_rank_;
  out->push_back(EndHungWorker{live_.count(named) > 0 ? named : *live_.begin(), hang.why()});
}

bool HangWatch::OnPicture(std::vector<RankPicture> ranks, Effects* out) {
  is_taken_ = false;
  for (RankPicture& rank : ranks) rank.idle = clock_.Of(rank.rank - first_rank_);
  if (std::exchange(by_signal_, false)) {
    Say(Severity::kInfo, "picture of this node's workers:", out, {.event = events::kPicture});
    for (const std::string& line : PictureLines(ranks))
      Say(Severity::kInfo, line, out, {.event = events::kPicture});
  }
  out->push_back(KeepPicture{PictureText(ranks)});
  if (asked_ == 0) return false;
  taken_for_ = asked_;
  picture_ = ToMessage(asked_, first_rank_, ranks);
  return true;
}

void HangWatch::Describe(v1::HostStatus* status) const {
  if (const auto quiet = clock_.Shortest()) status->set_quiet_ms(absl::ToInt64Milliseconds(*quiet));
  status->set_signs(clock_.signs());
  if (picture_.number() != 0) *status->mutable_picture() = picture_;
}

}  // namespace muster::host
