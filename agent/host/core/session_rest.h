// Selects the processes of a worker's session that get the grace period when a stop signal has ended the session's
// leader. For example SIGTERM ends `bash train.sh` at once while the Python that it started is still saving. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::host {

struct SessionMember {
  int64_t pid = 0;
  int64_t parent = 0;
  uint64_t start = 0;    // clock ticks since boot; identifies one process of this boot together with the pid
  bool handles = false;  // it catches the signal, or blocks it in order to use sigwait or signalfd
};

// The members that handle the signal and have no ancestor in the session that handles it; none if the leader
// handles it. All other members need no grace period: the signal's default action ends them, or they ignore the
// signal (the resource tracker of Python's multiprocessing), or they are helpers of a process that had its grace
// period and has ended (a pool that was forked with its parent's handler). `session`: its state before the signal
// was sent, because many handlers begin by ignoring the signal.
std::vector<SessionMember> FinishingMembers(int64_t leader, const std::vector<SessionMember>& session);

}  // namespace muster::host
