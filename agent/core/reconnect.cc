// When the agent tries to reach the coordinator, and when it gives up.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "agent/core/agent_core.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "base/takeover.h"

namespace muster::agent {
namespace {

std::string NameOfCoordinator(const v1::NodeConfig& config) {
  return absl::StrCat(TitleOfCoordinator(config), " at ", ToString(config.primary()));
}

}  // namespace

const char* TitleOfCoordinator(const v1::NodeConfig& config) {
  return config.coordinator_alone() ? "the coordinator" : "the primary";
}

void AgentCore::WatchCoordinator(BootTime now, Effects* out) {
  if (link_ == Link::kConnecting && now > connect_began_ + kConnectLimit + absl::Seconds(1)) {
    out->emplace_back(std::in_place_type<Disconnect>);
    link_ = Link::kDown;
    connect_at_ = now + ReconnectDelay();
  }
  // If no directive arrives on an open stream for half a lease, try a new connection.
  if (link_ == Link::kUp && Leased() && now > std::max(last_contact_, connected_at_) + LeaseDuration() / 2) {
    out->emplace_back(std::in_place_type<Disconnect>);
    link_ = Link::kDown;
    last_disconnect_ = absl::StrCat("no answer from ", NameOfCoordinator(config_), " on an open connection");
    connect_at_ = now + ReconnectDelay();
  }
  if (link_ == Link::kDown && now >= connect_at_) {
    link_ = Link::kConnecting;
    connect_began_ = now;
    connect_at_ = absl::InfiniteFuture();
    ++attempts_;
    out->emplace_back(std::in_place_type<Connect>);  // GCC 12 takes parts of a moved one for uninitialised
  }
  if (link_ != Link::kUp && !order_.has_exit()) {
    SetWaiting(
        now,
        last_disconnect_.empty() ? absl::StrCat("connecting to ", NameOfCoordinator(config_)) : last_disconnect_,
        out);
    GiveUpOnCoordinator(now, out);
  }
}

absl::Duration AgentCore::CoordinatorTimeout() const {
  return absl::Milliseconds(ever_connected_ ? config_.coordinator_timeout_ms() : config_.join_timeout_ms());
}

void AgentCore::GiveUpOnCoordinator(BootTime now, Effects* out) {
  const bool joining = !ever_connected_;
  const absl::Duration limit = CoordinatorTimeout();
  // Measured in running time: a process that was stopped itself has not tried to reach the coordinator meanwhile.
  const absl::Duration silence = joining ? now - FromBootNanos(memory_.joined_boot_ns()) : unheard_;
  // While the host is being ended giving up would have no effect: TellHost sends it nothing any more.
  if (silence < limit || ending_host_) return;
  const bool observer = config_.role() == v1::ROLE_OBSERVER;
  ExitAlone(now, observer && !joining ? 0 : kExitUnavailable,
            absl::StrCat("gave up after ", absl::FormatDuration(limit), " (",
                         joining ? "--join-timeout" : "--coordinator-timeout", "): ",
                         last_disconnect_.empty() ? absl::StrCat("no answer from ", NameOfCoordinator(config_))
                                                  : last_disconnect_),
            out);
}

void AgentCore::ReachedAnotherJob(BootTime now, const std::string& reason) {
  link_ = Link::kDown;
  last_disconnect_ =
      absl::StrCat("another job's coordinator answers at ", ToString(config_.primary()), ": ", reason);
  connect_at_ = now + RefusedDelay(now);
}

// Delay after a refusal by another job's coordinator. While its lease lasts a node tries often, because its own
// coordinator may be back in time for its workers. After that a few seconds do not matter and the other job should
// not be disturbed: the delay doubles, up to a limit that still leaves several attempts before the node gives up.
// Thousands of nodes take turns at any time.
absl::Duration AgentCore::RefusedDelay(BootTime now) {
  const absl::Duration quick = Leased() ? std::min(kRefusedRetry, LeaseDuration() / 8) : kRefusedRetry;
  const absl::Duration limit = std::max(quick, std::min(kMaxRefusedRetry, CoordinatorTimeout() / 4));
  refused_delay_ = now < lease_deadline_ ? quick : std::clamp(2 * refused_delay_, quick, limit);
  const absl::Duration delay = WithJitter(refused_delay_);
  return InTurn(delay, delay);
}

// A fraction in [0, 1).
double AgentCore::Random() {
  entropy_ = entropy_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<double>(entropy_ >> 33 & 0xfffff) / 0x100000;
}

// Shortens the delay by up to a third.
absl::Duration AgentCore::WithJitter(absl::Duration delay) { return delay - delay / 3 * Random(); }

// The period in which every agent has one turn: for members well before their leases end, and for all agents
// several times before they give up.
absl::Duration AgentCore::TurnLimit() const {
  const absl::Duration limit = std::min(kMaxReconnectTurn, CoordinatorTimeout() / 4);
  return memory_.last().has_node_rank() && Leased() ? std::min(LeaseDuration() / 3, limit) : limit;
}

// Connections are the main cost for a coordinator that takes over a very large job, and thousands at once would
// time out and start again. So every agent has a turn of its own: members in the order of their ranks, before the
// lease ends, then spares in the order of their line.
AgentCore::Turn AgentCore::ReconnectTurn(absl::Duration spacing, absl::Duration limit) {
  const v1::Round& last = memory_.last();
  const bool member = last.has_node_rank();
  const int64_t members = std::max(member ? 1 : 0, last.node_count());
  const int64_t position = member ? last.node_rank() : members + place_in_line_;
  const absl::Duration all = spacing * std::max(members, position + 1);
  if (all <= limit) return {spacing * position, all};
  // If the time is too short for all members the turns are closer together. A spare does not know the number of
  // spares, so beyond the limit its turn is random.
  if (member) return {limit * position / members, limit};
  const absl::Duration after = spacing * position;
  return {after <= limit ? after : limit / 2 + limit / 2 * Random(), limit};
}

// Short at first, because a coordinator's successor is there within moments, then longer, with jitter of a third.
// In very large jobs the first attempts are spread over half the reconnect grace, which costs no round, and
// further attempts over the time that it takes to admit all agents.
absl::Duration AgentCore::ReconnectDelay() {
  absl::Duration delay = kMinReconnectDelay;
  for (int i = 1; i < attempts_ && delay < kMaxReconnectDelay; ++i) delay *= 2;
  delay = WithJitter(std::min(delay, kMaxReconnectDelay));
  if (attempts_ == 0) {
    const absl::Duration moment = absl::Milliseconds(config_.reconnect_grace_ms()) / 2;
    return std::min(delay + ReconnectTurn(kFirstReconnectSpacing, moment).after, std::max(delay, moment));
  }
  return InTurn(delay, kMaxReconnectDelay);
}

// The delay before a further attempt. If the turns of all agents take longer than `free`, this agent waits for its
// own turn.
absl::Duration AgentCore::InTurn(absl::Duration delay, absl::Duration free) {
  const Turn turn = ReconnectTurn(kReconnectSpacing, TurnLimit());
  if (turn.period <= free) return delay;
  return attempts_ == 1 ? delay + turn.after : turn.period;
}

}  // namespace muster::agent
