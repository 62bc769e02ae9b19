#include "agent/process/core/held_events.h"

#include <algorithm>

#include "base/wire/ids.h"
#include "base/wire/ranges.h"

namespace muster::agent {
namespace {

bool IsSame(const v1::Event& a, const v1::Event& b) {
  return a.number() == b.number() && Same(a.epoch(), b.epoch());
}

}  // namespace

// A coordinator begins anew with each connection.
void HeldEvents::Learn(BootTime now, const v1::Directive& directive) {
  for (const v1::Event& event : directive.events()) {
    if (std::any_of(held_.begin(), held_.end(), [&](const auto& entry) { return IsSame(entry.second, event); }))
      continue;
    held_.emplace_back(now - absl::Milliseconds(event.age_ms()), event);
    bytes_ += event.ByteSizeLong();
  }
  while (held_.size() > kMaxEventsHeld || bytes_ > kMaxHeldBytes) {
    bytes_ -= held_.front().second.ByteSizeLong();
    held_.pop_front();
  }
}

void HeldEvents::AddTo(BootTime now, google::protobuf::RepeatedPtrField<v1::Event>* events) const {
  for (const auto& [at, event] : held_) {
    v1::Event* const copy = events->Add();
    *copy = event;
    copy->set_age_ms(WireMilliseconds(now - at));
  }
}

}  // namespace muster::agent
