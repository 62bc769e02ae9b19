// The state of this agent's host: alive, silent, ending, or gone, with the time of each step. The agent ends what
// a dead host has started, and then reports HOST_GONE to the coordinator. HostSide makes the decisions; this
// class answers its questions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/core/time.h"

namespace muster::agent {

inline constexpr absl::Duration kHostEndWait = absl::Seconds(1);  // from a closed link to the pidfd of a dead host
inline constexpr absl::Duration kGoneLimit = absl::Seconds(10);   // time limit for reporting HOST_GONE

// The same after a suspension for longer than the lease. A coordinator that ran meanwhile hears of it at once, or
// takes the host for lost soon; one that starts later has nothing to learn from it.
inline constexpr absl::Duration kSuspendedGoneLimit = absl::Seconds(1);
inline constexpr absl::Duration kSuspension = absl::Seconds(1);  // a shorter pause does not count

class HostWatch {
 public:
  // This process runs at this moment, which it notes at least at every tick.
  void Runs(BootTime now, BootTime lease_deadline);
  // The lease ended while this process stood still. So did the host, most likely, since both are on one machine:
  // it could not stop its workers, and the kernel has ended it.
  bool WasSuspendedAt(BootTime lease_deadline) const { return suspended_at_ == lease_deadline; }
  void Heard() { silence_ = absl::ZeroDuration(); }  // a status has come, or the agent's role has begun
  // Running time of this process, so that a pause of the host and of this process together is no silence.
  void CountSilence(absl::Duration counted) { silence_ += counted; }
  void LinkClosed(BootTime now);
  // The host is dead, or about to be killed. how: as AgentStatus.how_host_ended.
  void BeginEnding(BootTime now, std::string how);
  // No process of the host that can be found is alive. limit: for telling the coordinator.
  void AllEnded(BootTime now, absl::Duration limit);
  void ToldAs(uint64_t seq) { told_as_ = seq; }

  bool link_closed() const { return link_closed_at_.has_value(); }
  // The link has closed and the host has not ended since: it has another agent.
  bool HasDroppedUs(BootTime now) const;
  bool IsSilentFor(absl::Duration limit) const { return silence_ >= limit; }
  bool ending() const { return ended_at_.has_value(); }  // stays true once all has ended
  absl::Duration EndedAgo(BootTime now) const { return now - ended_at_.value_or(now); }
  const std::string& how_ended() const { return how_ended_; }
  bool gone() const { return gone_; }
  uint64_t told_as() const { return told_as_; }  // seq of the status that says HOST_GONE
  bool TellingIsOverdue(BootTime now) const { return now >= tell_until_; }

 private:
  BootTime ran_at_ = absl::InfiniteFuture();
  std::optional<BootTime> suspended_at_;
  absl::Duration silence_;
  std::optional<BootTime> link_closed_at_;
  std::optional<BootTime> ended_at_;
  std::string how_ended_;
  bool gone_ = false;
  BootTime tell_until_ = absl::InfiniteFuture();
  uint64_t told_as_ = 0;
};

}  // namespace muster::agent
