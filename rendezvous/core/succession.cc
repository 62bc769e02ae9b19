#include "rendezvous/core/succession.h"

#include <algorithm>

#include "base/wire/ids.h"

namespace muster::rendezvous {

Succession::Succession(BootTime now, absl::Duration unseen_limit, uint64_t random)
    : unseen_limit_(unseen_limit), epoch_start_(now), members_known_until_(now + unseen_limit), last_attach_(now) {
  epoch_.set_number(1);
  epoch_.set_random(random);
  own_epochs_.push_back(epoch_);
}

bool Succession::Hear(const v1::Epoch& epoch) {
  had_predecessor_ |= epoch.number() > 0 && !Same(epoch, epoch_);
  if (IsSet(epoch) && !IsOwn(epoch)) {
    predecessors_differ_ |= IsSet(predecessor_) && !Same(predecessor_, epoch);
    predecessor_ = epoch;
  }
  return Compare(epoch, epoch_) > 0;
}

bool Succession::IsOwn(const v1::Epoch& epoch) const {
  return std::any_of(own_epochs_.begin(), own_epochs_.end(),
                     [&epoch](const v1::Epoch& own) { return Same(own, epoch); });
}

void Succession::BeginEpoch(BootTime now, uint64_t above, uint64_t random) {
  epoch_.set_number(above + 1);
  epoch_.set_random(random);
  own_epochs_.push_back(epoch_);
  epoch_start_ = last_attach_ = now;
  members_known_until_ = now + unseen_limit_;
}

void Succession::NotePredecessorHeard(BootTime when) {
  predecessor_heard_at_ = std::max(predecessor_heard_at_, when);
}

BootTime Succession::WhenLost(BootTime now) const {
  return predecessor_heard_at_ == absl::InfinitePast() ? now : predecessor_heard_at_;
}

void Succession::LearnFarewell(const v1::PrimaryEnded& farewell, BootTime ended_at) {
  const auto differs = [&farewell](const v1::PrimaryEnded& other) {
    return other.node_rank() != farewell.node_rank() || other.known_to() != farewell.known_to() ||
           !Same(other.by(), farewell.by());
  };
  farewells_differ_ |= farewell_ && differs(*farewell_);
  farewell_ = farewell;
  primary_ended_at_ = std::min(primary_ended_at_, ended_at);
}

void Succession::ForgetFarewell() {
  farewell_.reset();
  farewells_differ_ = false;
  primary_ended_at_ = absl::InfiniteFuture();
}

bool Succession::FarewellIsValid() const {
  return farewell_ && !farewells_differ_ && !predecessors_differ_ && Same(farewell_->by(), predecessor_);
}

}  // namespace muster::rendezvous
