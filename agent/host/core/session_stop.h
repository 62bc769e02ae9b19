// Decides which processes of a worker's session get a stop signal, when they get it, and for which of them the end
// of the worker waits. A trainer that saves at SIGTERM needs its helpers until it has saved: it fails if its
// DataLoader workers, its data server or the `tee` behind it end at once. So the topmost process that handles the
// signal gets it first; its helpers get it when that process has ended, or when half of the grace period is over.
// Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace muster::host {

struct SessionMember {
  int64_t pid = 0;
  int64_t parent = 0;    // when it was first seen: the parent may have ended since
  uint64_t start = 0;    // clock ticks since boot; identifies one process of this boot together with the pid
  bool handles = false;  // it catches the signal, or blocks it in order to use sigwait or signalfd
  bool shell = false;    // see IsShell; only read if it handles the signal
  bool reads = false;    // its standard input is a pipe, but not muster's own; only read if it handles nothing
  bool forked = false;   // it was forked without an exec since, so it runs its parent's program
  bool ended = false;    // since it was first seen
};

// What to do at one moment of a stop. Pids of living members.
struct StopPlan {
  // The signal may go to the leader's whole process group: no helper has to be left out. Holds for the first plan.
  bool whole_group = false;
  std::vector<int64_t> now;      // get the signal, unless they have got it
  std::vector<int64_t> awaited;  // of `now`, those that have the grace period
  std::vector<int64_t> later;    // get it once half of the grace period is over
};

// `session`: its state before the signal was sent, because many handlers begin by ignoring the signal; `ended` is
// of the present. Call it when the stop begins and again whenever an awaited process has ended.
//
// A member that handles the signal covers its descendants: it gets the signal now, they get it later. Once it has
// ended the rule applies again below it, so whoever still handles the signal has the rest of the grace period. A
// shell covers nothing: its own handler runs only when the present command has ended.
//
// A copy, which was forked without exec from a member that handles the signal (a DataLoader worker, a pool), never
// gets it and is never awaited: the handler that it inherited is its parent's, and would save a second, wrong
// state. The leader of the session does not count as such a copy: workers of --preload are forked, too.
//
// A member that neither handles the signal nor is an ancestor of one that does is a helper: it gets the signal
// later. Everybody gets it now if only shells handle it, and if it is SIGINT or SIGQUIT, as from a terminal.
//
// A helper that reads from a pipe (a filter behind the output, as in `exec > >(tee log)`) gets it later in any
// case but the last: it ends by itself once nobody writes any more, and what the others say last goes through it.
StopPlan PlanStop(int64_t leader, const std::vector<SessionMember>& session, int signal);

// Members that handle the signal and are not covered by another one, for signals that are passed through.
std::vector<int64_t> TopmostHandlers(int64_t leader, const std::vector<SessionMember>& session);

// Whether this is the name of a shell's program file.
bool IsShell(std::string_view program);

}  // namespace muster::host
