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
  if (watches_) clock_.BeginRound(now, workers);
}

void HangWatch::EndRound() {
  clock_.EndRound();
  picture_.Clear();
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
  if (asked_ != picture_.number()) Take(out);
  if (directive.has_hang() && Same(directive.hang().round(), round_)) EndHung(directive.hang(), out);
}

// The coordinator names a worker of this node. If that one has ended already, as the others wait for in vain, the
// round is made to fail by another one.
void HangWatch::EndHung(const v1::Hang& hang, Effects* out) {
  const std::optional<int> ended = clock_.LiveOne(hang.rank() - first_rank_);
  if (ended && !std::exchange(hang_is_ended_, true)) out->push_back(EndHungWorker{*ended, hang.why()});
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
  picture_ = ToMessage(asked_, first_rank_, ranks);
  return true;
}

void HangWatch::Describe(v1::HostStatus* status) const {
  if (const auto quiet = clock_.Shortest()) status->set_quiet_ms(absl::ToInt64Milliseconds(*quiet));
  status->set_signs(clock_.signs());
  if (picture_.number() != 0) *status->mutable_picture() = picture_;
}

}  // namespace muster::host
