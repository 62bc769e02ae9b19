// Drain: why a running round is stopped, and when nothing of it can run any longer.
//
// A round is stopped as a whole: its workers form one group, and none can go on without the others. The next round
// begins only when each member is drained: it is READY after this drain's STOP, is known to have ended, or its
// lease has run out. A coordinator that has just started also waits for members that it cannot see.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/core/time.h"
#include "rendezvous/core/host.h"

namespace muster::rendezvous {

struct Job;

struct StopReason {
  std::string text;
  bool is_logged = false;  // the log has this text already
  // Worker and node that caused the stop; -1: none.
  int64_t rank = -1;
  int64_t node_rank = -1;
};

// Why the round that runs must be stopped; nullopt: it goes on. (Growth is another reason: see gathering.h.)
std::optional<StopReason> WhyStop(BootTime now, const Job& job);

// Whether a host that has not attached since this coordinator started may still hold a lease of the predecessor.
// It may be a member of the reported round, or of a later round that no attached node has heard of: that round's
// RUN may have reached this one host, and other nodes may have its place by now.
bool PredecessorsRoundMayRun(BootTime now, const Job& job);
// Until then at the latest: lease and margin after this coordinator's start. Later by what a predecessor that is
// cut off with some members needs to notice and to stop them, unless that is impossible.
BootTime PredecessorsLeasesEnd(const Job& job);

// Nothing of the round can run any longer, and nobody can hold a lease of an earlier one.
bool RoundIsDrained(BootTime now, const Job& job);

// The time for it is over. A member that still has not confirmed its STOP gets no lease any more, and is waited
// for only until its last one has ended.
bool StopIsOverdue(BootTime now, const Job& job, const Host& host);

// The host's newest status was sent after it had received the STOP of this drain.
bool HasAppliedStop(const Job& job, const Host& host);

// A member that is not drained, or a member of an older round whose workers may still run.
bool HoldsUpDrain(BootTime now, const Job& job, const Host& host);

}  // namespace muster::rendezvous
