// The state of this agent's host: alive, silent, ending, or gone, with the time of each step. The agent ends what
// a dead host has started, and then reports HOST_GONE to the coordinator. AgentCore makes the decisions; this
// class answers its questions.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace muster::agent {

inline constexpr absl::Duration kHostEndWait = absl::Seconds(1);  // from a closed link to the pidfd of a dead host
inline constexpr absl::Duration kGoneLimit = absl::Seconds(10);   // time limit for reporting HOST_GONE

class HostWatch {
 public:
  void Heard() { silence_ = absl::ZeroDuration(); }  // a status has come, or the agent's role has begun
  // Running time of this process, so that a pause of the host and of this process together is no silence.
  void CountSilence(absl::Duration counted) { silence_ += counted; }
  void LinkClosed(BootTime now);
  void BeginEnding(BootTime now);  // it is dead, or about to be killed
  void AllEnded(BootTime now);     // nothing of it that can be found is alive
  void ToldAs(uint64_t seq) { told_as_ = seq; }

  bool link_closed() const { return link_closed_at_.has_value(); }
  // The link has closed and the host has not ended since: it has another agent.
  bool HasDroppedUs(BootTime now) const;
  bool IsSilentFor(absl::Duration limit) const { return silence_ >= limit; }
  bool ending() const { return ended_at_.has_value(); }  // stays true once all has ended
  absl::Duration EndedAgo(BootTime now) const { return now - ended_at_.value_or(now); }
  bool gone() const { return gone_; }
  uint64_t told_as() const { return told_as_; }  // seq of the status that says HOST_GONE
  bool TellingIsOverdue(BootTime now) const { return now >= tell_until_; }

 private:
  absl::Duration silence_;
  std::optional<BootTime> link_closed_at_;
  std::optional<BootTime> ended_at_;
  bool gone_ = false;
  BootTime tell_until_ = absl::InfiniteFuture();
  uint64_t told_as_ = 0;
};

}  // namespace muster::agent
