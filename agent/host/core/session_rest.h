// Which processes of a worker's session finish in their own time once a stop signal has ended the session's
// leader. `bash train.sh` is ended by SIGTERM at once, and the Python that it started is still saving. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::host {

struct SessionMember {
  int64_t pid = 0;
  int64_t parent = 0;
  uint64_t start = 0;    // clock ticks since boot: with the pid it names one process of this boot
  bool handles = false;  // it catches the signal, or blocks it to take it by sigwait or signalfd
};

// The members that act on the signal themselves and have no ancestor in the session that does; none if the leader
// does. All others need no time: the signal's default action ends them, or they ignore it (the resource tracker of
// Python's multiprocessing), or they are the helpers of one that had its time and has ended (a pool that was
// forked with its parent's handler). `session`: as it was before the signal was sent, since a handler often begins
// by ignoring the signal.
std::vector<SessionMember> FinishingMembers(int64_t leader, const std::vector<SessionMember>& session);

}  // namespace muster::host
