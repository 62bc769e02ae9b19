#include "agent/process/core/reconnect.h"

#include <algorithm>

#include "base/wire/takeover.h"

namespace muster::agent {
namespace {

// The period in which every agent has one turn: for members well before their leases end, and for all agents
// several times before they give up.
absl::Duration TurnLimit(const NodeTurn& node) {
  const absl::Duration limit = std::min(kMaxReconnectTurn, node.give_up_after / 4);
  const bool leased = node.lease > absl::ZeroDuration();
  return node.last->has_node_rank() && leased ? std::min(node.lease / 3, limit) : limit;
}

}  // namespace

// ---- ReconnectDelays ----------------------------------------------------------------------------------------

absl::Duration ReconnectDelays::Next(const NodeTurn& node) {
  absl::Duration delay = kMinReconnectDelay;
  for (int i = 1; i < attempts_ && delay < kMaxReconnectDelay; ++i) delay *= 2;
  delay = WithJitter(std::min(delay, kMaxReconnectDelay));
  if (attempts_ == 0) {
    const absl::Duration moment = node.reconnect_grace / 2;
    return std::min(delay + TurnOf(node, kFirstReconnectSpacing, moment).after, std::max(delay, moment));
  }
  return InTurn(node, delay, kMaxReconnectDelay);
}

absl::Duration ReconnectDelays::AfterRefusal(BootTime now, const NodeTurn& node) {
  const bool leased = node.lease > absl::ZeroDuration();
  const absl::Duration quick = leased ? std::min(kRefusedRetry, node.lease / 8) : kRefusedRetry;
  const absl::Duration limit = std::max(quick, std::min(kMaxRefusedRetry, node.give_up_after / 4));
  after_refusal_ = now < node.lease_deadline ? quick : std::clamp(2 * after_refusal_, quick, limit);
  const absl::Duration delay = WithJitter(after_refusal_);
  return InTurn(node, delay, delay);
}

// A fraction in [0, 1).
double ReconnectDelays::Fraction() {
  entropy_ = entropy_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<double>(entropy_ >> 33 & 0xfffff) / 0x100000;
}

// Shortens the delay by up to a third.
absl::Duration ReconnectDelays::WithJitter(absl::Duration delay) { return delay - delay / 3 * Fraction(); }

ReconnectDelays::Turn ReconnectDelays::TurnOf(const NodeTurn& node, absl::Duration spacing, absl::Duration limit) {
  const bool member = node.last->has_node_rank();
  const int64_t members = std::max(member ? 1 : 0, node.last->node_count());
  const int64_t position = member ? node.last->node_rank() : members + node.place_in_line;
  const absl::Duration all = spacing * std::max(members, position + 1);
  if (all <= limit) return {spacing * position, all};
  // If the time is too short for all members the turns are closer together. A spare does not know the number of
  // spares, so beyond the limit its turn is random.
  if (member) return {limit * position / members, limit};
  const absl::Duration after = spacing * position;
  return {after <= limit ? after : limit / 2 + limit / 2 * Fraction(), limit};
}

// The delay before a further attempt. If the turns of all agents take longer than `free`, this agent waits for its
// own turn.
absl::Duration ReconnectDelays::InTurn(const NodeTurn& node, absl::Duration delay, absl::Duration free) {
  const Turn turn = TurnOf(node, kReconnectSpacing, TurnLimit(node));
  if (turn.period <= free) return delay;
  return attempts_ == 1 ? delay + turn.after : turn.period;
}

// ---- CoordinatorLink ----------------------------------------------------------------------------------------

void CoordinatorLink::Begin(BootTime now, bool was_in_job) {
  last_contact_ = connect_at_ = now;
  ever_up_ = was_in_job;
}

void CoordinatorLink::Connecting(BootTime now) {
  state_ = State::kConnecting;
  connect_began_ = now;
}

void CoordinatorLink::Up(BootTime now) {
  state_ = State::kUp;
  connected_at_ = now;  // last_contact_ changes only with a directive
  came_back_ = ever_up_;
  ever_up_ = true;
  refused_since_ = absl::InfiniteFuture();
}

void CoordinatorLink::Down(std::string why, BootTime retry_at) {
  state_ = State::kDown;
  why_down_ = std::move(why);
  is_refused_ = false;
  connect_at_ = retry_at;
}

bool CoordinatorLink::NoteRefused(BootTime now) {
  const bool goes_on = refused_since_ != absl::InfiniteFuture() && now - last_refused_ <= kRefusalGap;
  last_refused_ = now;
  is_refused_ = true;
  if (!goes_on) refused_since_ = now;
  return !goes_on;
}

void CoordinatorLink::Heard(BootTime now) {
  last_contact_ = now;
  unheard_ = absl::ZeroDuration();
}

bool CoordinatorLink::IsSilent(BootTime now, absl::Duration limit) const {
  return up() && now > std::max(last_contact_, connected_at_) + limit;
}

}  // namespace muster::agent
