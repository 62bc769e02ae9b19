#include "rendezvous/core/event_book.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/core/note.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "base/wire/ranges.h"

namespace muster::rendezvous {
namespace {

using Identity = std::tuple<uint64_t, uint64_t, uint64_t>;

Identity IdentityOf(const v1::Event& event) {
  return {event.epoch().number(), event.epoch().random(), event.number()};
}

}  // namespace

const std::vector<std::string_view>& JobEvents() {
  static const auto* const names = new std::vector<std::string_view>{
      events::kRoundStarted, events::kRoundStopping, events::kRoundEnded,      events::kRecovered,
      events::kFirstSign,    events::kNodeLost,      events::kNodeRefused,     events::kNodeSetAside,
      events::kNodeUnusable, events::kNodeUsable,    events::kNodesDiffer,     events::kHang,
      events::kSlowRanks,    events::kTakeover,      events::kVerdict,         events::kStalled,
      events::kRestartStorm, events::kBudgetLow,     events::kSparesExhausted, events::kLeaving,
      events::kNodeSuspect,  events::kWaitingLong,   events::kOrdered};
  return *names;
}

bool IsJobEvent(std::string_view name) {
  const auto& names = JobEvents();
  return std::find(names.begin(), names.end(), name) != names.end();
}

void EventBook::Add(BootTime now, const v1::Epoch& epoch, v1::Event event) {
  *event.mutable_epoch() = epoch;
  event.set_number(++last_);
  event.set_text(CutUtf8(OneLine(event.text()), kMaxEventText));
  kept_.push_back({now, std::move(event), true});
  if (kept_.size() > size_t{kMaxEventsKept}) kept_.pop_front();
}

void EventBook::Adopt(BootTime now, const Events& held) {
  if (held.empty()) return;
  std::set<Identity> known;
  for (const Kept& kept : kept_) known.insert(IdentityOf(kept.event));
  for (const v1::Event& event : held) {
    if (!IsJobEvent(event.name()) || !known.insert(IdentityOf(event)).second) continue;
    const BootTime at = now - absl::Milliseconds(std::max<int64_t>(0, event.age_ms()));
    const auto after =
        std::upper_bound(kept_.begin(), kept_.end(), at, [](BootTime t, const Kept& kept) { return t < kept.at; });
    Kept kept{at, event};
    kept.event.set_text(CutUtf8(OneLine(event.text()), kMaxEventText));
    kept.event.set_host(CutUtf8(OneLine(event.host()), kMaxEventText));
    kept_.insert(after, std::move(kept));
  }
  while (kept_.size() > size_t{kMaxEventsKept}) kept_.pop_front();
}

v1::Event EventBook::Aged(BootTime now, const Kept& kept) {
  v1::Event event = kept.event;
  event.set_age_ms(WireMilliseconds(now - kept.at));
  return event;
}

uint64_t EventBook::CopyAfter(BootTime now, uint64_t number, int most, Events* out) const {
  if (number >= last_) return number;  // as usual
  for (const Kept& kept : kept_) {
    if (!kept.is_own || kept.event.number() <= number) continue;
    if (out->size() == most) break;
    number = kept.event.number();
    *out->Add() = Aged(now, kept);
  }
  return number;
}

v1::Events EventBook::ToMessage(BootTime now) const {
  v1::Events events;
  for (const Kept& kept : kept_) *events.add_newest() = Aged(now, kept);
  return events;
}

}  // namespace muster::rendezvous
